package engine

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/publication"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// A mirror is a cell of the caller's own home that stands for a cell of a daemon. It
// was made from the same directory. What the daemon's cell has accepted comes to the
// mirror as an archive, and is applied from there by the rules of any other cell.

// AcceptedState returns the newest state of a cell that is accepted with all before it, the
// states of the source that it contains, and which of the given roots it contains. With
// receipts it lists those of the work in it.
func (e *Engine) AcceptedState(_ context.Context, cell string, roots []string, receipts bool) (*api.AcceptedState, error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, err
	}
	res := &api.AcceptedState{Cell: c.Name, CellID: c.ID, Sources: []string{}, Contains: []string{}, Origins: []string{}, Receipts: []api.PublishedReceipt{}}
	var accepted store.Checkpoint
	err = e.View(func(tx *store.Tx) error {
		head, err := tx.Checkpoint(c.Head)
		if err != nil {
			return err
		}
		state, waiting, err := home.NewestAccepted(tx, c, head)
		if err != nil {
			return err
		}
		if waiting != nil {
			res.Undecided = waiting.Describe(c)
		}
		accepted, res.CheckpointID, res.Root = state, state.ID, state.Root()
		line, err := tx.Lineage(state.ID)
		if err != nil {
			return err
		}
		for _, l := range line {
			if slices.Contains(roots, l.Root()) {
				res.Contains = append(res.Contains, l.Root())
			}
		}
		if res.Sources, err = sourcesIn(tx, line); err != nil {
			return err
		}
		res.Origins, err = e.originsOf(tx, c)
		return err
	})
	if err == nil && receipts {
		res.Receipts, err = publication.Receipts(e.Home, c, accepted)
	}
	return res, err
}

// originsOf returns the ids of the cells that a cell was forked from, the nearest first,
// up to the first one that the caller does not see.
func (e *Engine) originsOf(tx *store.Tx, c store.Cell) ([]string, error) {
	origins := []string{}
	for c.ForkedCell != "" {
		parent, err := tx.CellByID(c.ForkedCell)
		if err != nil || !e.Caller.MaySee(parent.LastName) {
			return origins, err
		}
		origins, c = append(origins, parent.ID), parent
	}
	return origins, nil
}

// sourcesIn returns the roots of the states of the source that a lineage contains, the
// newest first. The first state of a cell is one.
func sourcesIn(tx *store.Tx, line []store.Checkpoint) ([]string, error) {
	roots := []string{}
	for i, c := range line {
		if c.Source != "" {
			source, err := tx.Checkpoint(c.Source)
			if err != nil {
				return nil, err
			}
			roots = append(roots, source.Root())
		}
		if c.Kind == home.KindSource || i == len(line)-1 {
			roots = append(roots, c.Root())
		}
	}
	return roots, nil
}

// SourceRoots returns the roots of states that the source of a cell has had, the newest
// first: at the last apply or refresh, and before it as far as is known.
func (e *Engine) SourceRoots(_ context.Context, cell string) ([]string, error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, err
	}
	var roots []string
	err = e.View(func(tx *store.Tx) error {
		states, err := e.pastSources(tx, c)
		for _, s := range states {
			roots = append(roots, s.Root())
		}
		return err
	})
	return roots, err
}

// maxPast bounds how many past states of a source are told.
const maxPast = 256

// pastSources returns the states that the source of a cell has had, the newest first. The
// last one is the first state of the cell.
func (e *Engine) pastSources(tx *store.Tx, c store.Cell) ([]store.Checkpoint, error) {
	first, err := e.FindCheckpoint(tx, c, "base")
	if err != nil {
		return nil, err
	}
	var states []store.Checkpoint
	for id := c.Applied; id != "" && id != first.ID && len(states) < maxPast-1; {
		state, err := tx.Checkpoint(id)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
		if id = state.Source; state.Kind == home.KindSource {
			id = state.Parent
		}
	}
	return append(states, first), nil
}

func sourceStates(tx *store.Tx, c store.Cell) ([]store.Checkpoint, error) {
	var states []store.Checkpoint
	for id := c.Applied; ; {
		state, err := tx.Checkpoint(id)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
		if state.Kind != home.KindSource {
			return states, nil
		}
		id = state.Parent
	}
}

// ForkMirror makes the mirror of a fork from that of the cell that was forked. roots are
// those that the fork contains. The fork begins at the newest state of the directory
// among them: what the directory got after that is the directory's own.
func (e *Engine) ForkMirror(ctx context.Context, from, name string, roots []string) error {
	if err := home.CheckName("cell", name); err != nil {
		return err
	}
	c, err := e.FindCell(from)
	if err != nil {
		return err
	}
	var at *store.Checkpoint
	err = e.View(func(tx *store.Tx) error {
		states, err := e.pastSources(tx, c)
		if i := slices.IndexFunc(states, func(s store.Checkpoint) bool { return slices.Contains(roots, s.Root()) }); i >= 0 {
			at = &states[i]
		}
		return err
	})
	if err != nil {
		return err
	}
	if at == nil {
		return api.Refusef(api.CodeNoSource, "`forkcell export "+name+" -o DIR` writes its files to a new directory",
			"cell %s contains no state that %s has had", name, quote.Path(c.Source))
	}
	f, err := e.stateToFork(ctx, api.ForkRequest{Cell: from, Checkpoint: at.ID}, nil)
	if err != nil {
		return err
	}
	defer f.lock.Unlock()
	forks := e.forkCells(f.from, f.at, []string{name})
	forks[0].Applied = f.at.ID
	return e.makeForks(ctx, f, forks, func(*store.Tx) error { return nil })
}

