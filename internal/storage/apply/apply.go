// Package apply writes changes to a real directory, all or nothing, and decides
// which changes those are.
//
// ThreeWay compares what a cell made of a tree with what its owner made of it
// meanwhile. Execute writes a plan: everything new is staged inside the target,
// a journal is made durable, then names are exchanged one by one and what came
// out is checked; until the commit marker is durable everything can be, and
// after a crash is, taken back. Inverse makes the plan that undoes a committed
// one. docs/internals/apply.md has the order of operations and the journal's
// format.
//
// The target belongs to the user, but other programs change it at any time and
// its names are hostile: it is reached only beneath a root descriptor, no link
// is followed, and nothing that was not expected is overwritten or removed.
//
// The package knows nothing of cells, layers, receipts or patterns; what is left
// out, and what is selected, it asks functions that it is given.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

var (
	// errPlan means that a plan contradicts itself: a defect of the caller.
	errPlan = errors.New("the plan contradicts itself")
	// errMount means that a change is below a mount point inside the target,
	// where it could not be made together with the others.
	errMount = errors.New("another file system is mounted there")
	// errContents means that a source did not deliver the recorded contents.
	errContents = errors.New("the contents are not those recorded")
	// errJournal means that a journal cannot be read or used.
	errJournal = errors.New("the apply journal cannot be used")
	// errExchange means that the target's file system lacks what an apply needs.
	errExchange = errors.New("the file system cannot exchange names")
	// ErrUnfinished means that the target has neither the old nor the new state:
	// something of the apply is left in it, and Recover has to be called, as after
	// a crash.
	ErrUnfinished = errors.New("the apply did not finish")
	// ErrTarget means that the directory of an interrupted apply is not at its
	// place, or another one is.
	ErrTarget = errors.New("the directory that was being changed is not there")
)

// stagingPrefix begins the name of the directory that an apply makes in its
// target while it works.
const stagingPrefix = ".forkcell-apply-"

// Op is one change: what the target is expected to hold at Path, and what it
// shall hold. Nil is nothing. When a directory is added, replaced by another
// kind or removed, everything below it has an Op of its own. Two directories
// are a change of metadata.
type Op struct {
	Path     string
	Old, New *tree.Entry
}

// Plan is a set of changes to one directory.
type Plan struct {
	ID     string // names the staging directory
	Target string // trusted path of the directory
	Ops    []Op   // each path once, in any order
	// Links are groups of paths of one file. Paths without an Op may
	// be among them.
	Links [][]string
	// Owners means that owners are set and compared, which takes root.
	Owners bool
}

// Source delivers the contents of new files.
type Source interface {
	Open(path string, e tree.Entry) (io.ReadCloser, error)
}

// Options change how a plan is executed. The zero value is useful.
type Options struct {
	// Keep matches what is never touched. A directory that a plan removes and
	// that holds such things stays, and is reported.
	Keep func(path string, isDir bool) bool
	// KeepDirTimes restores directories' modification times, and gives those
	// with an Op the recorded ones.
	KeepDirTimes bool
	// Hook is called before each effect, for tests: an error of it is taken for
	// the effect's own.
	Hook func(step string) error
}

func (o Options) keep(path string, isDir bool) bool { return o.Keep != nil && o.Keep(path, isDir) }

// Report is the result of an apply.
type Report struct {
	// Committed means that the changes are final, even if an error came later.
	Committed bool
	Applied   int      // Ops that were carried out
	Kept      []string // directories that stayed because they hold kept things
}

// Conflict is one path that is not as it was expected.
type Conflict struct {
	Path, Reason string
	Forcible     bool // [Theirs] settles it
}

// ConflictError refuses a plan because of what the target holds.
type ConflictError struct{ Conflicts []Conflict }

func (e *ConflictError) Error() string {
	var b strings.Builder
	b.WriteString("the directory is not as expected: ")
	for i, c := range e.Conflicts {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%q %s", c.Path, c.Reason)
	}
	return b.String()
}

func conflict(path, reason string) error {
	return &ConflictError{Conflicts: []Conflict{{Path: path, Reason: reason}}}
}

func isDir(e *tree.Entry) bool { return e != nil && e.Kind == tree.KindDir }

// parentOf is "." for names in the root itself.
func parentOf(path string) string {
	if cut := strings.LastIndexByte(path, '/'); cut >= 0 {
		return path[:cut]
	}
	return "."
}

func under(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// writing is one plan under way, or one that a crash interrupted.
type writing struct {
	// ctx ends the reading and copying of large files. A roll-back has one that
	// is not cancelled.
	ctx     context.Context //nolint:containedctx // lives as long as the one call
	root    *fsx.Dir        // the target
	journal *fsx.Dir
	stage   *fsx.Dir // nil before it exists
	rec     *record
	opt     Options
	user    bool // not root: modes bind

	began      bool       // the intent may be written
	journalled bool       // names may have been exchanged
	foreign    []Conflict // what was in the way of the roll-back
}
