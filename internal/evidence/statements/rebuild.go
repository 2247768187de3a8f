package statements

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// rebuild replays a log into an empty database.
type rebuild struct {
	log    *Log
	res    *api.RecoverResult
	keys   *receipt.KeySet
	chain  *receipt.Chain
	seqs   []int64
	tail   []int64        // statements that may not have been committed
	strict bool           // they count only if nothing is wrong with them
	accept bool           // what is lost is given up
	old    *store.Witness // the old database, if it can be read
	home   string         // what the log calls the home
	found  []finding
	layers map[string]workspace.Info
	broken map[string]error // layers that do not say what they are
	seen   map[string]int64 // checkpoints, with the statement that gives them
	freed  map[string]bool  // checkpoints that the old database knows as freed
	named  map[string]bool  // layers that statements name
	begun  map[string]bool  // operations whose records were taken over, unfinished

	noOutput int // runs whose stored output is not there

	taken   map[int64]bool   // places in the index
	lost    map[int64]bool   // places whose statements are gone, or cannot be believed
	digests map[int64]string // of lost statements, as the old database has them
	losses  []*receipt.Loss  // that the log states
	partial bool             // the log lacks something

	lostCells, lostStates, lostRuns, lostLayers []string

	// each is called with every statement that holds, unless it is nil.
	each func(seq int64, raw []byte, s receipt.Statement) error
}

// finding is something that could not be rebuilt.
type finding struct {
	seq  int64 // the statement that is missing or wrong, or 0
	text string
}

// newRebuild replays the statements of the given numbers.
func (l *Log) newRebuild(res *api.RecoverResult, seqs []int64) (*rebuild, error) {
	keys, err := l.trustedKeys()
	if err != nil {
		return nil, err
	}
	infos, broken, err := l.layers.LayerInfos()
	if err != nil {
		return nil, err
	}
	b := &rebuild{
		log: l, res: res, keys: keys, seqs: seqs, broken: broken, chain: receipt.NewChain(keys),
		layers: map[string]workspace.Info{}, seen: map[string]int64{}, freed: map[string]bool{}, named: map[string]bool{},
		begun: map[string]bool{}, taken: map[int64]bool{}, lost: map[int64]bool{}, digests: map[int64]string{},
	}
	for _, info := range infos {
		b.layers[info.Layer] = info
	}
	return b, nil
}

func (b *rebuild) problem(format string, args ...any) { b.problemAt(0, format, args...) }

func (b *rebuild) problemAt(seq int64, format string, args ...any) {
	b.found = append(b.found, finding{seq, fmt.Sprintf(format, args...)})
}

// report copies the findings to the result, except those about statements whose
// loss was accepted.
func (b *rebuild) report() {
	for _, f := range b.found {
		if f.seq == 0 || !b.givenUp(f.seq) {
			b.res.Problems = append(b.res.Problems, f.text)
		}
	}
}

// gap returns the last lost place before a statement, or 0.
func (b *rebuild) gap(before int64) int64 {
	last := int64(0)
	for seq := range b.lost {
		if seq < before {
			last = max(last, seq)
		}
	}
	return last
}

func (b *rebuild) replay(tx *store.Tx) error {
	next := int64(1)
	for _, seq := range b.seqs {
		if seq-next > wideGap && !b.genuine(seq) {
			b.problem("log/ has a file for statement %d, far after the others, which no trusted key has signed: remove it", seq)
			continue
		}
		for ; next < seq; next++ {
			b.recordMissing(next, "statement %d is missing", next)
		}
		next = seq + 1
		if err := b.statement(tx, seq); err != nil {
			return err
		}
	}
	return b.replayTail(tx, next)
}

// wideGap is how many statements may be missing before an unsigned file. Each
// is a place that is remembered, so more are believed only of a signature.
const wideGap = 10_000

// genuine reports whether the statement of a number is signed by a known key, and says
// that number itself.
func (b *rebuild) genuine(seq int64) bool {
	raw, err := b.log.store.ReadStatement(seq)
	if err != nil {
		return false
	}
	s, err := receipt.Verify(raw, b.keys)
	return err == nil && s.Place().Seq == seq
}

// recordMissing records that a place of the log has no readable statement.
func (b *rebuild) recordMissing(seq int64, format string, args ...any) {
	b.problemAt(seq, format, args...)
	b.chain.Missing(errors.New("no file"))
	b.lost[seq] = true
}

// replayTail replays statements that may not have been committed, up to the first
// that is damaged or does not follow on: nothing contradicts them.
func (b *rebuild) replayTail(tx *store.Tx, next int64) error {
	b.strict = true
	for i, seq := range b.tail {
		before := len(b.found)
		if seq != next {
			return nil
		}
		if err := b.statement(tx, seq); err != nil {
			return err
		}
		if len(b.found) > before {
			b.found = b.found[:before]
			delete(b.lost, seq)
			return nil
		}
		b.log.store.Publish(b.tail[i : i+1])
		next++
	}
	return nil
}

func (b *rebuild) statement(tx *store.Tx, seq int64) error {
	raw, err := b.log.store.ReadStatement(seq)
	if err != nil {
		b.recordMissing(seq, "statement %d cannot be read: %v", seq, err)
		return nil
	}
	s, problems := b.chain.Next(raw)
	for _, p := range problems {
		b.problemAt(seq, "%s", p)
	}
	st := store.Statement{Seq: seq, Digest: receipt.Hash(raw)}
	if len(problems) > 0 && b.strict {
		return nil
	}
	if len(problems) > 0 && !b.isSigned(raw) {
		// Its number stays taken, so that what follows goes after it.
		b.chain.Reject()
		b.lost[seq] = true
		return b.reserveNumber(tx, seq, st.Digest)
	}
	if b.each != nil && len(problems) == 0 {
		if err := b.each(seq, raw, s); err != nil {
			return err
		}
	}
	st.CellID, b.home = s.Place().CellID, s.Place().HomeID
	if err := b.replayOne(tx, &st, s); err != nil {
		b.problem("statement %d could not be replayed: %v", seq, err)
	}
	b.res.Statements++
	b.taken[seq] = true
	return tx.IndexStatement(st)
}

// isSigned reports whether a statement is signed by a known key: then it only lost
// its neighbours.
func (b *rebuild) isSigned(raw []byte) bool {
	_, err := receipt.Verify(raw, b.keys)
	return err == nil
}

func (b *rebuild) replayOne(tx *store.Tx, st *store.Statement, s receipt.Statement) (err error) {
	switch p := s.Predicate.(type) {
	case *receipt.Change:
		st.ID, st.Kind = changePrefix(p.Op)+"_"+st.Digest[:26], KindCell
		err = b.change(tx, p)
	case *receipt.Run:
		st.ID, st.Kind, st.RunID = p.ReceiptID, kindRun, p.RunID
		err = b.run(tx, p)
	case *receipt.Decision:
		st.ID, st.Kind, st.RunID = p.DecisionID, KindDecision, p.RunID
		err = b.decision(tx, p)
	case *receipt.Rotation:
		st.ID, st.Kind = keyPrefix+p.NewKeyID, kindKey
	case *receipt.Loss:
		st.ID, st.Kind = p.LossID, kindLoss
		err = b.loss(tx, p)
	case *receipt.Journal:
		st.ID, st.Kind = p.JournalID, kindJournal
	}
	return err
}
