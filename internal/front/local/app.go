// Package local is the only place that names concrete types and wires them.
package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/firstprogram"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Mode is the purpose for which a home is opened.
type Mode int

// The modes. Create makes a missing home; Write and Read treat it as empty. Read
// also works on a read-only file system. Rescue needs no database. Run is Write for
// a caller that is about to run a cell, whose first process starts while the home is
// opened. Visit is Read for a caller that needs a live cell, which can be found
// without the database. Serve is Create for a daemon, which keeps first processes of
// cells ready.
const (
	Create Mode = iota
	Write
	Read
	Rescue
	Run
	Visit
	Serve
)

// readyCells is the number of first processes that a daemon keeps ready.
const readyCells = 8

func (m Mode) store() store.Mode {
	return map[Mode]store.Mode{
		Create: store.Create, Write: store.Write, Read: store.Read, Rescue: store.Rescue, Run: store.Work, Visit: store.Visit,
		Serve: store.Serve,
	}[m]
}

// version is set by the linker for releases.
var version string

// Version returns the version of this build.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}

// DefaultHome returns the path of the home if none is given.
func DefaultHome() (string, error) {
	if dir := os.Getenv("FORKCELL_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "forkcell"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory: %w; give --home", err)
	}
	return filepath.Join(home, ".local", "share", "forkcell"), nil
}

// Open makes an engine on a home, for a caller. The returned function closes it.
func Open(home string, mode Mode, caller caller.Caller) (_ *engine.Engine, release func() error, err error) {
	if home, err = filepath.Abs(home); err != nil {
		return nil, nil, err
	}
	program, err := firstProgram(mode)
	if err != nil {
		return nil, nil, err
	}
	runner := native.New(native.Options{ProbeDir: home, Executable: program, TemplateProgram: firstprogram.Open})
	cool, err := startCells(runner, mode)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			cool()
			return
		}
		inner := release
		release = func() error { cool(); return inner() }
	}()
	var written hosttool.ExcludedDirs
	find := func(name string) (string, error) { return hosttool.InEnv(os.Environ(), written).Look(name) }
	config := engine.Config{
		Driver: runner, Runtimes: map[string]driver.Driver{"gvisor": gvisor.New(gvisor.Options{Find: find, Native: native.Options{ProbeDir: home}})},
		Launcher: launcher{}, Caller: caller, Version: Version(), Hide: hide, Home: home, Now: time.Now, Lines: patch.Lines, Logger: logger(),
	}
	s, err := store.Open(home, mode.store())
	if errors.Is(err, store.ErrNoHome) && mode != Create && mode != Serve && mode != Rescue {
		e := engine.New(config)
		written = e.WrittenDirs
		return e, func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, openError(err)
	}
	config.Store = s
	h := &openHome{path: home, store: s}
	if mode == Visit {
		config.Late = h.openRest
	} else if config.Workspace, err = h.openWorkspace(); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	if mode == Serve {
		runner.AwaitReady()
	}
	e := engine.New(config)
	written = e.WrittenDirs
	return e, h.close, nil
}

// firstProgram returns the program of a mode's first processes, or nothing if it is this
// one. It is worth its memory where many of them are started: in a daemon, and for the
// branches of a template.
func firstProgram(mode Mode) (string, error) {
	if mode != Serve {
		return "", nil
	}
	return firstprogram.Open()
}

// startCells starts first processes of cells beforehand, if a mode will need them.
// The returned function ends those that no cell has taken.
func startCells(runner *native.Driver, mode Mode) (cool func(), err error) {
	switch mode {
	case Run:
		return runner.Warm(), nil
	case Serve:
		return runner.Keep(readyCells)
	case Create, Write, Read, Rescue, Visit:
	}
	return func() {}, nil
}

// openHome has the open parts of a home, to close them.
type openHome struct {
	path      string
	store     *store.Store
	workspace *workspace.Store
}

// openRest opens the parts that a visit did not open.
func (h *openHome) openRest() (*workspace.Store, error) {
	if err := h.store.OpenDatabase(); err != nil {
		return nil, openError(err)
	}
	return h.openWorkspace()
}

func (h *openHome) openWorkspace() (_ *workspace.Store, err error) {
	h.workspace, err = workspace.Open(h.path, workspace.Options{Root: os.Geteuid() == 0})
	return h.workspace, err
}

func (h *openHome) close() error {
	var err error
	if h.workspace != nil {
		err = h.workspace.Close()
	}
	return errors.Join(err, h.store.Close())
}

// hide makes core dumps impossible, and keeps debuggers of the same user out.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep secrets from being dumped: %w", err)
	}
	return nil
}

// openError adds a hint to the error about a home that cannot be used.
func openError(err error) error {
	e := &api.Error{Kind: api.Refused, Code: api.CodeHome, Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, store.ErrPermission):
		e.Hint = "set that mode with chmod, or choose another directory with --home"
	case errors.Is(err, store.ErrUnusable):
		e.Hint = "choose another directory with --home"
	case errors.Is(err, store.ErrNewer):
		e.Hint = "use the newer forkcell"
	case errors.Is(err, store.ErrRemote):
		e.Hint = "choose a local directory with --home"
	case errors.Is(err, store.ErrDatabase):
		e.Hint = "`forkcell recover` rebuilds it from the signed log"
	case errors.Is(err, store.ErrFull), errors.Is(err, unix.ENOSPC):
		return home.Explain(err)
	case errors.Is(err, store.ErrReadOnly):
		e.Hint = "only reading commands work on it"
	case errors.Is(err, store.ErrNoHome):
		e.Kind, e.Hint = api.NotFound, "`forkcell init NAME --from DIR` makes it"
	default:
		e.Kind = api.Failed
	}
	return e
}

// logger logs to standard error at the level in FORKCELL_LOG: one of log/slog, such
// as info or debug. Without the variable nothing is logged.
func logger() *slog.Logger {
	text := os.Getenv("FORKCELL_LOG")
	if text == "" {
		return nil
	}
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(text)); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// mirrorHomes lists the homes of mirrors in a home.
func mirrorHomes(home string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(home, store.RemotesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var homes []string
	for _, d := range list {
		homes = append(homes, filepath.Join(home, store.RemotesDir, d.Name()))
	}
	return homes, err
}

// MirrorHome returns the home of the mirrors of a daemon's cells, in the caller's own
// home. Each daemon has one: none can name the directory of a cell of another.
func MirrorHome(home, url string) string {
	sum := sha256.Sum256([]byte(strings.TrimSuffix(url, "/")))
	return filepath.Join(home, store.RemotesDir, hex.EncodeToString(sum[:16]))
}
