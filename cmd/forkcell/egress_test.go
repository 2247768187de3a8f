package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lab is one home with one cell and servers on the host's loopback. The cell
// reaches these only by names that the operator pins to them.
type lab struct {
	*testing.T
	dir   string
	ca    *testCA
	sites []*site
	flags []string // of every run
	env   []string // of the operator
	made  bool
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, dir: t.TempDir(), ca: newTestCA(t)}
	for _, d := range []string{"work", "home"} {
		l.ok(os.Mkdir(filepath.Join(l.dir, d), 0o755))
	}
	l.ok(os.WriteFile(filepath.Join(l.dir, "ca.pem"), l.ca.pem, 0o644))
	l.write("README", "a workspace\n")
	return l
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// write puts a file into the workspace, before the cell is made of it.
func (l *lab) write(name, text string) {
	l.Helper()
	l.ok(os.WriteFile(filepath.Join(l.dir, "work", name), []byte(text), 0o755))
}

// forkcell runs the program as an operator does.
func (l *lab) forkcell(args ...string) (code int, out, errs string) {
	l.Helper()
	out, errs, err := finish(l.T, l.command(args...))
	if err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			l.Fatal(err)
		}
		code = exit.ExitCode()
	}
	return code, out, errs
}

func (l *lab) command(args ...string) *exec.Cmd {
	cmd := exec.Command("forkcell", args...)
	cmd.Dir = l.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(l.dir, "home"),
		"FORKCELL_HOME=" + filepath.Join(l.dir, "state"),
	}, l.env...)
	return cmd
}

// outcome is the result of one governed run.
type outcome struct {
	*lab
	code   int
	said   string // on both streams
	events []record
}

// record is the part of an event that the tests look at.
type record struct {
	Class  int    `json:"class_uid"`
	Action string `json:"action"`
	Detail string `json:"status_detail"`
	Count  int    `json:"count"`
	Query  struct {
		Hostname string `json:"hostname"`
		Type     string `json:"type"`
	} `json:"query"`
	Actor struct {
		Process struct {
			PID  int `json:"pid"`
			File struct {
				Path string `json:"path"`
			} `json:"file"`
		} `json:"process"`
	} `json:"actor"`
}

// Classes of events.
const (
	networkActivity = 4001
	httpActivity    = 4002
	dnsActivity     = 4003
	finding         = 2004
)

// run runs a shell script in the cell under a policy.
func (l *lab) run(policy, script string) *outcome {
	l.Helper()
	if !l.made {
		if code, _, errs := l.forkcell("init", "box", "--from", "work"); code != 0 {
			l.Fatalf("init: %s", errs)
		}
		l.made = true
	}
	l.ok(os.WriteFile(filepath.Join(l.dir, "policy.yaml"), []byte(policy), 0o644))
	// The time limit turns what hangs into a failure that says where.
	args := []string{"run", "--quiet", "--timeout", "40s", "--policy", "policy.yaml", "--ca", "ca.pem", "--result", "result.json"}
	for _, s := range l.sites {
		args = append(args, "--resolve", s.pin())
	}
	args = slices.Concat(args, l.flags, []string{"box", "--", "sh", "-c", script})
	o := &outcome{lab: l}
	var out, errs string
	o.code, out, errs = l.forkcell(args...)
	o.said = out + errs
	data, err := os.ReadFile(filepath.Join(l.dir, "result.json"))
	if err != nil {
		l.Fatalf("%v\n%s", err, o.said)
	}
	var result struct {
		Run string `json:"run_id"`
	}
	l.ok(json.Unmarshal(data, &result))
	if result.Run == "" {
		l.Fatalf("the run was refused: %s\n%s", data, o.said)
	}
	o.read(result.Run)
	return o
}

// batch runs scripts one after the other in one run, which is much cheaper than
// a run each, and returns what each of them said.
func (l *lab) batch(policy string, scripts []string) (*outcome, []string) {
	l.Helper()
	const mark = "=== next\n"
	var b strings.Builder
	for _, s := range scripts {
		b.WriteString("printf '" + mark + "'\n{ " + s + "\n} 2>&1\n")
	}
	o := l.run(policy, b.String()+"true")
	said := strings.Split(o.said, mark)[1:]
	if len(said) != len(scripts) {
		l.Fatalf("%d of %d scripts were run:\n%s", len(said), len(scripts), o.said)
	}
	return o, said
}

func (o *outcome) read(run string) {
	o.Helper()
	code, out, errs := o.forkcell("events", "query", "--json", "--run", run, "--limit", "10000")
	if code != 0 {
		o.Fatalf("events: %s", errs)
	}
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		o.ok(json.Unmarshal(lines.Bytes(), &r))
		o.events = append(o.events, r)
	}
	o.ok(lines.Err())
}

// says checks the run's exit code and that it said something.
func (o *outcome) says(code int, want string) {
	o.Helper()
	if o.code != code || !strings.Contains(o.said, want) {
		o.Fatalf("exit %d, want %d and %q in:\n%s\n%s", o.code, code, want, o.said, o.denials())
	}
}

// denied checks that an event of the class is a denial for this reason.
func (o *outcome) denied(class int, reason string) {
	o.Helper()
	for _, r := range o.events {
		if r.Class == class && r.Action == "Denied" && strings.Contains(r.Detail+" "+r.Query.Hostname, reason) {
			return
		}
	}
	o.Errorf("no denial of class %d for %q; the cell said:\n%s\n%s", class, reason, o.said, o.denials())
}

func (o *outcome) denials() string {
	var b strings.Builder
	for _, r := range o.events {
		if r.Action == "Denied" {
			fmt.Fprintf(&b, "denied %d %s %s %s\n", r.Class, r.Query.Hostname, r.Actor.Process.File.Path, r.Detail)
		}
	}
	return b.String()
}

// rule is a policy with one entry. Binaries are separated by spaces.
func rule(endpoint, binaries string) string {
	var list []string
	for b := range strings.FieldsSeq(binaries) {
		list = append(list, fmt.Sprintf("{path: %q}", b))
	}
	return "version: 1\nnetwork_policies:\n  lab:\n    name: lab\n    endpoints: [{" + endpoint + "}]\n    binaries: [" + strings.Join(list, ", ") + "]\n"
}

// need skips a test whose tool is not installed.
func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := os.Stat(tool); err != nil {
			t.Skipf("%s is not installed: %v", tool, err)
		}
	}
}