// ApplyReceived makes an archive the state of a mirror, if it has the root that the
// request names, and applies it. open is called if the mirror does not have it yet.
func (e *Engine) ApplyReceived(ctx context.Context, state api.ReceiveRequest, req api.ApplyRequest, open func() (io.ReadCloser, error)) (*api.ApplyResult, error) {
	s, err := e.hold(ctx, req.Cell, "apply", 0)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if err := s.receive(e.WithProgress(ctx), state, open); err != nil {
		return nil, err
	}
	return s.e.ApplyHeld(ctx, s.Cell, req)
}

// PublishReceived makes an archive the state of a mirror, if it has the root that is named,
// and publishes it from the repository of this machine. open is called if the mirror does
// not have it yet.
func (e *Engine) PublishReceived(ctx context.Context, work publication.ReceivedWork, req api.PublishRequest, open func() (io.ReadCloser, error)) (*api.PublishResult, error) {
	s, err := e.hold(ctx, req.Cell, "publish", 0)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if err := s.receive(e.WithProgress(ctx), work.ReceiveRequest, open); err != nil {
		return nil, err
	}
	return e.PublishHeld(ctx, s.Cell, req, &work)
}

// Receive makes an archive the state of a mirror, if it has the root that the request
// names.
func (e *Engine) Receive(ctx context.Context, cell string, state api.ReceiveRequest, open func() (io.ReadCloser, error)) error {
	s, err := e.hold(ctx, cell, "receive", 0)
	if err != nil {
		return err
	}
	defer s.Release()
	return s.receive(e.WithProgress(ctx), state, open)
}

func (s *heldCell) receive(ctx context.Context, state api.ReceiveRequest, open func() (io.ReadCloser, error)) error {
	var first, applied store.Checkpoint
	var source *store.Checkpoint
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if first, err = s.e.FindCheckpoint(tx, s.Record, "base"); err != nil {
			return err
		}
		states, err := sourceStates(tx, s.Record)
		if err != nil {
			return err
		}
		applied = states[0]
		at := slices.IndexFunc(states, func(c store.Checkpoint) bool { return slices.Contains(state.Sources, c.Root()) })
		if at >= 0 && states[at].Kind == home.KindSource {
			source = &states[at]
		}
		return nil
	})
	if err != nil || s.hasReceived(state, first, source) {
		return err
	}
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	at := s.At
	at.Rules = nil // the apply decides what may be written
	src, err := s.unpack(ctx, at, body)
	if err != nil {
		return err
	}
	defer src.close()
	return s.takeReceived(ctx, src, state.Root, first, applied, source)
}

// hasReceived reports whether the state of the mirror is the one to be received.
func (s *heldCell) hasReceived(state api.ReceiveRequest, first store.Checkpoint, source *store.Checkpoint) bool {
	from := ""
	if source != nil {
		from = source.ID
	}
	return s.Head.Root() == state.Root && s.Head.Kind == kindRefresh && s.Head.Parent == first.ID && s.Head.Source == from
}

// takeReceived seals an unpacked state. It follows the first state of the mirror, and
// contains the given state of the source, if any: the mirror need not have what lies
// between. Its layer is based on the last applied state, which is similar.
func (s *heldCell) takeReceived(ctx context.Context, src *openedSource, root string, first, applied store.Checkpoint, source *store.Checkpoint) error {
	was, err := s.e.Tree(applied, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	changes, err := tree.Diff(was, src.tree, tree.DiffOptions{MTimes: true})
	if err != nil {
		return home.LongPath(s.Record, err)
	}
	var edits []workspace.Edit
	for _, ch := range changes {
		edits = append(edits, sourceEdit(src.dir, ch.Path, ch.New))
	}
	next, err := s.Derive(ctx, applied, kindRefresh, edits)
	if err != nil {
		return fmt.Errorf("seal the received state: %w", err)
	}
	if root != "" && next.Root() != root {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeProtocol, Message: "the archive from the daemon is not the state " + quote.UTF8(root) + " that it names",
			Hint: "nothing was changed; try again, and do not trust that daemon if it happens again",
		}
	}
	details := map[string]string{}
	if next.ID != applied.ID {
		next.Parent = first.ID
		if source != nil {
			next.Source = source.ID
			if details["state"], err = statements.StateDetail(*source); err != nil {
				return err
			}
		}
	}
	return s.Move(ctx, next, func(tx *store.Tx) error {
		if next.ID != applied.ID {
			if err := tx.PutCheckpoint(next); err != nil {
				return err
			}
		}
		moved := s.Record
		moved.Head = next.ID
		return s.e.Evidence.Change(tx, moved, next, receipt.OpRefresh, details)
	})
}
