package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	restrictedFile = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	profileFile    = "/etc/apparmor.d/forkcell"
	subUIDFile     = "/etc/subuid"
	subGIDFile     = "/etc/subgid"
	delegateFile   = "/etc/systemd/system/user@.service.d/forkcell.conf"

	subordinateIDs   = 65536
	firstSubordinate = 100000
)

// host is the system that setup reads and changes; tests use a fake one.
type host struct {
	root       bool
	executable string
	user       string // the user to get subordinate ids, or ""
	read       func(name string) ([]byte, error)
	write      func(name string, data []byte) error
	run        func(ctx context.Context, argv []string) error
	// id is the number of a user, "" for one who does not exist.
	id func(user string) string
	// written returns the directories that cells may have written; nil for none.
	written func() ([]string, error)
	// replaceable returns the file or directory of a path that others than root can
	// change, or ""; nil for none.
	replaceable func(path string) (string, error)
}

func thisHost() host {
	h := host{root: os.Geteuid() == 0, read: os.ReadFile, write: writeSystemFile, run: runSystem, id: userID, replaceable: replaceable}
	if exe, err := os.Executable(); err == nil {
		h.executable = exe
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			h.executable = real
		}
	}
	if h.root {
		// Cells of root use a range that needs no entry. Under sudo the steps are
		// for the calling user.
		h.user = os.Getenv("SUDO_USER")
		if h.user == "root" {
			h.user = ""
		}
	} else if u, err := user.Current(); err == nil {
		h.user = u.Username
	}
	return h
}

// steps returns the steps that this host still needs.
func (h host) steps(name string) ([]setupStep, error) {
	if name == "" {
		name = h.user
		if h.root && name != "" && h.id(name) == "" { // it is of the environment, and an argument of usermod
			return nil, usageError("`forkcell setup --user USER` names another one", "setup: no such user: %s, which SUDO_USER names", quote.Arg(name))
		}
	} else if h.id(name) == "" {
		return nil, usageError("", "setup: no such user: %s", quote.Arg(name))
	}
	steps := []setupStep{}
	step, needed, err := h.profileStep()
	if err != nil {
		return nil, err
	}
	if needed {
		steps = append(steps, step)
	}
	if name == "" {
		return steps, nil
	}
	for _, look := range []func(string) (setupStep, bool, error){h.idsStep, h.delegateStep} {
		if step, needed, err = look(name); err != nil {
			return nil, err
		}
		if needed {
			steps = append(steps, step)
		}
	}
	return steps, nil
}

func (h host) profileStep() (setupStep, bool, error) {
	flag, err := h.optional(restrictedFile)
	if err != nil || strings.TrimSpace(string(flag)) != "1" {
		return setupStep{}, false, err
	}
	want := profile(h.executable)
	have, err := h.optional(profileFile)
	if err != nil || bytes.Equal(have, []byte(want)) {
		return setupStep{}, false, err
	}
	if err := h.refuseWritten(); err != nil {
		return setupStep{}, false, err
	}
	argv := []string{"apparmor_parser", "--replace", "--write-cache", profileFile}
	return setupStep{
		Name:     "AppArmor profile",
		Why:      "kernel.apparmor_restrict_unprivileged_userns is 1: only programs with a profile may make user namespaces",
		File:     profileFile,
		Content:  want,
		Commands: []string{quote.Argv(argv)},
		Status:   "needed",
		argv:     [][]string{argv},
	}, true, nil
}

// refuseWritten refuses to give a right to a path where what a cell wrote may come to be.
func (h host) refuseWritten() error {
	if h.written == nil {
		return nil
	}
	dirs, err := h.written()
	if err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	for _, d := range dirs {
		if real, err := fsx.RealPath(d); err == nil {
			d = real
		}
		if fsx.Within(h.executable, d) {
			return api.Refusef(api.CodeSetup, "install forkcell elsewhere, such as in /usr/local/bin, and run that one",
				"setup: the profile would be for %s, which is below %s, the source of a cell", quote.Path(h.executable), quote.Path(d))
		}
	}
	return nil
}

// refuseReplaceable refuses to give a right to a path where another user can put another
// program. That user may have cells of which the home of root knows nothing, now or later.
func (h host) refuseReplaceable() error {
	if h.replaceable == nil {
		return nil
	}
	at, err := h.replaceable(h.executable)
	if err != nil {
		return err
	}
	if at != "" {
		return api.Refusef(api.CodeSetup, "install forkcell where only root can write, such as in /usr/local/bin, and run that one",
			"setup: the profile would be for %s, and others than root can change %s", quote.Path(h.executable), quote.Path(at))
	}
	return nil
}

