package cellinit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/landlock"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/seccomp"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// describeGuards describes the controls that guard has put on the thread.
type describeGuards struct {
	landlock string
	seccomp  string
	listener int // of denied calls, or -1
	rules    int // of Landlock, for a process that joins the cell, or -1
	degraded []string
}

// descriptors are what the parent gets, besides sockets, in the order of a report.
func (g *describeGuards) descriptors(namespaces []int) (list []int) {
	if g.listener >= 0 {
		list = append(list, g.listener)
	}
	list = append(list, namespaces...)
	if g.rules >= 0 {
		list = append(list, g.rules)
	}
	return list
}

// guard puts the last controls on the calling thread, from which every command
// is forked. Nothing of the init's own that needs more may come after it.
func guard(p protocol.Guard, w protocol.Without) (describeGuards, error) {
	g := describeGuards{listener: -1, rules: -1}
	if !w.Has(control.Landlock) && !p.Template && !p.Runtime {
		if err := g.restrictFiles(p); err != nil {
			return g, fault.Wrap("landlock", fault.CauseLandlock, err)
		}
	}
	if w.Has(control.Seccomp) {
		return g, nil
	}
	filter, err := newFilter(p, w)
	if err != nil {
		return g, fault.At("seccomp", err)
	}
	if g.listener, err = filter.Install(0); err != nil {
		return g, fault.At("seccomp", err)
	}
	g.seccomp = filter.Hash()
	if p.Live && !w.Has(control.LiveCalls) {
		g.seccomp += "; " + LiveControl
	}
	if g.listener < 0 {
		g.degraded = append(g.degraded, missingListener(p)...)
	}
	if len(p.AllowSyscalls) > 0 {
		g.degraded = append(g.degraded, "seccomp: the policy allows "+strings.Join(p.AllowSyscalls, ", "))
	}
	return g, nil
}

// Filter is the filter of system calls that a command of the cell gets.
func Filter(p protocol.Guard) (seccomp.Filter, error) { return newFilter(p, protocol.Without{}) }

func newFilter(p protocol.Guard, w protocol.Without) (seccomp.Filter, error) {
	arch, ok := syscalls.ParseArch(runtime.GOARCH)
	if !ok {
		return seccomp.Filter{}, fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	allow := p.AllowSyscalls
	if p.Template {
		allow = append(slices.Clone(allow), "setns") // its copies join the namespaces of their cells
	}
	return seccomp.Build(arch, seccomp.Options{
		Allow: allow, Notify: notices(p), Live: p.Live && !w.Has(control.LiveCalls),
		Held: p.Template,
	})
}

// notices are the calls that the host side wants to hear of.
func notices(p protocol.Guard) (list seccomp.Notify) {
	if p.Notify {
		list |= seccomp.Denials
	}
	if p.Connects || p.Attempts && !p.Runtime {
		list |= seccomp.Connects
	}
	return list
}

// missingListener returns what is missing without a listener. Attempts of a cell without a
// network are counted all the same.
func missingListener(p protocol.Guard) (list []string) {
	if p.Notify {
		list = append(list, "seccomp: the kernel reports no denied calls")
	}
	if p.Connects {
		list = append(list, "network: the kernel reports no connects; programs are looked for when a connection is accepted")
	}
	return list
}

// LeastLandlock is the ABI without which a hard requirement fails. FullLandlock adds
// one right to it, truncation. Outside the writable directories a read-only mount
// refuses that as well; see docs/decisions/0014-landlock-abi.md.
const (
	LeastLandlock = 2
	FullLandlock  = 3
)

// restrictFiles says a second time, independently of mounts, what may be done
// with files.
func (g *describeGuards) restrictFiles(p protocol.Guard) error {
	abi := landlock.ABI()
	if abi < LeastLandlock && !p.BestEffort {
		return fmt.Errorf("the kernel has ABI %d, at least %d is needed: %w", abi, LeastLandlock, unix.EOPNOTSUPP)
	}
	if abi == 0 {
		g.landlock = "absent"
		g.degraded = append(g.degraded, "landlock: this kernel has none")
		return nil
	}
	rules := landlock.Ruleset{Scope: true}
	var open []int
	defer func() { mountfd.CloseAll(open) }()
	add := func(to *[]int, path string) error {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		*to, open = append(*to, fd), append(open, fd)
		return nil
	}
	err := errors.Join(
		add(&rules.ReadOnly, "/"), add(&rules.Devices, "/dev"), add(&rules.ReadWrite, "/dev/shm"), add(&rules.Existing, "/proc"))
	for _, dir := range p.Writable {
		err = errors.Join(err, add(&rules.ReadWrite, string(dir)))
	}
	if err != nil {
		return err
	}
	ruleset, applied, err := landlock.Make(rules)
	if err != nil {
		return err
	}
	if err := landlock.Take(ruleset); err != nil {
		_ = unix.Close(ruleset)
		return err
	}
	if p.Join {
		g.rules = ruleset
	} else {
		_ = unix.Close(ruleset)
	}
	g.landlock = fmt.Sprintf("ABI %d: %s", applied.ABI, strings.Join(applied.Rights(), " "))
	if missing := applied.Missing(); len(missing) > 0 && (p.BestEffort || applied.ABI < FullLandlock) {
		g.degraded = append(g.degraded, fmt.Sprintf("landlock ABI %d cannot refuse: %s", applied.ABI, strings.Join(missing, " ")))
	}
	return nil
}

// plainProcess gives the calling thread, and what it forks, the limits and the
// priority of a new session, whatever the caller had. What the kernel does not
// let an unprivileged process raise stays lower.
func plainProcess(p protocol.Guard, w protocol.Without) error {
	if w.Has(control.Plain) {
		return nil
	}
	if err := plainLimits(p.OpenFiles, p.Processes); err != nil {
		return fault.At("resource limits", err)
	}
	// It may be refused to a caller who had a lower one; then the command has
	// the lower one too.
	if nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && nice != 20 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
	}
	return nil
}

