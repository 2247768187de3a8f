package statements

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// maxLostIDs bounds each list of a loss, so that the statement keeps below the
// limit of an envelope.
const maxLostIDs = 20_000

// lostID returns the id, in the index, of a place whose statement is lost.
func lostID(seq int64) string { return fmt.Sprintf("lost_%d", seq) }

// loss replays a statement about a loss: the numbers that it gives up are not used
// again.
func (b *rebuild) loss(tx *store.Tx, p *receipt.Loss) error {
	b.losses = append(b.losses, p)
	for _, r := range p.Statements {
		for seq := r.From; seq <= r.To; seq++ {
			digest := ""
			if seq == p.Seq-1 {
				digest = p.Prev
			}
			if err := b.reserveNumber(tx, seq, digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserveNumber keeps the number of a lost statement from being used again.
func (b *rebuild) reserveNumber(tx *store.Tx, seq int64, digest string) error {
	if b.taken[seq] {
		return nil
	}
	b.taken[seq] = true
	return tx.IndexStatement(store.Statement{Seq: seq, ID: lostID(seq), Kind: KindLost, Digest: digest})
}

// givenUp reports whether the loss of a statement was accepted before.
func (b *rebuild) givenUp(seq int64) bool {
	return slices.ContainsFunc(b.losses, func(l *receipt.Loss) bool { return l.Covers(seq) })
}

// stateLoss states what is lost, if anything is that no statement says yet.
func (b *rebuild) stateLoss(tx *store.Tx) error {
	places := slices.DeleteFunc(slices.Collect(maps.Keys(b.lost)), b.givenUp)
	p := &receipt.Loss{LossID: store.NewID("loss"), Statements: receipt.Ranges(places)}
	for list, ids := range map[*[]string][]string{
		&p.Cells: b.lostCells, &p.Checkpoints: b.lostStates, &p.Runs: b.lostRuns, &p.Layers: b.lostLayers,
	} {
		n := min(len(ids), maxLostIDs)
		*list = ids[:n:n]
		p.More += int64(len(ids) - n)
	}
	if len(places)+len(p.Cells)+len(p.Checkpoints)+len(p.Runs)+len(p.Layers) == 0 {
		return nil
	}
	slices.Sort(places)
	last := int64(0)
	for seq := range b.taken {
		last = max(last, seq)
	}
	for _, seq := range places {
		digest := ""
		if seq == places[len(places)-1] && seq > last {
			digest = b.digests[seq] // what the statement about the loss follows
		}
		if err := b.reserveNumber(tx, seq, digest); err != nil {
			return err
		}
	}
	if err := b.log.store.NameHome(b.home); err != nil {
		return fmt.Errorf("write home.json: %w", err)
	}
	b.log.ForgetKey()
	if err := b.log.append(tx, store.Statement{ID: p.LossID, Kind: kindLoss}, "", p); err != nil {
		return err
	}
	b.res.Notes = append(b.res.Notes, describeLoss(p))
	return nil
}

// describeLoss lists what a statement gives up, in one line.
func describeLoss(p *receipt.Loss) string {
	var parts []string
	if len(p.Statements) > 0 {
		var ranges []string
		for _, r := range p.Statements {
			ranges = append(ranges, r.String())
		}
		word := "statements "
		if p.Count() == 1 {
			word = "statement "
		}
		parts = append(parts, word+strings.Join(ranges, ", "))
	}
	for _, of := range []struct {
		what string
		ids  []string
	}{{"cell", p.Cells}, {"checkpoint", p.Checkpoints}, {"run", p.Runs}, {"layer", p.Layers}} {
		if len(of.ids) > 0 {
			parts = append(parts, api.Counted(len(of.ids), of.what))
		}
	}
	return fmt.Sprintf("given up by statement %d: %s", p.Seq, strings.Join(parts, "; "))
}
