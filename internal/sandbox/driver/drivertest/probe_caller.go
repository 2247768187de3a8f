package drivertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/mount"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// messyCaller is a caller with a secret in its environment and in its keyring,
// files, sockets and directories open without the close-on-exec flag, blocked
// and ignored signals, core dumps on, and as root a better priority than others
// and protection from the kernel's killer. It runs the probes and prints
// findings.
func (s Suite) messyCaller(dir string) {
	if os.Getenv("PROBE_KEY") == "" {
		joinKeyring() // comes back here, with every thread in the new keyring
	}
	var core syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_CORE, &core); err == nil {
		core.Cur = core.Max
		_ = syscall.Setrlimit(unix.RLIMIT_CORE, &core)
	}
	unix.Umask(0)
	if os.Geteuid() == 0 {
		for _, tid := range threads() {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -5)
		}
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-500"), 0); err != nil {
			_ = os.Setenv("PROBE_UNPROTECTED", ", and this caller's too: "+err.Error())
		}
	}
	r := &prober{suite: s, dir: dir, out: json.NewEncoder(os.Stdout)}
	if err := r.all(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func threads() []int {
	var list []int
	names, _ := os.ReadDir("/proc/self/task")
	for _, n := range names {
		var tid int
		_, _ = fmt.Sscan(n.Name(), &tid)
		list = append(list, tid)
	}
	return list
}

// joinKeyring puts a secret into a new session keyring and executes this program
// again, because a keyring is a thread's and a program has many threads.
func joinKeyring() {
	key := "0"
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err == nil {
		if id, err := unix.AddKey("user", "forkcell-probe", []byte(secret), unix.KEY_SPEC_SESSION_KEYRING); err == nil {
			key = fmt.Sprint(id)
		}
	}
	err := unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), "PROBE_KEY="+key))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// prober runs probes, in one cell for each set of controls.
type prober struct {
	suite Suite
	dir   string
	cells int

	mu  sync.Mutex
	out *json.Encoder
}

// job is a cell without some controls and what is tried in it.
type job struct {
	off    []control.Name
	super  bool // the command is root in its cell
	live   bool // the cell writes to a directory of the host
	probes []probe
}

func (j job) name() string {
	if j.super {
		return asRoot
	}
	return key(j.off)
}

func (s Suite) jobs() []job {
	list := []job{{super: true}}
	at := map[string]int{}
	for _, p := range s.probes(os.Geteuid() == 0) {
		if !p.alone && !p.allowed && !p.live {
			list[0].probes = append(list[0].probes, p)
		}
		for _, off := range p.configurations(s.Without != nil) {
			name := fmt.Sprint(key(off), p.live)
			i, ok := at[name]
			if !ok || p.alone {
				i = len(list)
				list = append(list, job{off: off, live: p.live})
				if !p.alone {
					at[name] = i
				}
			}
			list[i].probes = append(list[i].probes, p)
		}
	}
	if os.Geteuid() != 0 {
		list = list[1:] // only a root caller's cell can have a root
	}
	return list
}

