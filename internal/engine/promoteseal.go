package engine

import (
	"strconv"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// carryOut seals the new states of the shared caches and records them, all in one
// transaction. Before that nothing refers to what was sealed.
func (p *promotion) carryOut() error {
	p.done.What = "promote"
	for _, s := range p.sharings {
		p.done.TotalFiles += s.result.Files
	}
	for _, s := range p.sharings {
		if err := p.seal(s); err != nil {
			return api.Failf(api.CodePromote, err, "promote the caches of cell %s", quote.Line(p.cell.Name))
		}
	}
	failpoint.Hit("promote.sealed")
	return p.e.Store.Update(func(tx *store.Tx) error {
		for _, s := range p.sharings {
			if err := p.record(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// seal makes the next state of a shared cache.
func (p *promotion) seal(s *sharing) error {
	s.next = s.head
	if len(s.edits) == 0 {
		return nil
	}
	if s.head.ID == "" {
		if err := p.begin(s); err != nil {
			return err
		}
	}
	at, err := p.e.Layout(s.cell)
	if err != nil {
		return err
	}
	session := p.e.notHeld(s.cell, s.head)
	session.At = at
	if s.made == nil && s.base == nil {
		if err := session.Squash(p.ctx); err != nil {
			return err
		}
		s.head = session.Head
	}
	s.next = s.head
	sealed, err := p.e.Workspace.Compose(p.ctx, at, s.head.Layer, store.NewID("op"), s.edits)
	if err != nil {
		return err
	}
	if !sealed.Unchanged {
		s.next = p.e.NewCheckpoint(s.cell, s.head.ID, kindPromoted, "", sealed)
	}
	return nil
}

// begin describes a new shared cache, which starts as the home's cache or empty.
func (p *promotion) begin(s *sharing) error {
	s.cell = store.Cell{
		ID: store.NewID("cell"), Name: s.result.Cache, LastName: s.result.Cache, Source: s.result.Source, SourceKind: home.SourceCache,
		Backend: string(workspace.BackendOverlay), BackendReason: "a shared cache", Runtime: api.RuntimeNative, MountAt: home.CachePath,
		Rules: store.Rules{NoDefaults: true}, CreatedAt: p.e.Now().UTC(),
	}
	if s.base != nil {
		s.head = s.base.next
		s.cell.Head, s.cell.Applied = s.head.ID, s.base.cell.Applied
		s.cell.ForkedCell, s.cell.ForkedCheckpoint = s.base.cell.ID, s.head.ID
		return nil
	}
	at, err := p.e.Layout(s.cell)
	if err != nil {
		return err
	}
	sealed, _, err := p.e.Workspace.Import(p.ctx, at, store.NewID("op"), workspace.Source{
		Fill: func(*fsx.Dir) (workspace.OwnerOf, error) { return noOwner, nil },
	})
	if err != nil {
		return err
	}
	s.head = p.e.NewCheckpoint(s.cell, "", "init", "", sealed)
	s.made = &s.head
	s.cell.Head, s.cell.Applied = s.head.ID, s.head.ID
	return nil
}

// noOwner records no owner: files belong to their owner on the disk.
func noOwner(string) (workspace.Owner, bool) { return workspace.Owner{}, false }

// record records a new shared cache and the added files.
func (p *promotion) record(tx *store.Tx, s *sharing) error {
	if s.cell.ID == "" {
		return nil // nothing to add
	}
	s.result.CheckpointID, s.result.Root = s.next.ID, s.next.Root()
	if s.made != nil || s.base != nil {
		op := receipt.OpFork
		if err := tx.PutCell(s.cell); err != nil {
			return err
		}
		if s.made != nil {
			op = receipt.OpInit
			if err := tx.PutCheckpoint(*s.made); err != nil {
				return err
			}
		}
		if err := p.e.Evidence.Change(tx, s.cell, s.head, op, nil); err != nil {
			return err
		}
	}
	if s.next.ID == s.head.ID {
		return nil
	}
	if err := tx.PutCheckpoint(s.next); err != nil {
		return err
	}
	s.cell.Head = s.next.ID
	if err := tx.PutCell(s.cell); err != nil {
		return err
	}
	return p.e.Evidence.Change(tx, s.cell, s.next, receipt.OpPromote, map[string]string{
		home.DetailFromCell: p.cell.Name, detailFromCellID: p.cell.ID, detailFromCheckpoint: p.head.ID,
		detailFromRoot: p.head.Areas[home.AreaCache].Root,
		detailFiles:    strconv.FormatInt(s.result.Files, 10), detailBytes: strconv.FormatInt(s.result.Bytes, 10),
	})
}
