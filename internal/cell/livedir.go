package cell

import (
	"context"
	"fmt"
	"strings"

	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
)

// hiddenByName is a degradation of every run in a live directory with files that
// are left out: the masks on them hold against the cell, not against the host.
const hiddenByName = "left-out files of a live directory are hidden by name"

// masked notes that.
func (r *run) masked() {
	if len(r.spec.Mounts.Masks) > 0 {
		r.degraded = append(r.degraded, hiddenByName)
	}
}

// lookBehindMasks notes which left-out files the host has changed while the cell
// could see their names.
func (r *run) lookBehindMasks() {
	paths, err := r.work.Uncovered()
	if err != nil {
		r.degraded = append(r.degraded, "it is not known whether left-out files could be seen: "+err.Error())
		return
	}
	if len(paths) == 0 {
		return
	}
	r.degrade("left-out files changed during the run, and may have been seen", texts(paths))
}

// degrade notes a degradation with what it is about, of which it names some.
func (r *run) degrade(what string, list []string) {
	const shown = 5
	if len(list) == 0 {
		return
	}
	more := ""
	if n := len(list) - shown; n > 0 {
		list, more = list[:shown], fmt.Sprintf(", and %d more", n)
	}
	r.degraded = append(r.degraded, what+": "+strings.Join(list, ", ")+more)
}

// takeBack makes the files of a live directory the operator's own again.
func (r *run) takeBack(ctx context.Context) {
	taken, err := r.work.TakeBack(ctx)
	if err != nil {
		r.degraded = append(r.degraded, "owners and ACLs of the live directory could not all be taken back: "+err.Error())
	}
	var list []string
	for _, t := range taken {
		list = append(list, quote.Path(t.Path)+" ("+quote.Line(t.What)+")")
	}
	r.degrade("owners and ACLs were taken back in the live directory", list)
}

// noteLiveChanges names what an apply would have held back: in a live directory
// it is there already.
func (r *run) noteLiveChanges() {
	if r.cell.Live == "" || r.cell.Live != r.cell.Source || r.sealed.Unchanged {
		return
	}
	control, tracked, err := r.controlChanges(r.before, r.after)
	if err != nil {
		r.degraded = append(r.degraded, "it is not known whether control files of the live directory changed: "+err.Error())
	}
	r.degrade("control files of the live directory changed", control)
	r.degrade("git repositories of the live directory changed", tracked)
}

// controlChanges lists the control files that differ between two states, and what
// their repositories track that the rules leave out.
func (s *session) controlChanges(from, to store.Checkpoint) (control, tracked []string, err error) {
	a, b, err := s.e.trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return nil, nil, err
	}
	git := false
	err = tree.DiffFunc(a, b, tree.DiffOptions{}, func(ch tree.Change) error {
		git = git || inGit(ch.Path)
		if _, is := controlFile(ch.Path, isDirChange(ch)); is {
			control = append(control, quote.Path(ch.Path))
		}
		return nil
	})
	if !git || err != nil {
		return control, nil, err
	}
	claims, err := s.newlyTracked(from, to)
	for _, c := range claims {
		tracked = append(tracked, quote.Path(c.source)+" "+c.what)
	}
	return control, tracked, err
}
