package policy

import (
	"context"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// maxWork bounds the work of combining two policies, in comparisons of short patterns: a
// second or two of processor time. Two policies of the largest size that a file may have
// can need a thousand times as much.
const maxWork = 1 << 24

// work counts what is done to combine two policies. A step that finds nothing left is not
// done, and the combination is refused whatever it has come to.
type work struct {
	ctx  context.Context //nolint:containedctx // lives as long as one call
	left int
}

// lookAfter is the work between two looks at the context: about a millisecond.
const lookAfter = 1 << 13

// spend takes n comparisons from what is left, and fails if that is not enough, or if the
// context has ended.
func (w *work) spend(n int) error {
	before := w.left
	w.left -= n
	if before/lookAfter != w.left/lookAfter || before == maxWork {
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	if w.left < 0 {
		w.left = -1 // for good
		return cannot("they have too many endpoints, rules or patterns to be compared with each other; write fewer")
	}
	return nil
}

// pairs is spend for each pair of two lists.
func (w *work) pairs(a, b int) error {
	if a > 0 && b > maxWork/a {
		a, b = maxWork, 2
	}
	return w.spend(a * b)
}

// paths is spend for each pair of two lists of paths. A long pattern is many short ones.
func (w *work) paths(a, b []match.Path) error {
	length := func(list []match.Path) (n int) {
		for _, p := range list {
			n += len(p.String())
		}
		return n
	}
	if err := w.pairs(len(a), len(b)); err != nil {
		return err
	}
	return w.pairs(length(a)/16, length(b)/16)
}

// ofRules is spend for a pair of rules.
func (w *work) ofRules(a, b *Rule) error {
	n := 8 + len(a.Path.String())*len(b.Path.String())/256 + len(a.Fields)*len(b.Fields) + len(a.Tools)*len(b.Tools) + len(a.Query)*len(b.Query)
	for _, q := range a.Query {
		for _, o := range b.Query {
			if q.Key == o.Key {
				n += len(q.Any) * len(o.Any)
			}
		}
	}
	return w.spend(n)
}