func (r *prober) all() error {
	todo := r.suite.jobs()
	const workers = 2
	failed := make(chan error, workers)
	var next sync.Mutex
	for range workers {
		go func() {
			for {
				next.Lock()
				if len(todo) == 0 {
					next.Unlock()
					failed <- nil
					return
				}
				j := todo[0]
				todo = todo[1:]
				next.Unlock()
				if err := r.do(j); err != nil {
					failed <- fmt.Errorf("without [%s]: %w", j.name(), err)
					return
				}
			}
		}()
	}
	var first error
	for range workers {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (r *prober) do(j job) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	denied := &denials{}
	s, err := r.spec(denied)
	if err != nil {
		return err
	}
	s.AsRoot = j.super
	s.Mounts.Binds[1].Live = j.live
	d := r.suite.New()
	if len(j.off) > 0 {
		d = r.suite.Without(j.off)
	}
	cell, err := d.Start(ctx, s)
	if err != nil {
		return err
	}
	for _, batch := range j.batches() {
		found, err := r.try(ctx, cell, batch, denied)
		if err != nil {
			_ = cell.Close()
			return fmt.Errorf("%s: %w", batch[0].name, err)
		}
		for _, f := range found {
			f.Without = j.name()
			r.mu.Lock()
			err = errors.Join(err, r.out.Encode(f))
			r.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
	return cell.Close()
}

// batches are the probes that one process of the cell can try: starting one is
// most of the work. Reports of the filter are distinguished by their call alone.
func (j job) batches() [][]probe {
	var list [][]probe
	together, reported := []probe{}, []probe{}
	for _, p := range j.probes {
		known := slices.ContainsFunc(reported, func(other probe) bool { return other.reported == p.reported })
		switch {
		case p.apart || p.alone || p.tty || p.workdir != "" || p.program != "" || p.reported != "" && known:
			list = append(list, []probe{p})
		case p.reported != "":
			reported = append(reported, p)
		default:
			together = append(together, p)
		}
	}
	for _, batch := range [][]probe{together, reported} {
		if len(batch) > 0 {
			list = append(list, batch)
		}
	}
	return list
}

func (r *prober) try(ctx context.Context, cell driver.Cell, batch []probe, denied *denials) ([]finding, error) {
	p := batch[0] // the only one, if it is special
	var names []string
	for _, p := range batch {
		names = append(names, p.name)
	}
	c := driver.Command{
		Args: []string{cmp.Or(p.program, "/src/project/probe")}, Workdir: cmp.Or(p.workdir, "/src/project"),
		TTY: p.tty, Timeout: 5 * time.Minute,
		// With the race detector a process would sleep for a second at its end.
		Env: append(probeEnv(), "GORACE=atexit_sleep_ms=0", "PATH="+defaultPath, envAttack+"="+strings.Join(names, "\n")),
	}
	denied.reset()
	var out, errs bytes.Buffer
	o, err := cell.Exec(ctx, c, driver.Stdio{Out: &out, Err: &errs})
	if p.ends {
		return []finding{survives(ctx, cell, p, c.Env)}, nil
	}
	if se, ok := errors.AsType[*driver.StartError](err); ok && (se.Cause == driver.CauseWorkdir && p.workdir != "" || se.Cause == driver.CauseNotExecutable && p.program != "") {
		return []finding{{Probe: p.name, Code: 1, Text: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	return understand(batch, o, out.String(), errs.String(), denied), nil
}

// survives reports whether a cell that was attacked still executes commands. A
// signal takes effect some time after it was sent, at the latest while the init does
// something, so one command is not enough.
func survives(ctx context.Context, cell driver.Cell, p probe, env []string) finding {
	const rounds = 50
	for range rounds {
		o, err := cell.Exec(ctx, driver.Command{Args: []string{"/bin/true"}, Workdir: "/", Env: env, Timeout: time.Minute}, driver.Stdio{})
		if err == nil && o.Code == 0 {
			continue
		}
		select {
		case <-cell.Gone():
			return finding{Probe: p.name}
		case <-time.After(time.Minute):
			return finding{Probe: p.name, Code: 4, Text: fmt.Sprintf("it is not gone, and executes nothing: %+v, %v", o, err)}
		}
	}
	return finding{Probe: p.name, Code: 1, Text: "the init is alive"}
}

// understand takes the findings out of what the attacker printed.
func understand(batch []probe, o driver.Outcome, out, errs string, denied *denials) []finding {
	var list []finding
	// A terminal shows what was typed into it.
	dec := json.NewDecoder(strings.NewReader(out[max(strings.IndexByte(out, '{'), 0):]))
	for _, p := range batch {
		f := finding{Probe: p.name}
		if err := dec.Decode(&f); err != nil || f.Probe != p.name {
			f = finding{Probe: p.name, Code: 4, Text: fmt.Sprintf("%v: code %d, %s%s", err, o.Code, out, errs)}
		}
		switch {
		case p.reported != "" && denied.has(p.reported):
			f.Code, f.Text = 1, "reported"
		case p.reported != "" && f.Code == 1:
			f.Code = 0
		}
		list = append(list, f)
	}
	return list
}

// probeEnv lists what the attacker knows about the host. Nothing else of the
// caller's environment is in it.
func probeEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return !strings.HasPrefix(kv, "PROBE_") || strings.HasPrefix(kv, "PROBE_SECRET")
	})
}

// spec is a cell with a workspace, a path of the host shown, and a masked file.
func (r *prober) spec(told *denials) (driver.Spec, error) {
	r.mu.Lock()
	r.cells++
	number := r.cells
	r.mu.Unlock()
	dir := filepath.Join(r.dir, fmt.Sprintf("cell%d", number))
	for _, d := range []string{"upper", "work", "home", "homeupper", "workhome", "tmp", "live", "public", "publicupper", "workpublic"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return driver.Spec{}, err
		}
		if err := os.Chmod(filepath.Join(dir, d), 0o755); err != nil {
			return driver.Spec{}, err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o1777); err != nil {
		return driver.Spec{}, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("public/private"), []byte(secret), 0o600); err != nil {
		return driver.Spec{}, err
	}
	absent, err := r.absent(at("upper"))
	if err != nil {
		return driver.Spec{}, err
	}
	return driver.Spec{
		ID: fmt.Sprintf("probe-%d-%d", os.Getpid(), number), Hostname: "probecell", ReadOnly: []string{here("SHOWN")},
		Mounts: mount.Set{
			Binds: []mount.Bind{{Target: "/tmp", Source: at("tmp"), Owned: true}, {Target: "/live", Source: at("live"), Owned: true}},
			Overlays: []mount.Overlay{
				{Target: "/src/project", Lower: []string{here("BASE")}, Upper: at("upper"), Work: at("work")},
				{Target: "/home/sandbox", Lower: []string{at("home")}, Upper: at("homeupper"), Work: at("workhome")},
				{Target: "/public", Lower: []string{at("public")}, Upper: at("publicupper"), Work: at("workpublic"), HostLower: true},
			},
			Masks:  []mount.Mask{{Target: "/src/project/.env"}},
			Fixed:  []string{"/src/project/fixed"},
			Absent: absent,
		},
		Guard:     driver.Guard{Denied: told.add},
		Freezable: os.Geteuid() == 0,
	}, nil
}

// absent returns paths that are absent in the workspace, if the driver claims that.
func (r *prober) absent(upper string) ([]mount.Absence, error) {
	if !r.suite.claims(Absence) {
		return nil, nil
	}
	paths := []string{".claude", ".mcp.json"}
	for _, name := range paths {
		if err := unix.Mknod(filepath.Join(upper, name), unix.S_IFCHR, 0); err != nil {
			return nil, err
		}
	}
	return []mount.Absence{{Target: "/src/project", Upper: upper, Paths: paths}}, nil
}

// denials remembers the calls that the filter reported.
type denials struct {
	mu    sync.Mutex
	calls []string
}

func (d *denials) add(n driver.Denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, n.Call)
}

func (d *denials) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = nil
}

func (d *denials) has(call string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.calls, call)
}
