package daemon_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// countsInStep is the script of a template: a process of it counts in two files, as fast
// as it can, and the warm process counts in a file and in its memory.
const countsInStep = `
import os, subprocess, sys
writer = '''
import os
a, b = (os.open(name, os.O_RDWR | os.O_CREAT) for name in ("a", "b"))
n = 0
while True:
    n += 1
    os.pwrite(a, b"%012d" % n, 0)
    os.pwrite(b, b"%012d" % n, 0)
'''
subprocess.Popen([sys.executable, "-c", writer])
def read(name):
    try:
        with open(name) as f:
            return int(f.read() or 0)
    except FileNotFoundError:
        return 0
while read("b") < 1000:
    pass
count = 0
while count < 1000:
    count += 1
    with open("count", "w") as f:
        f.write(str(count))
`

// momentCount returns how many branches TestOneMoment makes.
func momentCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FORKCELL_TEST_MOMENTS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOneMoment: every branch of a template has the files and the memory of the moment
// at which it became warm, though its processes were in the middle of something.
func TestOneMoment(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	d := newDaemon(t)
	d.write("setup.py", countsInStep)
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/start", api.StartBody{Warm: &api.WarmBody{Python: &api.WarmPython{Script: "setup.py"}}})
	d.Cleanup(func() { d.remove("demo") })
	const atOnce = 10
	first := ""
	for left := momentCount(t); left > 0; left -= atOnce {
		var res api.BranchResult
		d.want(201, &res, "POST", "/v1/cells/demo/branch", api.BranchBody{Name: "try", N: min(left, atOnce)})
		for _, cell := range res.Names() {
			if got := d.eval(cell, "(read('a') - read('b') in (0, 1), read('count') - count)"); got != "[true,0]" && got != "[true, 0]" {
				t.Errorf("%s: the files are in step, and so are memory and file: %s", cell, got)
			}
			now := d.eval(cell, "(read('a'), read('b'), count)")
			if first == "" {
				first = now
			}
			if now != first {
				t.Errorf("%s: %s, and the first branch has %s", cell, now, first)
			}
		}
		for _, cell := range res.Names() {
			d.remove(cell)
		}
	}
}
