package home

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// CheckName accepts [a-z0-9][a-z0-9._-]{0,62}.
func CheckName(what, name string) error {
	ok := name != "" && len(name) <= 63
	for i := 0; ok && i < len(name); i++ {
		ch := name[i]
		plain := ch >= 'a' && ch <= 'z' || ch >= '0' && ch <= '9'
		ok = plain || i > 0 && (ch == '.' || ch == '_' || ch == '-')
	}
	if !ok {
		return api.Usagef("use 1 to 63 of a-z 0-9 . _ - and begin with a letter or digit", "bad %s name %s", what, quote.Arg(name))
	}
	return nil
}

// FindCell looks a cell up by name. The error about one that was removed says how it comes
// back.
func (h *Home) FindCell(name string) (store.Cell, error) {
	c, err := h.findCell(name, (*store.Tx).Cell)
	if api.CodeOf(err) != api.CodeNotFound {
		return c, err
	}
	hint := ""
	_ = h.View(func(tx *store.Tx) error { // without it the error is as good
		removed, err := h.RemovedCells(tx)
		if slices.ContainsFunc(removed, func(c store.Cell) bool { return c.LastName == name }) {
			hint = "it was removed: `forkcell rm --undo " + name + "` brings it back"
		}
		return err
	})
	if hint != "" {
		err = api.WithHint(err, api.CodeNotFound, hint)
	}
	return c, err
}

// FindRecorded looks a cell up by name for its evidence, which stays after it was removed.
func (h *Home) FindRecorded(name string) (store.Cell, error) {
	return h.findCell(name, (*store.Tx).RecordedCell)
}

