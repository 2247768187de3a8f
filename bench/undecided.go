package main

import (
	"context"
	"fmt"
	"time"
)

// undecided measures what a person waits for before a decision about many runs: neither
// the diff nor the acceptance follows the size of the tree.
func (b *bench) undecided(ctx context.Context, small, big shape) ([]row, error) {
	runs := 1000
	if b.quick {
		runs = 100
	}
	for _, s := range []shape{small, big} {
		name := waiting(s)
		if _, err := b.forkcell(ctx, 0, nil, "--json", "init", name, "--from", b.tree(s)); err != nil {
			return nil, err
		}
		for i := range runs {
			if _, err := b.forkcell(ctx, 0, nil, "--quiet", "run", name, "--", "sh", "-c", fmt.Sprintf("echo %d > waits%d", i, i%10)); err != nil {
				return nil, err
			}
		}
	}
	var diff, accept [2][]time.Duration
	for i := range b.times(9, 3) {
		for k, s := range []shape{small, big} {
			one, err := b.forkcell(ctx, 0, nil, "--json", "diff", waiting(s))
			if err != nil {
				return nil, err
			}
			diff[k] = append(diff[k], one)
			if one, err = b.acceptAll(ctx, s, i); err != nil {
				return nil, err
			}
			accept[k] = append(accept[k], one)
		}
	}
	// A session forks the only cell of its directory.
	for _, s := range []shape{small, big} {
		if _, err := b.forkcell(ctx, 0, nil, "--json", "rm", "--force", waiting(s)); err != nil {
			return nil, err
		}
	}
	bySize := func(what string, took [2][]time.Duration) row {
		return ratioRow(fmt.Sprintf("%s %s undecided runs, %s files", what, number(runs), number(big.files())),
			fmt.Sprintf("itself on %s files", number(small.files())), median(took[1]), median(took[0]), 1.5)
	}
	return []row{bySize("`forkcell diff` of", diff), bySize("`forkcell accept` of", accept)}, nil
}

// waiting is the name of the cell of a tree that has the undecided runs.
func waiting(s shape) string { return s.name + "-waiting" }

// acceptAll accepts all that waits, in a fork of the cell.
func (b *bench) acceptAll(ctx context.Context, s shape, n int) (time.Duration, error) {
	name := fmt.Sprintf("%s%d", waiting(s), n)
	if _, err := b.forkcell(ctx, 0, nil, "--json", "fork", waiting(s), "--name", name); err != nil {
		return 0, err
	}
	if err := b.settle(ctx); err != nil {
		return 0, err
	}
	return b.forkcell(ctx, 0, nil, "--json", "accept", name)
}
