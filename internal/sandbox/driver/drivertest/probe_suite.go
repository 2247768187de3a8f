package drivertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/landlock"
)

// probe is one attempt to get out of a cell, to learn about the host, or to more
// rights inside. It is run with every control, where it must be stopped; without
// the controls that it names, where it must succeed, for else it proves nothing;
// and, where it names several, with each of them alone left on, which must be
// enough to stop it.
type probe struct {
	name    string
	without []control.Name
	// abi is the Landlock without which the others among them stop it alone.
	abi int
	// rest are controls that cannot stand without one of those.
	rest []control.Name
	// says is a part of the attacker's orders.
	says string
	// caller is "root" or "user" where only such a caller's cell has the thing.
	caller string
	// optional marks what not every kernel or host has: it is not shown, and
	// said so, where the kernel lacks it.
	optional bool
	tty      bool
	// workdir is where it starts, instead of the workspace; program is what is
	// executed, instead of this one.
	workdir, program string
	// live gives the cell a directory of the host to write to, /live.
	live bool
	// apart gives the attack a process that it may change, alone a cell that it
	// may break.
	apart, alone bool
	// reported makes the attack a system call that the kernel would refuse in the
	// end anyhow. It is stopped when the filter reports it.
	reported string
	// ends marks an attack that tries to end the cell. The attacker may end with
	// it, so the result is checked from outside.
	ends bool
	// super marks what a command that is root in its cell may do, ownSuper what it may
	// do only where the cell has a kernel to itself.
	super, ownSuper bool
	// own marks what such a kernel has or lacks itself, whatever the host has.
	own bool
	// allowed marks what a cell must be able to do, with every control.
	allowed bool
	// do runs in the cell. nil means that it got what it wanted.
	do func() error
}

func allProbes() []probe {
	return slices.Concat(callProbes(), toldProbes(), privilegeProbes(), mountProbes(), shownProbes(), absenceProbes(),
		liveProbes(), procProbes(), kernelProbes(), capabilityProbes(), initProbes(), inheritedProbes(), namespaceProbes(), allowedProbes())
}

const (
	envAttack = "FORKCELL_TEST_ATTACK"
	envCaller = "FORKCELL_TEST_CALLER"
	secret    = "not-for-the-cell"
)