func (h *Home) findCell(name string, find func(*store.Tx, string) (store.Cell, error)) (store.Cell, error) {
	if err := CheckName("cell", name); err != nil {
		return store.Cell{}, err
	}
	var c store.Cell
	err := h.View(func(tx *store.Tx) (err error) {
		c, err = find(tx, name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return c, api.Missing("cell", name, "`forkcell ls` shows the cells")
	}
	return c, err
}

// CellAt returns the cell that was made from a directory, or from the nearest
// directory above it that a cell was made from, and the path of dir below that
// source. Forks do not count. The name is empty when there is no such cell;
// several cells of one source are an error that names them.
func (h *Home) CellAt(_ context.Context, dir string) (name, below string, err error) {
	real, err := fsx.RealPath(dir)
	if err != nil {
		return "", "", err
	}
	dirs := []string{real}
	for at := real; at != "/"; {
		at = filepath.Dir(at)
		dirs = append(dirs, at)
	}
	var cells []store.Cell
	if err := h.View(func(tx *store.Tx) (err error) {
		cells, err = tx.CellsOf(dirs)
		return err
	}); err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", "", err
	}
	sources := map[string]string{}
	for _, c := range cells {
		sources[c.Name] = c.Source
	}
	return CellOf(real, sources)
}

// IsOfDirectory reports whether a cell was made from a directory, and is no fork.
func IsOfDirectory(c store.Cell) bool { return c.SourceKind == "dir" && c.ForkedCell == "" }

// CellOf is CellAt among cells with the given sources, by their names.
func CellOf(dir string, sources map[string]string) (name, below string, err error) {
	real, err := fsx.RealPath(dir)
	if err != nil {
		return "", "", err
	}
	source, names := "", []string{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		at := sources[name]
		if !fsx.Within(real, at) || len(at) < len(source) {
			continue
		}
		if at != source {
			source, names = at, nil
		}
		names = append(names, name)
	}
	switch len(names) {
	case 0:
		return "", "", nil
	case 1:
		below, err = filepath.Rel(source, real)
		return names[0], below, err
	}
	return "", "", api.Refusef(api.CodeSeveralCells, "give the name of one of them",
		"%s is the source of several cells: %s", quote.Path(source), strings.Join(names, ", "))
}

// SplitBack splits "STATE~N" into the state and N. "STATE~" means N = 1, and a
// reference without "~" has N = 0.
func SplitBack(ref string) (state string, n int, err error) {
	state, count, ok := strings.Cut(ref, "~")
	if !ok || count == "" {
		if ok {
			n = 1
		}
		return state, n, nil
	}
	back, err := strconv.ParseUint(count, 10, 31)
	if err != nil {
		return "", 0, api.Usagef("write STATE~N with a number N, such as HEAD~1", "bad checkpoint %s", quote.Arg(ref))
	}
	return state, int(back), nil
}

// FindCheckpoint resolves a state of a cell: an id or a unique part of one, a
// name given with checkpoint --name, the cell's own name, or one of the words
// HEAD, base and applied. "~N" after any of them, or alone for the head, is the
// Nth state before it.
func (h *Home) FindCheckpoint(tx *store.Tx, c store.Cell, ref string) (store.Checkpoint, error) {
	state, n, err := SplitBack(ref)
	if err != nil {
		return store.Checkpoint{}, err
	}
	from, err := h.findState(tx, c, state)
	if err != nil || n == 0 {
		return from, err
	}
	return StateBefore(tx, c, from.ID, n, ref)
}

// StateBefore returns the Nth state before a state of a cell. ref is the reference
// to name in errors.
func StateBefore(tx *store.Tx, c store.Cell, id string, n int, ref string) (store.Checkpoint, error) {
	line, err := tx.Lineage(id)
	if err != nil {
		return store.Checkpoint{}, err
	}
	if n >= len(line) {
		return store.Checkpoint{}, api.Missing("checkpoint", fmt.Sprintf("%s: the cell has %s before it", ref, api.Counted(len(line)-1, "state")),
			"`forkcell log "+c.Name+"` shows them")
	}
	return line[n], nil
}

// IsWord reports whether a reference is a reserved word for a state. It has
// priority over a cell of that name.
func IsWord(ref string) bool {
	return slices.Contains([]string{"", "head", "HEAD", "base", "applied"}, ref)
}

func (h *Home) findState(tx *store.Tx, c store.Cell, ref string) (store.Checkpoint, error) {
	switch ref {
	case "", "head", "HEAD":
		return tx.Checkpoint(c.Head)
	case "applied":
		return tx.Checkpoint(c.Applied)
	case "base":
		return tx.First(c.Head)
	}
	found, err := tx.FindNamed(c.ID, ref)
	if !errors.Is(err, store.ErrNotFound) {
		return found, err
	}
	if ref == c.Name {
		return tx.Checkpoint(c.Head)
	}
	id, err := h.CompleteID(tx, "checkpoints", ref, func(id string) (bool, error) {
		chk, err := tx.Checkpoint(id)
		if err != nil {
			return false, err
		}
		return h.inHistory(tx, c, chk)
	})
	if err != nil {
		return store.Checkpoint{}, IDError("checkpoint", ref, err, "`forkcell log "+c.Name+"` shows them")
	}
	if found, err = tx.Checkpoint(id); err != nil {
		return found, err
	}
	ours, err := h.inHistory(tx, c, found)
	if err == nil && !ours {
		other, lookup := tx.CellByID(found.CellID)
		if lookup != nil {
			return found, lookup
		}
		return found, api.Missing("checkpoint of "+c.Name, ref, fmt.Sprintf("it belongs to cell %s: fork that one with --checkpoint", other.LastName))
	}
	return found, err
}

// inHistory reports whether a checkpoint is part of a cell's own history, or of the
// history of what it was forked from.
func (h *Home) inHistory(tx *store.Tx, c store.Cell, chk store.Checkpoint) (bool, error) {
	if chk.CellID == c.ID {
		return true, nil
	}
	for _, from := range []string{c.Head, c.ForkedCheckpoint} {
		if from == "" {
			continue
		}
		in, err := InLineage(tx, chk.ID, from)
		if in || err != nil {
			return in, err
		}
	}
	return false, nil
}

// InLineage reports whether id is tip or one of its ancestors.
func InLineage(tx *store.Tx, id, tip string) (bool, error) {
	line, err := tx.Ancestors(tip)
	return slices.ContainsFunc(line, func(a store.Ancestor) bool { return a.ID == id }), err
}

// noRun returns the error about a cell without a run that has ended.
func noRun(tx *store.Tx, c store.Cell) error {
	open, err := tx.UnfinishedRuns(c.ID)
	switch {
	case err != nil:
		return err
	case len(open) > 0:
		return api.Missing("finished run", c.Name+" has only "+open[0].ID, "if its process has died, `forkcell checkpoint "+c.Name+"` finishes it")
	}
	return api.Missing("run", c.Name+" has none yet", "`forkcell run "+c.Name+" -- CMD` makes one")
}

// FindRun resolves a run of a cell; "" is its last one.
func (h *Home) FindRun(tx *store.Tx, c store.Cell, ref string) (store.Run, error) {
	if ref == "" {
		r, err := tx.LastRun(c.ID)
		if errors.Is(err, store.ErrNotFound) {
			return r, noRun(tx, c)
		}
		return r, err
	}
	// A fork has the runs whose work, or a part of it, it inherited; a raced cell has that
	// of the winner.
	inherited := func(id string) (bool, error) {
		r, err := tx.Run(id)
		if err != nil {
			return false, err
		}
		line, err := tx.Lineage(c.Head)
		return slices.ContainsFunc(line, func(chk store.Checkpoint) bool { return chk.ID == r.After || chk.RunID == r.ID }), err
	}
	id, err := h.CompleteID(tx, "runs", ref, inherited)
	if err != nil {
		return store.Run{}, IDError("run", ref, err, "`forkcell log "+c.Name+"` shows them")
	}
	r, err := tx.Run(id)
	if err != nil || r.CellID == c.ID {
		return r, err
	}
	ours, err := inherited(id)
	if err == nil && !ours {
		err = api.Missing("run of "+c.Name, ref, "`forkcell log "+c.Name+"` shows them")
	}
	return r, err
}

// NameAfter returns an unused cell name that is derived from a directory.
func (h *Home) NameAfter(dir string) string {
	base := NameAfter(dir)
	name := base
	for n := 2; api.KindOf(h.NameFree(name)) == api.Refused; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

// NameAfter returns a name for a cell that is derived from a directory. A number fits
// behind it.
func NameAfter(dir string) string {
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(dir))
	base = strings.Trim(base, "._-")
	if base == "" {
		base = "cell"
	}
	return base[:min(len(base), 56)]
}

// RefuseOverlap refuses a path that contains the home or is in it: a cell must never reach
// the keys, and an import must never import itself.
func (h *Home) RefuseOverlap(flag, path string) error {
	real, err := fsx.RealPath(path)
	if err != nil {
		return api.Usagef("", "%s %s: %v", flag, quote.Path(path), quote.Cause(err))
	}
	home, err := fsx.RealPath(h.Path)
	if err != nil {
		return err
	}
	if fsx.Within(real, home) || fsx.Within(home, real) {
		return api.Refusef(api.CodeOverlap, "choose another directory, or another --home",
			"%s %s overlaps the state directory %s", flag, quote.Path(path), quote.Path(h.Path))
	}
	return nil
}

// NameFree refuses the name of a cell that exists.
func (h *Home) NameFree(name string) error {
	_, err := h.FindCell(name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name, or `forkcell rm "+name+"`", "cell %s exists already", name)
	}
	if api.KindOf(err) == api.NotFound {
		return nil
	}
	return err
}

// OutsideWorkspaces refuses a file of the operator in a place that a cell or an
// apply could write to: it names grants, or commands that run on the host.
func (h *Home) OutsideWorkspaces(what, file string) error {
	const hint = "keep it elsewhere, also if it is linked to"
	home, err := fsx.RealPath(h.Path)
	if err != nil {
		return err
	}
	if fsx.Within(file, home) {
		return api.Refusef(api.CodeCredential, hint, "the %s %s is in the state directory", what, quote.Path(file))
	}
	var cells []store.Cell
	err = h.View(func(tx *store.Tx) (err error) {
		cells, err = tx.Cells(false)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range cells {
		if source, err := fsx.RealPath(c.Source); err == nil && c.SourceKind == "dir" && fsx.Within(file, source) {
			return api.Refusef(api.CodeCredential, hint, "the %s %s is in the workspace of cell %s", what, quote.Path(file), c.Name)
		}
	}
	return nil
}

// FirstTaken returns the first of the names that a cell has; "" for none.
func (h *Home) FirstTaken(names []string) (taken string, err error) {
	err = h.Store.View(func(tx *store.Tx) error {
		for _, name := range names {
			if _, err := tx.Cell(name); err == nil {
				taken = name
				return nil
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	return taken, err
}
