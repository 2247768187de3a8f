package transfer

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/rights"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// hostExport decides which entries of a state are written to a directory of the host,
// and how: owned by the operator, without attributes that grant rights, and without
// the control files that the cell changed. Its methods are safe for concurrent use
// once it is made.
type hostExport struct {
	self    rights.Operator
	skipped map[string]bool
	dropped map[string]*droppedEntries // by attribute
	most    int                        // of the paths that are kept of each; 0 is all
}

// droppedEntries are the entries that lose the same attribute.
type droppedEntries struct {
	paths []string
	more  int // that are not in paths
}

func newHostExport(allowSetuid bool) *hostExport {
	return &hostExport{self: rights.Self(allowSetuid), skipped: map[string]bool{}, dropped: map[string]*droppedEntries{}}
}

// hostExport examines the state for attributes that are dropped.
func (x *export) hostExport() (*hostExport, error) {
	o := newHostExport(x.req.AllowSetuid)
	if err := x.skipControl(o); err != nil {
		return nil, err
	}
	if !x.req.Changes {
		return o, o.survey(x.tree)
	}
	for _, ch := range x.changes {
		if ch.New != nil && !o.skip(ch.Path) {
			o.note(ch.Path, *ch.New)
		}
	}
	return o, nil
}

// skipControl leaves out the control files that the cell added or changed.
func (x *export) skipControl(o *hostExport) error {
	gate, err := home.Gate(x.output, x.req.AllowControl)
	if err != nil {
		return err
	}
	from, err := x.e.Tree(x.base, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	var changed []string
	err = x.eachChange(from, func(ch tree.Change) error {
		changed = append(changed, ch.Path)
		return nil
	})
	if err != nil {
		return err
	}
	links, err := home.NewLinkFinder(x.linking(from), x.cell.MountAt, changed)
	if err != nil {
		return err
	}
	gate.Follow(links)
	if err := gate.Obey(x.e.WorkspaceView(x.cell, x.base, from), x.cell.MountAt); err != nil {
		return err
	}
	gate.CompareRepositories(x.e.WorkspaceView(x.cell, x.base, from), x.e.WorkspaceView(x.cell, x.at, x.tree))
	return x.eachChange(from, func(ch tree.Change) error {
		if ch.New == nil || ch.Old != nil && home.IsDirChange(ch) && ch.Old.Kind == tree.KindDir {
			return nil
		}
		verdict, what, err := gate.Judge(x.ctx, home.Outgoing(ch.Path, ch.Old, ch.New))
		if err != nil || verdict == outgoing.Passes {
			return err
		}
		o.skipped[ch.Path] = true
		if x.req.Changes || ch.New.Kind == tree.KindFile {
			x.res.Files--
			x.res.Bytes -= ch.New.Size
		}
		if verdict == outgoing.Behind {
			x.res.LeftBehind = append(x.res.LeftBehind, home.LeftBehind(ch.Path))
			return nil
		}
		x.res.Notes = append(x.res.Notes,
			fmt.Sprintf("left out: %s, which the cell %s: %s; --allow-control PATTERN keeps it", quote.Path(ch.Path), x.did(), what))
		return nil
	})
}

// linking returns the state whose links make control files of others: that before the
// cell's changes, or without it the exported one.
func (x *export) linking(from *tree.Tree) *tree.Tree {
	if x.req.Foreign {
		return x.tree
	}
	return from
}

// did says what the cell did to a control file that is left out.
func (x *export) did() string {
	if x.req.Foreign && x.req.Changed == nil {
		return "may have changed"
	}
	return "changed"
}

// eachChange calls fn with each change between from and what is exported.
func (x *export) eachChange(from *tree.Tree, fn func(tree.Change) error) error {
	if !x.req.Changes {
		named := x.namedPaths()
		return tree.DiffFunc(from, x.tree, tree.DiffOptions{}, func(ch tree.Change) error {
			if x.req.Changed != nil && !named[ch.Path] {
				return nil
			}
			return fn(ch)
		})
	}
	for _, ch := range x.changes {
		if err := fn(ch); err != nil {
			return err
		}
	}
	return nil
}

// skip reports whether a path, or a directory above it, is left out.
func (o *hostExport) skip(p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if o.skipped[p] {
			return true
		}
	}
	return false
}

// hostEntry returns an entry as it is written to the host.
func (o *hostExport) hostEntry(_ string, e tree.Entry) tree.Entry {
	onHost, _ := o.convert(e)
	return onHost
}

// convert returns an entry as it is written to the host, and the attributes that it
// loses.
func (o *hostExport) convert(e tree.Entry) (onHost tree.Entry, what []string) {
	onHost, what = o.self.OnHost(e, nil, nil)
	if o.self.SetID {
		return onHost, what
	}
	onHost, taken := rights.Strip(onHost)
	return onHost, append(what, taken...)
}

func (o *hostExport) note(p string, e tree.Entry) {
	_, what := o.convert(e)
	for _, text := range what {
		d := o.dropped[text]
		if d == nil {
			d = &droppedEntries{}
			o.dropped[text] = d
		}
		if o.most > 0 && len(d.paths) == o.most {
			d.more++
		} else {
			d.paths = append(d.paths, p)
		}
	}
}

// survey notes the attributes that the entries of a tree lose.
func (o *hostExport) survey(t *tree.Tree) error {
	return t.Walk(func(p string, e tree.Entry) error {
		if !o.skip(p) {
			o.note(p, e)
		} else if e.Kind == tree.KindDir {
			return fs.SkipDir
		}
		return nil
	})
}

// notes returns a sentence for each dropped attribute of each entry.
func (o *hostExport) notes() []string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(o.dropped)) {
		d := o.dropped[what]
		slices.Sort(d.paths)
		for _, p := range d.paths {
			out = append(out, fmt.Sprintf("dropped: %s: %s", quote.Line(what), quote.Path(p)))
		}
		if d.more > 0 {
			out = append(out, fmt.Sprintf("dropped: %s: %d more", quote.Line(what), d.more))
		}
	}
	return out
}