// attack runs probes in a cell and prints a finding for each. Its code is 0 when
// it got through and 1 when it was stopped; anything else is a broken probe. Each
// has a separate thread, which ends with it, and what it changed of itself.
func attack(names string) {
	out := json.NewEncoder(os.Stdout)
	for name := range strings.SplitSeq(names, "\n") {
		done := make(chan finding)
		go func() {
			runtime.LockOSThread()
			done <- attackBy(name)
		}()
		if err := out.Encode(<-done); err != nil {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func attackBy(name string) (f finding) {
	f = finding{Probe: name, Code: 3}
	defer func() {
		if r := recover(); r != nil {
			f.Text = fmt.Sprint("panic: ", r)
		}
	}()
	all := allProbes()
	i := slices.IndexFunc(all, func(p probe) bool { return p.name == name && p.fits(here("ROOT") == "true") })
	err := all[i].do()
	if err != nil {
		f.Code, f.Text = 1, err.Error()
	} else {
		f.Code = 0
	}
	return f
}

// here is something of the host that a probe looks for.
func here(name string) string { return os.Getenv("PROBE_" + name) }

// thing is a descriptor, a pid or the like of it.
func thing(name string) int {
	n := -1
	_, _ = fmt.Sscan(here(name), &n)
	return n
}

// asRoot stands in place of the controls that are off for a cell with every
// control, in which the command is root.
const asRoot = "as root"

// finding is how one run of a probe ended.
type finding struct {
	Probe   string
	Without string // the controls that were off, joined
	Code    int
	Text    string
}

func key(off []control.Name) string {
	var names []string
	for _, c := range off {
		names = append(names, string(c))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// probes are those that a claimed control stops, and what a cell must allow, for
// the kind of caller. Controls that are not claimed are none of their business.
func (s Suite) probes(root bool) []probe {
	var list []probe
	for _, p := range allProbes() {
		claimed := func(list []control.Name) []control.Name {
			return slices.DeleteFunc(slices.Clone(list), func(c control.Name) bool { return !slices.Contains(s.Controls, c) })
		}
		p.without, p.rest = claimed(p.without), claimed(p.rest)
		if p.reported != "" && !s.claims(Reports) || p.own && s.OwnKernel {
			continue
		}
		if s.OwnKernel {
			p.says, p.super = "", p.super || p.ownSuper
		}
		if p.fits(root) && (p.allowed || len(p.without) > 0) {
			list = append(list, p)
		}
	}
	return list
}

// configurations are the sets of controls to leave off for a probe: none, and if
// controls can be left off, all that it names, and all but one of them.
func (p probe) configurations(removable bool) [][]control.Name {
	if p.allowed || !removable {
		return [][]control.Name{nil}
	}
	if p.abi > landlock.ABI() {
		p.without = slices.DeleteFunc(slices.Clone(p.without), func(c control.Name) bool { return c == control.Landlock })
	}
	list := [][]control.Name{nil, slices.Concat(p.without, p.rest)}
	for i := range p.without {
		if len(p.without) > 1 {
			list = append(list, slices.Concat(slices.Delete(slices.Clone(p.without), i, i+1), p.rest))
		}
	}
	return list
}

func (p probe) fits(root bool) bool {
	return p.caller == "" || (p.caller == "root") == root
}

// Probes attacks cells of a caller who has left everything behind that could be
// inherited, and returns how many attacks were shown to fail. If the suite can
// make drivers without controls, each attack is also shown to succeed without the
// controls that stop it.
func (s Suite) Probes(t *testing.T) (shown int) {
	t.Helper()
	return s.probe(t, map[control.Name]bool{})
}

// probe does the work of Probes, and adds the controls that stopped an attack.
func (s Suite) probe(t *testing.T, stopped map[control.Name]bool) (shown int) {
	t.Helper()
	found := map[string]map[string]finding{}
	for _, f := range s.attackCells(t) {
		if found[f.Probe] == nil {
			found[f.Probe] = map[string]finding{}
		}
		found[f.Probe][f.Without] = f
	}
	tried := map[control.Name]bool{}
	for _, p := range s.probes(os.Geteuid() == 0) {
		for _, c := range p.without {
			tried[c] = true
		}
		t.Run(p.name, func(t *testing.T) {
			if f := found[p.name][""]; p.allowed {
				if f.Probe == "" || f.Code != 0 {
					t.Errorf("it should work: %+v", f)
				}
				return
			}
			if p.judge(t, p.configurations(s.Without != nil), found[p.name]) {
				shown++
				for _, c := range p.without {
					stopped[c] = true
				}
			}
		})
	}
	for _, c := range s.Controls {
		if !tried[c] && !isUntried(c) {
			t.Errorf("no probe shows what the control %q stops", c)
		}
	}
	return shown
}

// isUntried reports whether no probe of this caller's cells can show a control.
func isUntried(c control.Name) bool {
	root := []control.Name{control.CgroupNS, control.IDs, control.NoNewPrivs, control.NoSUID, control.PublicView, control.UserNS}
	return os.Geteuid() != 0 && slices.Contains(root, c)
}

// judge compares what happened with what must.
func (p probe) judge(t *testing.T, all [][]control.Name, found map[string]finding) (shown bool) {
	t.Helper()
	if len(all) > 1 {
		if free := found[key(all[1])]; p.optional && free.Code == 1 {
			t.Skipf("this host cannot show it: %s", free.Text)
		}
	}
	shown = true
	if f, ok := found[asRoot]; ok && f.Code != 1 && !p.super {
		t.Errorf("root in a cell: code %d: %s", f.Code, f.Text)
	}
	for i, off := range all {
		f, ok := found[key(off)]
		switch {
		case !ok:
			t.Errorf("not tried without [%s]", key(off))
		case f.Code != 0 && f.Code != 1:
			t.Errorf("without [%s]: broken, code %d: %s", key(off), f.Code, f.Text)
		case i == 1 && f.Code != 0:
			t.Errorf("without [%s] it is stopped as well, so it proves nothing: %s", key(off), f.Text)
		case i != 1 && f.Code == 0:
			t.Errorf("nothing stops it without [%s]", key(off))
		case i == 0 && !strings.Contains(f.Text, p.says) && (len(all) > 1 || !p.optional):
			// What this host does not have stops an attack in another way. It is skipped
			// above, if it can be tried without controls.
			t.Errorf("stopped by %q, not %q", f.Text, p.says)
		default:
			continue
		}
		shown = false
	}
	return shown
}

// attackCells runs every probe from a process in the worst state that a caller can
// have: see messyCaller.
func (s Suite) attackCells(t *testing.T) []finding {
	t.Helper()
	dir := OpenDirectory(t)
	host := s.startHost(t, dir)
	// Descriptor 3 is where the init finds its own socket.
	// This program by its process: its path may be closed to this user.
	cmd := exec.Command("/usr/bin/env", "--block-signal=USR2", "--ignore-signal=HUP", fmt.Sprintf("/proc/%d/exe", os.Getpid()))
	cmd.Env = append(append(host.env(), s.Environment...), envCaller+"="+dir, "PROBE_SECRET="+secret, "TMPDIR="+dir)
	cmd.ExtraFiles = host.inherited()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// What hangs says where before the tests' own limit ends them all.
	limit := time.AfterFunc(8*time.Minute, func() { _ = cmd.Process.Signal(unix.SIGQUIT) })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var list []finding
	for dec := json.NewDecoder(&out); dec.More(); {
		var f finding
		if err := dec.Decode(&f); err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

// OpenDirectory is one that the users of all cells can get at, if they can see
// it: the parents of t.TempDir may be closed to them. It is not in /tmp, where
// Landlock lets cells write, whatever is attached there.
func OpenDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "forkcell-probes-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		works, _ := filepath.Glob(filepath.Join(dir, "cell*/work*"))
		for _, w := range works {
			_ = removeWork(w)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// call makes a system call by its name; a number of -1 gives ENOSYS. Arguments
// are numbers, texts, and pointers to what the kernel reads or writes.
func call(name string, args ...any) error {
	var a [6]uintptr
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			a[i] = uintptr(v)
		case string:
			text := append([]byte(v), 0)
			args[i] = text // kept until the call has returned
			a[i] = reflect.ValueOf(text).Pointer()
		default:
			a[i] = reflect.ValueOf(v).Pointer()
		}
	}
	_, _, no := syscall.Syscall6(uintptr(sysNumber(name)), a[0], a[1], a[2], a[3], a[4], a[5])
	runtime.KeepAlive(args)
	if no != 0 {
		return no
	}
	return nil
}

// reached is stopped when the filter has answered, or no such call exists. Any
// other answer is that of the code behind the call.
func reached(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		return err
	}
	return nil
}
