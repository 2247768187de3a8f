package receipt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Loss states that statements of a log are lost, and that the operator goes on
// without them. Their numbers are not used again.
type Loss struct {
	Link `json:"link"`

	LossID string `json:"loss_id"`
	// Statements are the places in the log whose statements are gone, or cannot be
	// believed, in order.
	Statements []Range `json:"statements,omitempty"`
	// What is lost with them, as far as it is known, by id.
	Cells       []string `json:"cells,omitempty"`
	Checkpoints []string `json:"checkpoints,omitempty"`
	Runs        []string `json:"runs,omitempty"`
	// Layers are stored layers that no statement mentions.
	Layers []string `json:"layers,omitempty"`
	// More counts the ids that these lists had no room for.
	More int64 `json:"more,omitempty"`
}

// Range is a range of places in a log, both ends included.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Ranges puts places together that follow on each other.
func Ranges(places []int64) []Range {
	var out []Range
	for _, seq := range slices.Compact(slices.Sorted(slices.Values(places))) {
		if n := len(out); n > 0 && out[n-1].To+1 == seq {
			out[n-1].To = seq
			continue
		}
		out = append(out, Range{seq, seq})
	}
	return out
}

func (r Range) String() string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Covers reports whether the statement of a place is given up.
func (l *Loss) Covers(seq int64) bool {
	return slices.ContainsFunc(l.Statements, func(r Range) bool { return r.From <= seq && seq <= r.To })
}

// Count counts the places that are given up.
func (l *Loss) Count() int64 {
	n := int64(0)
	for _, r := range l.Statements {
		n += r.To - r.From + 1
	}
	return n
}

// PredicateType is [TypeLoss].
func (*Loss) PredicateType() string { return TypeLoss }

// ID is the id of the loss.
func (l *Loss) ID() string { return l.LossID }

// subjects: the names of what is lost, one to a line.
func (l *Loss) subjects() []Subject {
	var names []string
	for _, r := range l.Statements {
		names = append(names, r.String())
	}
	names = slices.Concat(names, l.Cells, l.Checkpoints, l.Runs, l.Layers)
	return []Subject{{Name: "lost", Digest: Digest{SHA256: Hash([]byte(strings.Join(names, "\n")))}}}
}

func (l *Loss) check() error {
	if err := errors.Join(l.Link.check(false), checkID("loss", l.LossID)); err != nil {
		return err
	}
	last := int64(-1)
	for _, r := range l.Statements {
		if r.From < 1 || r.To < r.From || r.From <= last+1 || r.To >= l.Seq {
			return errors.New("statements: the ranges are not in order, or not before the statement")
		}
		last = r.To
	}
	if len(l.Statements)+len(l.Cells)+len(l.Checkpoints)+len(l.Runs)+len(l.Layers) == 0 || l.More < 0 {
		return errors.New("nothing is lost")
	}
	for _, id := range slices.Concat(l.Cells, l.Checkpoints, l.Runs, l.Layers) {
		if !isToken(id) {
			return fmt.Errorf("bad id %q", id)
		}
	}
	return nil
}
