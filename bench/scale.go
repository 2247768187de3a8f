package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// scale measures what follows neither the size of a file nor the number of
// changes: s is the largest tree.
func (b *bench) scale(ctx context.Context, s shape) ([]row, error) {
	holes, err := b.holes(ctx)
	if err != nil {
		return nil, err
	}
	first, err := b.firstLine(ctx, s)
	if err != nil {
		return nil, err
	}
	removed, err := b.remove(ctx, s)
	return []row{holes, first, removed}, err
}

// holes seals a file of 8 TiB without any data.
func (b *bench) holes(ctx context.Context) (row, error) {
	small, _, _ := shapes()
	var seal []time.Duration
	for i := range b.times(9, 3) {
		name := fmt.Sprintf("holes%d", i)
		if _, err := b.forkcell(ctx, 0, nil, "--json", "fork", small.name, "--name", name); err != nil {
			return row{}, err
		}
		if err := b.settle(ctx); err != nil {
			return row{}, err
		}
		var doc runDocument
		if _, err := b.forkcell(ctx, 0, &doc, "--json", "--quiet", "run", name, "--", "truncate", "-s", "8T", "huge"); err != nil {
			return row{}, err
		}
		seal = append(seal, microseconds(doc.Timings.Seal))
	}
	m := median(seal)
	return limitRow("seal of a sparse file of 8 TiB", show(m), "below 50 ms", m < 50*time.Millisecond), nil
}

// firstLine is the time until a diff of half of the files prints something.
func (b *bench) firstLine(ctx context.Context, s shape) (row, error) {
	const name = "half"
	if _, err := b.forkcell(ctx, 0, nil, "--json", "fork", s.name, "--name", name); err != nil {
		return row{}, err
	}
	script := fmt.Sprintf(`d=0; while [ $d -lt %d ]; do f=0; while [ $f -lt %d ]; do echo x > d$d/f$f; f=$((f+1)); done; d=$((d+1)); done`, s.dirs, s.perDir/2)
	if _, err := b.forkcell(ctx, 0, nil, "--json", "--quiet", "run", name, "--", "sh", "-c", script); err != nil {
		return row{}, err
	}
	var took []time.Duration
	for range b.times(9, 3) {
		cmd := b.command(ctx, b.work, b.program, "diff", name, "--name-status")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return row{}, err
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			return row{}, err
		}
		_, err = out.Read(make([]byte, 1))
		took = append(took, time.Since(begin))
		if err = errors.Join(err, cmd.Process.Kill()); err != nil {
			return row{}, err
		}
		_ = cmd.Wait() // it was killed
	}
	m := median(took)
	return limitRow(fmt.Sprintf("first line of a diff of %s changed files", number(s.files()/2)), show(m), "below 100 ms", m < 100*time.Millisecond), nil
}

// remove removes cells of many files.
func (b *bench) remove(ctx context.Context, s shape) (row, error) {
	var took []time.Duration
	for i := range b.times(5, 2) {
		name := fmt.Sprintf("removed%d", i)
		if _, err := b.forkcell(ctx, 0, nil, "--json", "fork", s.name, "--name", name); err != nil {
			return row{}, err
		}
		one, err := b.forkcell(ctx, 0, nil, "--json", "rm", "--force", name)
		if err != nil {
			return row{}, err
		}
		took = append(took, one)
	}
	m := median(took)
	return limitRow(fmt.Sprintf("`forkcell rm` of a cell with %s files", number(s.files())), show(m), "below 100 ms", m < 100*time.Millisecond), nil
}
