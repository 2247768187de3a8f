package receipt

import (
	"fmt"
	"iter"
)

// Problem is one thing that does not hold in a log.
type Problem struct {
	// ID names what the statement is about; empty if it cannot be read.
	ID string
	// CellID is the cell that the statement is about, if any.
	CellID string
	// Seq is the place in the log.
	Seq int64
	// What does not hold, as a sentence part.
	What string
}

func (p Problem) String() string {
	if p.ID == "" {
		return fmt.Sprintf("seq %d: %s", p.Seq, p.What)
	}
	return fmt.Sprintf("%s (seq %d): %s", p.ID, p.Seq, p.What)
}

// VerifyChain checks the log of one home from its first statement to its last.
// The iterator yields envelopes in the order of the log; where one cannot be read
// it yields the error instead, which becomes a problem of that place. The keys
// are the home's own; rotations in the log are followed. No problems means that
// all of the log holds, but for statements cut off from its end: compare
// [Chain.Head] with what is known elsewhere to find those.
func VerifyChain(envelopes iter.Seq2[[]byte, error], keys *KeySet) []Problem {
	c := NewChain(keys)
	var problems []Problem
	for raw, err := range envelopes {
		if err != nil {
			problems = append(problems, c.Missing(err))
			continue
		}
		_, found := c.Next(raw)
		problems = append(problems, found...)
	}
	return problems
}

// Chain checks a log statement by statement. It keeps a few hashes per cell and
// per receipt, never a statement.
type Chain struct {
	keys *KeySet
	home string
	seq  int64
	// head is the hash of the last envelope; unknown after one that was missing.
	head    string
	unknown bool
	// gap is the last place whose statement was missing. What stood there cannot be
	// held against the statements after it.
	gap int64

	places   map[string]int64      // cell id -> place of its last envelope
	cells    map[string]string     // cell id -> hash of its last envelope
	origins  map[string]string     // id of a fork -> id of the cell it was made from
	receipts map[string]receiptRef // receipt id -> what decisions must match
	winners  map[string][]string   // receipt id -> ids of cells that accepted it as the winner of a race
	ids      map[string]struct{}   // every receipt, run and decision id
}

// receiptRef is what decisions and races must repeat of a receipt.
type receiptRef struct {
	hash, run, cell string
	outcome         Outcome
	exit            int
	commandUS       int64
}

// NewChain starts before the first statement of a log. The key set is copied.
func NewChain(keys *KeySet) *Chain {
	return &Chain{
		keys:     keys.clone(),
		places:   map[string]int64{},
		cells:    map[string]string{},
		origins:  map[string]string{},
		receipts: map[string]receiptRef{},
		winners:  map[string][]string{},
		ids:      map[string]struct{}{},
	}
}

// Head is the place and hash of the last statement that was given.
func (c *Chain) Head() (seq int64, hash string) { return c.seq, c.head }

// CellHead is the hash of the last statement of a cell; empty if there is none.
func (c *Chain) CellHead(cellID string) string { return c.cells[cellID] }

// Missing records that the next envelope could not be had. The statements after it
// are checked as far as they do not depend on it.
func (c *Chain) Missing(err error) Problem {
	c.seq++
	c.gap = c.seq
	c.head, c.unknown = "", true
	return Problem{Seq: c.seq, What: fmt.Sprintf("cannot be read: %v", err)}
}

// Reject treats the last envelope as one that could not be had.
func (c *Chain) Reject() { c.head, c.unknown, c.gap = "", true, c.seq }

// Next checks the next envelope. The statement may be believed only if there are
// no problems; it is the zero value if the envelope cannot be parsed.
func (c *Chain) Next(raw []byte) (Statement, []Problem) {
	hash := Hash(raw)
	e, err := ParseEnvelope(raw)
	if err != nil {
		c.seq++
		c.head, c.unknown = hash, false
		return Statement{}, []Problem{{Seq: c.seq, What: err.Error()}}
	}
	s := e.Statement
	at := s.Place()
	var problems []Problem
	report := func(format string, args ...any) {
		problems = append(problems, Problem{ID: s.ID(), CellID: at.CellID, Seq: at.Seq, What: fmt.Sprintf(format, args...)})
	}
	sound := true
	if err := e.Verify(c.keys); err != nil {
		report("%v", err)
		sound = false
	}
	c.checkPlace(at, report)
	c.checkMeaning(s, hash, sound, report)

	// A forged number must not hide what follows.
	if sound && at.Seq > c.seq {
		c.seq = at.Seq
	} else {
		c.seq++
	}
	c.head, c.unknown = hash, false
	if at.CellID != "" {
		c.cells[at.CellID], c.places[at.CellID] = hash, c.seq
	}
	return s, problems
}