// replaceable returns the part of an absolute path that others than root can change, or
// "". A path has no links.
func replaceable(path string) (string, error) {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "", fmt.Errorf("setup: %w", err)
		}
		const others = 0o022
		open := info.Mode().Perm()&others != 0 && info.Mode()&fs.ModeSticky == 0
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 || open {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// profile returns an AppArmor profile that gives one program the right that the
// kernel's setting denies. It confines nothing: the cells do that.
func profile(executable string) string {
	return `# Written by forkcell setup.
# Lets forkcell make the user namespaces in which its cells live.
abi <abi/4.0>,
include <tunables/global>

profile forkcell ` + profilePath(executable) + ` flags=(unconfined) {
  userns,

  include if exists <local/forkcell>
}
`
}

// profilePath writes a path as an AppArmor rule that matches only itself.
func profilePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case strings.IndexByte(`*?[]{}^,"\`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (h host) idsStep(name string) (setupStep, bool, error) {
	start := uint64(firstSubordinate)
	var missing []string
	for _, file := range []struct{ name, flag string }{{subUIDFile, "--add-subuids"}, {subGIDFile, "--add-subgids"}} {
		data, err := h.optional(file.name)
		if err != nil {
			return setupStep{}, false, err
		}
		free, has := subordinates(string(data), name)
		start = max(start, free)
		if !has {
			missing = append(missing, file.flag)
		}
	}
	if len(missing) == 0 {
		return setupStep{}, false, nil
	}
	argv := []string{"usermod"}
	for _, flag := range missing {
		argv = append(argv, flag, fmt.Sprintf("%d-%d", start, start+subordinateIDs-1))
	}
	argv = append(argv, name)
	return setupStep{
		Name:     "subordinate ids",
		Why:      "user " + name + " has none; commands that must be root in their cell need them",
		Commands: []string{quote.Argv(argv)},
		Status:   "needed",
		argv:     [][]string{argv},
	}, true, nil
}

// delegateStep makes the service manager delegate the controllers of limits to the
// user's groups. It applies to hosts with cgroup version 2 and systemd on which the
// user is logged in.
func (h host) delegateStep(name string) (setupStep, bool, error) {
	controllers := fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%[1]s.slice/user@%[1]s.service/cgroup.controllers", h.id(name))
	data, err := h.read(controllers)
	if errors.Is(err, fs.ErrNotExist) {
		return setupStep{}, false, nil
	}
	if err != nil {
		return setupStep{}, false, fmt.Errorf("setup: %w", err)
	}
	have := strings.Fields(string(data))
	var missing []string
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(have, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return setupStep{}, false, nil
	}
	const want = "# Written by forkcell setup.\n# Lets users limit what their cells may use.\n[Service]\nDelegate=cpu memory pids\n"
	written, err := h.optional(delegateFile)
	if err != nil || string(written) == want {
		return setupStep{}, false, err // it takes effect at the next login
	}
	argv := []string{"systemctl", "daemon-reload"}
	return setupStep{
		Name: "control groups",
		Why: "the service manager does not hand " + strings.Join(missing, ", ") + " to user " + name +
			"; limits need them. Log in again afterwards, and start under systemd-run --user --scope -p Delegate=yes",
		File:     delegateFile,
		Content:  want,
		Commands: []string{quote.Argv(argv)},
		Status:   "needed",
		argv:     [][]string{argv},
	}, true, nil
}

// subordinates reads /etc/subuid or /etc/subgid: the first id above every range
// in it, and whether the user has one that is large enough.
func subordinates(text, name string) (free uint64, has bool) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[1], 10, 32)
		n, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		free = max(free, first+n)
		has = has || (fields[0] == name && n >= subordinateIDs)
	}
	return free, has
}

// optional reads a file that need not exist.
func (h host) optional(name string) ([]byte, error) {
	data, err := h.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}
	return data, nil
}

func (h host) take(ctx context.Context, step setupStep) error {
	if step.File == profileFile {
		if err := h.refuseReplaceable(); err != nil {
			return err
		}
	}
	if step.File != "" {
		if err := h.write(step.File, []byte(step.Content)); err != nil {
			return setupFailed(step, err)
		}
	}
	for _, argv := range step.argv {
		if err := h.run(ctx, argv); err != nil {
			return setupFailed(step, fmt.Errorf("%s: %w", quote.Argv(argv), err))
		}
	}
	return nil
}

func setupFailed(step setupStep, err error) error {
	return &api.Error{Kind: api.Failed, Code: api.CodeSetup, Message: "setup: " + step.Name + ": " + err.Error(), Err: err}
}

func writeSystemFile(name string, data []byte) error {
	// A directory for additions to a unit need not exist yet.
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	dir, err := fsx.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return fsx.WriteFile(dir, filepath.Base(name), data, 0o644)
}

func runSystem(ctx context.Context, argv []string) error {
	programs := hosttool.System() // it may be root's
	program, err := programs.Look(argv[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = append(programs.Env(os.Environ()), "PATH="+programs.Path())
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return err
}

func userID(name string) string {
	u, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return u.Uid
}
