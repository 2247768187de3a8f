package cell

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
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// checkName accepts [a-z0-9][a-z0-9._-]{0,62}.
func checkName(what, name string) error {
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

// findCell looks a cell up by name.
func (e *Engine) findCell(name string) (store.Cell, error) {
	if err := checkName("cell", name); err != nil {
		return store.Cell{}, err
	}
	var c store.Cell
	err := e.view(func(tx *store.Tx) (err error) {
		c, err = tx.Cell(name)
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
func (e *Engine) CellAt(_ context.Context, dir string) (name, below string, err error) {
	var cells []store.Cell
	if err := e.view(func(tx *store.Tx) (err error) {
		cells, err = tx.Cells(false)
		return err
	}); err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", "", err
	}
	sources := map[string]string{}
	for _, c := range cells {
		if isOfDirectory(c) {
			sources[c.Name] = c.Source
		}
	}
	return CellOf(dir, sources)
}

// isOfDirectory reports whether a cell was made from a directory, and is no fork.
func isOfDirectory(c store.Cell) bool { return c.SourceKind == "dir" && c.ForkedCell == "" }

// CellOf is CellAt among cells with the given sources, by their names.
func CellOf(dir string, sources map[string]string) (name, below string, err error) {
	real, err := realPath(dir)
	if err != nil {
		return "", "", err
	}
	source, names := "", []string{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		at := sources[name]
		if !within(real, at) || len(at) < len(source) {
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

// splitBack splits "STATE~N" into the state and N. "STATE~" means N = 1, and a
// reference without "~" has N = 0.
func splitBack(ref string) (state string, n int, err error) {
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

// findCheckpoint resolves a state of a cell: an id or a unique part of one, a
// name given with checkpoint --name, the cell's own name, or one of the words
// HEAD, base and applied. "~N" after any of them, or alone for the head, is the
// Nth state before it.
func (e *Engine) findCheckpoint(tx *store.Tx, c store.Cell, ref string) (store.Checkpoint, error) {
	state, n, err := splitBack(ref)
	if err != nil {
		return store.Checkpoint{}, err
	}
	from, err := e.findState(tx, c, state)
	if err != nil || n == 0 {
		return from, err
	}
	return stateBefore(tx, c, from.ID, n, ref)
}

// stateBefore returns the Nth state before a state of a cell. ref is the reference
// to name in errors.
func stateBefore(tx *store.Tx, c store.Cell, id string, n int, ref string) (store.Checkpoint, error) {
	line, err := tx.Lineage(id)
	if err != nil {
		return store.Checkpoint{}, err
	}
	if n >= len(line) {
		return store.Checkpoint{}, api.Missing("checkpoint", fmt.Sprintf("%s: there are %d states before it", ref, len(line)-1),
			"`forkcell log "+c.Name+"` shows them")
	}
	return line[n], nil
}

// isWord reports whether a reference is a reserved word for a state. It has
// priority over a cell of that name.
func isWord(ref string) bool {
	return slices.Contains([]string{"", "head", "HEAD", "base", "applied"}, ref)
}

func (e *Engine) findState(tx *store.Tx, c store.Cell, ref string) (store.Checkpoint, error) {
	switch ref {
	case "", "head", "HEAD":
		return tx.Checkpoint(c.Head)
	case "applied":
		return tx.Checkpoint(c.Applied)
	case "base":
		return tx.First(c.Head)
	}
	found, err := tx.Named(c.ID, ref)
	if !errors.Is(err, store.ErrNotFound) {
		return found, err
	}
	if ref == c.Name {
		return tx.Checkpoint(c.Head)
	}
	id, err := tx.Complete("checkpoints", ref)
	if err != nil {
		return store.Checkpoint{}, idError("checkpoint", ref, err, "`forkcell log "+c.Name+"` shows them")
	}
	if found, err = tx.Checkpoint(id); err != nil {
		return found, err
	}
	ours, err := e.inHistory(tx, c, found)
	if err == nil && !ours {
		other, lookup := tx.CellByID(found.CellID)
		if lookup != nil {
			return found, lookup
		}
		hint := fmt.Sprintf("it belongs to cell %s: fork that one with --checkpoint", other.LastName)
		if !e.caller.sees(other.LastName) {
			hint = ""
		}
		return found, api.Missing("checkpoint of "+c.Name, ref, hint)
	}
	return found, err
}

// inHistory reports whether a checkpoint is part of a cell's own history, or of the
// history of what it was forked from.
func (e *Engine) inHistory(tx *store.Tx, c store.Cell, chk store.Checkpoint) (bool, error) {
	if chk.CellID == c.ID {
		return true, nil
	}
	for _, from := range []string{c.Head, c.ForkedCheckpoint} {
		if from == "" {
			continue
		}
		in, err := inLineage(tx, chk.ID, from)
		if in || err != nil {
			return in, err
		}
	}
	return false, nil
}

// inLineage reports whether id is tip or one of its ancestors.
func inLineage(tx *store.Tx, id, tip string) (bool, error) {
	line, err := tx.Lineage(tip)
	if err != nil {
		return false, err
	}
	for _, c := range line {
		if c.ID == id {
			return true, nil
		}
	}
	return false, nil
}

// findRun resolves a run of a cell; "" is its last one.
func (e *Engine) findRun(tx *store.Tx, c store.Cell, ref string) (store.Run, error) {
	if ref == "" {
		r, err := tx.LastRun(c.ID)
		if errors.Is(err, store.ErrNotFound) {
			return r, api.Missing("run", c.Name+" has none yet", "`forkcell run "+c.Name+" -- CMD` makes one")
		}
		return r, err
	}
	id, err := tx.Complete("runs", ref)
	if err != nil {
		return store.Run{}, idError("run", ref, err, "`forkcell log "+c.Name+"` shows them")
	}
	r, err := tx.Run(id)
	if err != nil || r.CellID == c.ID {
		return r, err
	}
	// A fork has the runs whose work it inherited.
	inherited, err := inLineage(tx, r.After, c.Head)
	if err == nil && !inherited {
		err = api.Missing("run of "+c.Name, ref, "`forkcell log "+c.Name+"` shows them")
	}
	return r, err
}

func idError(what, ref string, err error, hint string) error {
	if errors.Is(err, store.ErrAmbiguous) {
		return api.Usagef("use more characters", "ambiguous %s id %s", what, quote.Arg(ref))
	}
	if errors.Is(err, store.ErrNotFound) {
		return api.Missing(what, ref, hint)
	}
	return err
}

// nameAfter returns an unused cell name that is derived from a directory.
func (e *Engine) nameAfter(dir string) string {
	base := NameAfter(dir)
	name := base
	for n := 2; api.KindOf(e.nameFree(name)) == api.Refused; n++ {
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

// refuseOverlap refuses a path that contains the home or is in it: a cell must never reach
// the keys, and an import must never import itself.
func (e *Engine) refuseOverlap(flag, path string) error {
	real, err := realPath(path)
	if err != nil {
		return api.Usagef("", "%s %s: %v", flag, quote.Path(path), err)
	}
	home, err := realPath(e.home)
	if err != nil {
		return err
	}
	if within(real, home) || within(home, real) {
		return api.Refusef(api.CodeOverlap, "choose another directory, or another --home",
			"%s %s overlaps the state directory %s", flag, quote.Path(path), quote.Path(e.home))
	}
	return nil
}

func (e *Engine) nameFree(name string) error {
	_, err := e.findCell(name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name, or `forkcell rm "+name+"`", "cell %s exists already", name)
	}
	if api.KindOf(err) == api.NotFound {
		return nil
	}
	return err
}

// outsideWorkspaces refuses a file of the operator in a place that a cell or an
// apply could write to: it names grants, or commands that run on the host.
func (e *Engine) outsideWorkspaces(what, file string) error {
	const hint = "keep it elsewhere, also if it is linked to"
	home, err := realPath(e.home)
	if err != nil {
		return err
	}
	if within(file, home) {
		return api.Refusef(api.CodeCredential, hint, "the %s %s is in the state directory", what, quote.Path(file))
	}
	var cells []store.Cell
	err = e.view(func(tx *store.Tx) (err error) {
		cells, err = tx.Cells(false)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range cells {
		if source, err := realPath(c.Source); err == nil && c.SourceKind == "dir" && within(file, source) {
			return api.Refusef(api.CodeCredential, hint, "the %s %s is in the workspace of cell %s", what, quote.Path(file), c.Name)
		}
	}
	return nil
}

// namesFree reports whether no cell has one of the names.
func (e *Engine) namesFree(names []string) (free bool, err error) {
	err = e.store.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		free = !slices.ContainsFunc(cells, func(c store.Cell) bool { return slices.Contains(names, c.Name) })
		return err
	})
	return free, err
}