func (c *Chain) checkPlace(at *Link, report func(string, ...any)) {
	if c.home == "" {
		c.home = at.HomeID
	}
	if at.HomeID != c.home {
		report("%v: of home %s, the log is of %s", ErrChain, at.HomeID, c.home)
	}
	if at.Seq != c.seq+1 {
		report("%v: seq is %d where %d is due", ErrChain, at.Seq, c.seq+1)
	}
	if !c.unknown && at.Prev != c.head {
		report("%v: prev is not the hash of the statement before", ErrChain)
	}
	known := c.gap == 0 || c.places[at.CellID] > c.gap
	if at.CellID != "" && known && at.CellPrev != c.cells[at.CellID] {
		report("%v: cell_prev is not the hash of the cell's statement before", ErrChain)
	}
}

func (c *Chain) checkMeaning(s Statement, hash string, sound bool, report func(string, ...any)) {
	switch p := s.Predicate.(type) {
	case *Run:
		c.claim(report, p.ReceiptID, p.RunID, p.DecisionID)
		// The first holder of an id keeps it: a later copy cannot move a decision.
		if _, taken := c.receipts[p.ReceiptID]; !taken {
			c.receipts[p.ReceiptID] = receiptRef{
				hash: hash, run: p.RunID, cell: p.CellID, outcome: p.Outcome, exit: p.ExitCode, commandUS: p.Timings[TimingCommand],
			}
		}
	case *Decision:
		c.claim(report, p.DecisionID)
		c.checkDecision(p, report)
	case *Change:
		if sound && p.Op == OpFork {
			c.origins[p.CellID] = p.Of.ForkedFrom.CellID
		}
	case *Rotation:
		if !sound {
			return
		}
		if err := c.keys.follow(s); err != nil {
			report("%v", err)
		}
	}
}

func (c *Chain) checkDecision(d *Decision, report func(string, ...any)) {
	r, ok := c.receipts[d.ReceiptID]
	switch {
	case !ok && c.gap > 0: // it may be what is missing
	case !ok:
		report("%v: decides %s, which does not stand before it", ErrChain, d.ReceiptID)
	case r.hash != d.ReceiptSHA256:
		report("%v: decides a %s with another hash", ErrChain, d.ReceiptID)
	case r.run != d.RunID || c.gap == 0 && d.Race == nil && !c.mayDecide(d, r.cell):
		report("%v: decides %s, which is of another run or cell", ErrChain, d.ReceiptID)
	}
	for _, id := range d.Supersedes {
		if _, ok := c.ids[id]; !ok && c.gap == 0 {
			report("%v: supersedes %s, which does not stand before it", ErrChain, id)
		}
	}
	if d.Race != nil {
		c.checkRace(d, report)
	}
}

// mayDecide reports whether the cell of a decision is that of the receipt, or has
// accepted it as the winner of a race, or is a fork of such a cell.
func (c *Chain) mayDecide(d *Decision, cell string) bool {
	for _, from := range append([]string{cell}, c.winners[d.ReceiptID]...) {
		if c.descends(d.CellID, from) {
			return true
		}
	}
	return false
}

// descends reports whether a cell is another one, or a fork of it: a fork may
// decide for itself about the work that it inherited.
func (c *Chain) descends(cell, from string) bool {
	for range len(c.origins) + 1 {
		if cell == from {
			return true
		}
		cell = c.origins[cell]
	}
	return false
}

// claim checks that ids are used once.
func (c *Chain) claim(report func(string, ...any), ids ...string) {
	for _, id := range ids {
		if id == "" {
			continue
		}
		if _, taken := c.ids[id]; taken {
			report("%v: %s stands in the log before", ErrChain, id)
		}
		c.ids[id] = struct{}{}
	}
}
