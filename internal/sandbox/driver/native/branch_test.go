package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// warmTemplate is a template of a test.
type warmTemplate struct {
	*testing.T
	*template
}

func newWarmTemplate(t *testing.T, cmd driver.Command) warmTemplate {
	t.Helper()
	needsInterpreter(t)
	return newWarmTemplateOf(t, New(Options{}), cmd, nil)
}

// newWarmTemplateOf writes what the warm process complains of to complaints.
func newWarmTemplateOf(t *testing.T, n *Driver, cmd driver.Command, complaints io.Writer) warmTemplate {
	t.Helper()
	tmpl, err := startCommand(t.Context(), n, cmd, complaints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tmpl.Close(); err != nil {
			t.Error(err)
		}
	})
	return warmTemplate{t, tmpl}
}

func (w warmTemplate) try(number int, out *bytes.Buffer) (driver.Child, error) {
	b := driver.Branch{Number: number, Spec: driver.Spec{ID: "branch", Hostname: fmt.Sprint("branch-", number), Command: driver.Command{Workdir: "/"}}}
	if out != nil {
		b.Stdio.Out = out
	}
	return w.Branch(w.Context(), b)
}

func (w warmTemplate) branch(number int) driver.Child {
	w.Helper()
	c, err := w.try(number, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// evaluate returns the answer of a copy to code.
func (w warmTemplate) evaluate(c driver.Child, code string) string {
	w.Helper()
	question, err := json.Marshal(map[string]string{"type": "eval", "code": code})
	if err != nil {
		w.Fatal(err)
	}
	data, err := c.Ask(w.Context(), question)
	if err != nil {
		w.Fatalf("%s: %v", code, err)
	}
	return string(data)
}

// ask returns the value of an expression in a copy.
func (w warmTemplate) ask(c driver.Child, code string) string {
	w.Helper()
	var answer struct {
		Value string
		Error any
	}
	data := w.evaluate(c, code)
	if err := json.Unmarshal([]byte(data), &answer); err != nil || answer.Error != nil {
		w.Fatalf("%s: %s, %v", code, data, err)
	}
	return answer.Value
}

// TestBranches: a copy has the memory of the warm process and nothing else of it.
func TestBranches(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("import random\nloaded = [40]\nserve()"))
	random := map[string]bool{}
	for i := range 3 {
		c := w.branch(i)
		for code, want := range map[string]string{
			"loaded[0]":                        "40",
			"loaded.append(1) or len(loaded)":  "2", // of the copy's own list
			"socket.gethostname()":             fmt.Sprintf("'branch-%d'", i),
			"os.getuid() == os.geteuid()":      "True",
			"sorted(os.listdir('/proc'))[0]":   "'1'",
			"len(os.listdir('/proc/self/fd'))": "5", // streams, the line, and that of the list
			"'FORKCELL_WARM_FD' in os.environ": "False",
		} {
			if got := w.ask(c, code); got != want {
				t.Errorf("branch %d: %s is %s", i, code, got)
			}
		}
		random[w.ask(c, "random.random()")] = true
	}
	if len(random) != 3 {
		t.Errorf("random numbers of three branches: %v", random)
	}
}

// TestEval: what code gives, prints and raises comes back.
func TestEval(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	c := w.branch(1)
	for code, want := range map[string]string{
		"x = 5":                 `{"type":"value","value":null,"value_json":null,"output":"","error":null}`,
		"[x, {'a': 1.5}]":       `{"type":"value","value":"[5, {'a': 1.5}]","value_json":[5,{"a":1.5}],"output":"","error":null}`,
		"print('hi'); {1}":      `{"type":"value","value":"{1}","value_json":null,"output":"hi\n","error":null}`,
		"float('nan')":          `{"type":"value","value":"nan","value_json":null,"output":"","error":null}`,
		"'x' * 300000 and None": `{"type":"value","value":null,"value_json":null,"output":"","error":null}`,
	} {
		if code == "[x, {'a': 1.5}]" {
			w.ask(c, "x = 5")
		}
		var got, expected any
		if err := errors.Join(json.Unmarshal([]byte(w.evaluate(c, code)), &got), json.Unmarshal([]byte(want), &expected)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(expected, got); d != "" {
			t.Errorf("%s: %s", code, d)
		}
	}
	for code, says := range map[string]string{
		"1/0":              `"type": "ZeroDivisionError"`,
		"raise SystemExit": `"type": "SystemExit"`,
		"if":               `"type": "SyntaxError"`,
		"class E(Exception):\n  def __str__(self): raise ValueError\nraise E": `"message": "<its text raised ValueError>"`,
		"sys.stdout.close()": `"error": null`,
		"1 + 1":              `"value": "2"`,
		"print('\\udcff')":   `"output": "\\udcff\n"`,
		"len(sys.stdout.buffer.write(b'a\\xff') * 'x')": "\"output\": \"a\ufffd\"",
		"'\\0' * 1000000": `"value": "'\\x00`,
		"print('\u20ac' * 1000000); '\u20ac' * 50000 + 'x'": "\u20acx'\"",
		"raise ValueError('\\0' * 1000000)":                 `"type": "ValueError"`,
	} {
		if got := w.evaluate(c, code); !strings.Contains(got, says) {
			t.Errorf("%s: %.300s", code, got)
		}
	}
}

// TestInterrupt: code that nobody waits for any more is interrupted until it ends, code
// that waits for it is not run, and the next question is answered.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	c := w.branch(1)
	ask := func(code string) (answer chan string, cancel func()) {
		ctx, cancel := context.WithCancel(t.Context())
		question, err := json.Marshal(map[string]string{"type": "eval", "code": code})
		if err != nil {
			t.Fatal(err)
		}
		answer = make(chan string, 1)
		go func() {
			data, err := c.Ask(ctx, question)
			answer <- fmt.Sprint(string(data), err)
		}()
		return answer, cancel
	}
	await := func(name string) {
		for file := filepath.Join(fmt.Sprintf("/proc/%d/root/dev/shm", c.(*child).copied.Load().pid), name); ; <-time.After(time.Millisecond) {
			if _, err := os.Stat(file); err == nil {
				return
			}
		}
	}
	endless, stop := ask("open('/dev/shm/begun', 'w').close()\nwhile True: pass")
	await("begun")
	second, stopSecond := ask("open('/dev/shm/second', 'w')")
	stopSecond()
	// A question that waits ends with its caller, whatever the code before it does.
	if got := <-second; got != context.Canceled.Error() {
		t.Error(got)
	}
	stop()
	if got := <-endless; !strings.Contains(got, `"type": "KeyboardInterrupt"`) {
		t.Error(got)
	}
	if got := w.ask(c, "os.listdir('/dev/shm')"); got != "['begun']" {
		t.Error(got)
	}
	for _, code := range []string{
		"try:\n  open('/dev/shm/%s', 'w').close()\n  while True: pass\nexcept KeyboardInterrupt:\n  while True: pass",
		"class E(Exception):\n  def __str__(self):\n    open('/dev/shm/%s', 'w').close()\n    while True: pass\nraise E",
	} {
		name := fmt.Sprintf("begun%d", len(code))
		stubborn, stop := ask(fmt.Sprintf(code, name))
		await(name)
		stop()
		if got := <-stubborn; !strings.Contains(got, "KeyboardInterrupt") {
			t.Error(got)
		}
	}
	idle := c.(*child).copied.Load()
	for range 20 { // one that comes late ends nothing
		if err := idle.signal(unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		if got := w.ask(c, "1 + 1"); got != "2" {
			t.Error(got)
		}
	}
}

// TestSharedMemory: what the warm process shares with others is a private copy in each
// branch, whatever made it, and is protected as it was.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand(`
import mmap
def backed(fd, size):
    os.truncate(fd, size)
    os.write(fd, b"warm")
    return fd
anonymous = mmap.mmap(-1, 3 * 4096)
anonymous[0:4] = anonymous[8192:8196] = b"warm"
memory = mmap.mmap(backed(os.memfd_create("x"), 4096), 4096)
file = mmap.mmap(backed(os.open("/dev/shm/file", os.O_RDWR | os.O_CREAT), 4096), 4096)
named = mmap.mmap(backed(os.open(b"/dev/shm/\xff\r", os.O_RDWR | os.O_CREAT), 4096), 4096)
cut = backed(os.memfd_create("x"), 8192)
short = mmap.mmap(cut, 8192)
os.truncate(cut, 4096)
fixed = mmap.mmap(backed(os.memfd_create("x"), 4096), 4096, prot=mmap.PROT_READ)
_libc.shmat.restype = ctypes.c_void_p
segment = _libc.shmat(_libc.shmget(1, 4096, 0o1600), None, 0)
ctypes.memmove(segment, b"warm", 4)
serve()`))
	one, two := w.branch(1), w.branch(2)
	all := "[bytes(m[0:4]) for m in (anonymous, anonymous[8192:], memory, file, named, short, fixed)] + [ctypes.string_at(segment, 4)]"
	if got, want := w.ask(one, all), "["+strings.Repeat("b'warm', ", 7)+"b'warm']"; got != want {
		t.Error(got)
	}
	w.ask(one, `
for m in (anonymous, memory, file, named, short):
    m[0:4] = b"mine"
ctypes.memmove(segment, b"mine", 4) and None`)
	for _, c := range []driver.Child{two, w.branch(3)} {
		if got, want := w.ask(c, all), "["+strings.Repeat("b'warm', ", 7)+"b'warm']"; got != want {
			t.Errorf("what another branch wrote: %s", got)
		}
		if got := w.ask(c, "[l for l in open('/proc/self/maps', 'rb') if l.split()[1] in (b'rw-s', b'rwxs')]"); got != "[]" {
			t.Errorf("shared: %s", got)
		}
	}
}

// TestBranchesAtOnce makes branches while others end.
func TestBranchesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 3 {
				c, err := w.try(i, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got := w.ask(c, "socket.gethostname()"); got != fmt.Sprintf("'branch-%d'", i) {
					t.Errorf("branch %d is %s", i, got)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if list, err := w.Processes(); err != nil || len(list) != 2 { // the first one and the interpreter
		t.Errorf("%d processes are left in the template, %v: %+v", len(list), err, list)
	}
}

// TestCopyOutcome: how a copy ends is known, and what it wrote.
func TestCopyOutcome(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand(`
def work(number):
    os.write(1, b"out %d" % number)
    if number == 9:
        os.kill(os.getpid(), 9)
    os._exit(number)
serve(work)`))
	for number, code := range map[int]int{0: 0, 3: 3, 9: 137} {
		var out bytes.Buffer
		c, err := w.try(number, &out)
		if err != nil {
			t.Fatal(err)
		}
		if o := c.CopyOutcome(); o.Code != code || out.String() != fmt.Sprintf("out %d", number) {
			t.Errorf("%+v, %q", o, out.String())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNotWarm has commands that never become warm.
func TestNotWarm(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	for script, says := range map[string]string{
		"":                    "the process has ended",
		"raise SystemExit(3)": "the process has ended",
		"threading.Thread(target=lambda: __import__('time').sleep(60), name='loader', daemon=True).start()\nserve()": "these run: loader",
	} {
		_, err := startWarm(t.Context(), New(Options{}), script)
		if !errors.Is(err, driver.ErrNotWarm) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", script, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := startWarm(ctx, New(Options{}), "__import__('time').sleep(600)")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that does nothing: %v", err)
	}
}

// TestTemplateDies: branches live on when the warm process has died, and no more can
// be made.
func TestTemplateDies(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	c := w.branch(1)
	if err := unix.Kill(w.warm.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := w.try(2, nil); err == nil {
		t.Error("a dead process was copied")
	}
	if got := w.ask(c, "1 + 1"); got != "2" {
		t.Errorf("1 + 1 is %s", got)
	}
	if err := unix.Kill(w.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-w.Gone()
	if o := c.CopyOutcome(); !o.Killed {
		t.Errorf("%+v", o)
	}
	if _, err := c.Ask(t.Context(), []byte(`{}`)); err == nil {
		t.Error("a branch outlived the first process of its template")
	}
}

// TestBranchOutlivesTemplate: of a template that is closed nothing but its first
// process is left, until its last branch has ended. Its files are free at once.
func TestBranchOutlivesTemplate(t *testing.T) {
	needsInterpreter(t)
	f := newFixture(t, Options{})
	f.Spec.Template = true
	tmpl := f.Start().(*template)
	go func() { _, _ = tmpl.Exec(t.Context(), warmCommand("serve()"), driver.Stdio{}) }()
	if err := tmpl.AwaitWarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := warmTemplate{t, tmpl}
	one, two := w.branch(1), w.branch(2)
	if _, err := tmpl.Exec(t.Context(), driver.Command{Args: []string{"true"}, Workdir: "/"}, driver.Stdio{}); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("a command in a template: %v", err)
	}
	if err := errors.Join(tmpl.Freeze(t.Context()), tmpl.Thaw(), tmpl.Close()); err != nil {
		t.Fatal(err)
	}
	<-tmpl.Gone()
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", tmpl.pid))
	if err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	for _, o := range f.Spec.Mounts.Overlays {
		if strings.Contains(string(mounts), " "+o.Target+" ") {
			t.Errorf("%s is still mounted", o.Target)
		}
	}
	if _, err := w.try(3, nil); err == nil {
		t.Error("a template that is closed was branched")
	}
	// One that was under way when the template was closed.
	if _, err := tmpl.copy(t.Context(), nil, nil, nil); !errors.Is(err, driver.ErrNotWarm) {
		t.Errorf("a copy of a template that is closed: %v", err)
	}
	for _, c := range []driver.Child{one, two} {
		if got := w.ask(c, "1 + 1"); got != "2" {
			t.Errorf("1 + 1 is %s", got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	<-tmpl.process.gone
}

// TestBranchAsRoot: a copy cannot become another user.
func TestBranchAsRoot(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	_, err := w.Branch(t.Context(), driver.Branch{Spec: driver.Spec{ID: "branch", AsRoot: true, Command: driver.Command{Workdir: "/"}}})
	if _, ok := errors.AsType[*driver.UnenforceableError](err); !ok {
		t.Errorf("%v", err)
	}
}

// TestSocketsOfTheTemplate: a copy has none of them, and says so.
func TestSocketsOfTheTemplate(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand(`
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
unconnected = socket.socket()
serve()`))
	c := w.branch(1)
	for _, name := range []string{"listener", "client", "server", "unconnected"} {
		if got := w.evaluate(c, name+".getsockname()"); !strings.Contains(got, "Bad file descriptor") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if said := c.Controls().Sockets; said != "closed: 1 listening, 2 connected" {
		t.Errorf("the controls say %q", said)
	}
	plain := newWarmTemplate(t, warmCommand("serve()")).branch(1)
	if said := plain.Controls().Sockets; said != "the warm process had none" {
		t.Errorf("the controls of a branch without sockets say %q", said)
	}
}

// TestAfterFork: a function of the user's is called in each copy, with its number, after
// the generators of random numbers were seeded.
func TestAfterFork(t *testing.T) {
	t.Parallel()
	script := `
import random
own, called = random.Random(1), []
def renew(number):
    own.seed(1)
    called.append((number, os.environ.get("NAME")))
def fail(number):
    raise ValueError("no %d" % number)
serve()`
	for hook, want := range map[string]struct {
		differ int
		called string
	}{"": {3, "[]"}, "__main__:renew": {1, "[(2, 'value')]"}} {
		cmd := warmCommand(script)
		cmd.Env = append(cmd.Env, "FORKCELL_AFTER_FORK="+hook)
		w := newWarmTemplate(t, cmd)
		numbers := map[string]bool{}
		called := ""
		for i := range 3 {
			b := driver.Branch{Number: i, Spec: driver.Spec{ID: "branch", Command: driver.Command{Workdir: "/", Env: []string{"NAME=value"}}}}
			c, err := w.Branch(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			numbers[w.ask(c, "own.random()")] = true
			called = w.ask(c, "called")
		}
		if len(numbers) != want.differ || called != want.called {
			t.Errorf("with %q: %v, called with %s", hook, numbers, called)
		}
	}
	for hook, says := range map[string]string{
		"__main__:fail": "ValueError: no 1", "__main__:none": "AttributeError", "missing:hook": "ModuleNotFoundError",
	} {
		cmd := warmCommand(script)
		cmd.Env = append(cmd.Env, "FORKCELL_AFTER_FORK="+hook)
		if _, err := newWarmTemplate(t, cmd).try(1, nil); !errors.Is(err, driver.ErrNotReady) || !strings.Contains(err.Error(), says) {
			t.Errorf("with %q: %v", hook, err)
		}
	}
}

// TestExpect: what a template does ahead of its branches leaves its first process in its
// group, and is not done for a template that has ended.
func TestExpect(t *testing.T) {
	needsInterpreter(t)
	tmpl, err := startSpec(t.Context(), New(Options{}), driver.Spec{ID: leftoverID() + "expect", Template: true, Freezable: true}, warmCommand("serve()"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := warmTemplate{t, tmpl}
	groups := func() string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", w.pid))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	before := groups()
	defer w.Expect()()
	w.branch(1)
	if after := groups(); after != before {
		t.Errorf("the first process was in %s and is in %s", before, after)
	}
	if !w.isAlive() {
		t.Error("the first process does not count as one that lives")
	}
	tmpl.Cell.kill()
	<-tmpl.Cell.gone
	if w.isAlive() {
		t.Error("the first process has ended, and counts as one that lives")
	}
	defer w.Expect()()
	if err := tmpl.Close(); err != nil {
		t.Error(err)
	}
}
