package applies

import (
	"context"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/rights"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// hostConverter converts entries of a cell to entries of a directory of the host.
type hostConverter struct {
	a     *application
	self  rights.Operator
	known map[string]*tree.Entry // directories as they will be
	named map[string]bool        // paths that lose an attribute
}

// convertEntries gives the planned files to the operator, and lists the attributes
// that they lose. It also lists them for files that the directory already has.
func (a *application) convertEntries() error {
	c := &hostConverter{a: a, self: rights.Self(a.req.AllowSetuid), known: map[string]*tree.Entry{}, named: map[string]bool{}}
	for i := range a.merge.Ops {
		op := &a.merge.Ops[i]
		if op.New == nil {
			continue
		}
		e, err := c.entry(op.Path, *op.New, op.Old)
		if err != nil {
			return err
		}
		op.New = &e
		c.known[op.Path] = &e
	}
	for _, ch := range a.changes {
		_, already := slices.BinarySearch(a.merge.Already, ch.Path)
		if ch.New == nil || !already && !c.onlyRights(ch) {
			continue
		}
		have, err := apply.ProbeMetadata(a.target, ch.Path)
		if err != nil {
			return err
		}
		if _, err := c.entry(ch.Path, *ch.New, have); err != nil {
			return err
		}
	}
	a.merge.Already = slices.DeleteFunc(a.merge.Already, func(p string) bool { return c.named[p] })
	return nil
}

// onlyRights reports whether a change concerns only attributes that are never
// written to the host.
func (c *hostConverter) onlyRights(ch tree.Change) bool {
	if ch.Old == nil || ch.OldPath != "" || !c.a.selects(ch.Path, home.IsDirChange(ch)) {
		return false
	}
	was, is := c.self.Plain(*ch.Old), c.self.Plain(*ch.New)
	return apply.Equal(&was, &is, false)
}

// entry returns the entry to write at a path, and notes the attributes that it
// loses.
func (c *hostConverter) entry(p string, e tree.Entry, have *tree.Entry) (tree.Entry, error) {
	parent, err := c.parent(p)
	if err != nil {
		return e, err
	}
	onHost, dropped := c.self.OnHost(e, have, parent)
	for _, what := range dropped {
		c.named[p] = true
		c.a.result.Dropped = append(c.a.result.Dropped, home.PathNote(p, quote.Line(what)))
	}
	return onHost, nil
}

// parent returns the directory of a path as it will be after the apply.
func (c *hostConverter) parent(p string) (*tree.Entry, error) {
	dir := path.Dir(p)
	if p == "." {
		return nil, nil //nolint:nilnil // the parent of the root does not matter
	}
	if e, ok := c.known[dir]; ok {
		return e, nil
	}
	e, err := apply.ProbeMetadata(c.a.target, dir)
	if err == nil {
		c.known[dir] = e
	}
	return e, err
}

// holdBackHazards holds back changes that could make the host run programs later, or that
// grant rights.
func (a *application) holdBackHazards(ctx context.Context) error {
	var held []api.Obstacle
	base, err := a.Home.Tree(a.base, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	changed := make([]string, len(a.merge.Ops))
	for i, op := range a.merge.Ops {
		changed[i] = op.Path
	}
	links, err := home.NewLinkFinder(base, a.Record.MountAt, changed)
	if err != nil {
		return err
	}
	a.gate.Follow(links)
	for _, op := range a.merge.Ops {
		verdict, what, err := a.gate.Judge(ctx, home.Outgoing(op.Path, op.Old, op.New))
		if err != nil {
			return err
		}
		if verdict == outgoing.Held {
			held = append(held, api.Obstacle{Path: op.Path, Reason: what})
		}
		if op.New == nil || a.req.AllowSetuid {
			continue
		}
		if why := rights.Gain(*op.New, op.Old); why != "" {
			held = append(held, api.Obstacle{Path: op.Path, Reason: "gets the " + quote.Line(why), Rights: true})
		}
	}
	tracked, err := a.heldRepositories(ctx, func(path string) bool { return a.gate.Allows(path, false) })
	if err != nil {
		return err
	}
	return home.HeldBack("change", append(held, tracked...), "leave them out with --except")
}