const (
	softOpenFiles = 1024
	softStack     = 8 << 20
	resources     = 16 // the kernel's RLIM_NLIMITS
)

// plainLimits sets every soft limit to what a login gives, or as far as the hard
// one allows.
func plainLimits(openFiles, processes int64) error {
	soft := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_STACK: softStack, unix.RLIMIT_NOFILE: softOpenFiles}
	if openFiles > 0 {
		soft[unix.RLIMIT_NOFILE] = uint64(openFiles)
	}
	for which := range resources {
		var lim syscall.Rlimit
		if err := syscall.Getrlimit(which, &lim); err != nil {
			return err
		}
		before := lim
		want, fixed := soft[which]
		most, shared := userResources()[which]
		switch {
		case shared:
			lim = clamp(lim, most)
		case which == unix.RLIMIT_NPROC && processes > 0:
			// Processes are counted for each user of a user namespace.
			lim.Max = min(lim.Max, uint64(processes))
			lim.Cur = lim.Max
		case !fixed:
			lim.Cur = lim.Max
		case which == unix.RLIMIT_CORE:
			lim = syscall.Rlimit{}
		case which == unix.RLIMIT_NOFILE && openFiles > 0:
			lim.Max = min(lim.Max, want)
			lim.Cur = lim.Max
		default:
			lim.Cur = min(lim.Max, want)
		}
		if lim == before && which != unix.RLIMIT_NOFILE {
			continue // a guest's kernel refuses to set some, whatever the value
		}
		// Go's own function: of the number of files it remembers what a forked
		// process shall get, and this replaces it.
		err := syscall.Setrlimit(which, &lim)
		if shared && errors.Is(err, unix.EPERM) {
			continue // Linux lets any user lower a limit: this is a guest's kernel, which has its own users
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plainOOM takes back a protection from the kernel's killer that the caller may
// have; a greater readiness to be killed stays. A process that is hidden cannot
// open its own file any more, so this comes before.
func plainOOM(w protocol.Without) error {
	if w.Has(control.Plain) {
		return nil
	}
	const file = "/proc/self/oom_score_adj"
	text, err := readFile(file)
	if err != nil {
		return err
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || score >= 0 {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("0")
	return errors.Join(err, f.Close())
}

// LiveControl names what the filter denies in a cell that writes to a directory
// of the host, for a receipt.
const LiveControl = "no set-id files and no device nodes in the live directory"
