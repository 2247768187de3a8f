package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// What a network costs a cell that does not use it, against the same cell under
// a policy without one.

// inTurns does both, and each of them first every second time.
func inTurns(i int, one, other func() error) error {
	if i%2 == 1 {
		one, other = other, one
	}
	return errors.Join(one(), other())
}

// controls is what the cases need of a run's document: what its network was.
type controls struct {
	Controls struct {
		Network string `json:"network"`
	} `json:"controls"`
}

// differ fails when both runs had the same network: then there is nothing to
// compare.
func differ(with, without controls) error {
	if with.Controls.Network == without.Controls.Network {
		return fmt.Errorf("with a network and offline both say %q", with.Controls.Network)
	}
	return nil
}

// setUp takes the difference of every pair of runs: what disturbs the machine for
// longer than a run disturbs both.
func (b *bench) setUp(ctx context.Context) ([]row, error) {
	if _, err := b.upstream(ctx); err != nil {
		return nil, err
	}
	var on, off controls
	run := func(policy string, took *time.Duration, doc *controls) func() error {
		return func() (err error) {
			*took, err = b.forkcell(ctx, 0, doc, "--json", "--quiet", "run", "--policy", b.policy(policy), "client", "--", "true")
			return err
		}
	}
	var own, offline, more []time.Duration
	for i := range b.times(40, 10) {
		var with, without time.Duration
		if err := inTurns(i, run("network", &with, &on), run("offline", &without, &off)); err != nil {
			return nil, err
		}
		own, offline, more = append(own, with), append(offline, without), append(more, with-without)
	}
	const limit = 2 * time.Millisecond
	return []row{{
		"`forkcell run CELL -- true` with a network set up for it", show(median(own)), show(median(offline)) + " offline",
		show(median(more)) + " more", "at most 2 ms more", verdict(median(more) <= limit),
	}}, differ(on, off)
}

// idle compares two cells that do nothing. Both are there at the same time, so
// that they share the program's pages with as many others. They are runs, whose
// supervisor is the run command itself: a live cell always has a network, since
// its policy can be replaced.
func (b *bench) idle(ctx context.Context) ([]row, error) {
	if _, err := b.upstream(ctx); err != nil {
		return nil, err
	}
	if _, err := b.forkcell(ctx, 0, nil, "--json", "init", "quiet", "--from", b.clientDir()); err != nil {
		return nil, err
	}
	var own, offline, more []int64
	what := "memory of an idle cell with a network, supervisor and init"
	for i := range b.times(7, 3) {
		on, off := &idleRun{cell: "client", policy: "network"}, &idleRun{cell: "quiet", policy: "offline"}
		if err := b.pair(ctx, i, on, off); err != nil {
			return nil, err
		}
		with, without := on.memory.proportional, off.memory.proportional
		if on.memory.hidden || off.memory.hidden {
			what = "resident memory of an idle cell with a network, supervisor and init, shared pages counted in full"
			with, without = on.memory.resident, off.memory.resident
		}
		own, offline, more = append(own, with), append(offline, without), append(more, with-without)
	}
	const limit = 8 << 20
	return []row{{
		what, mebibytes(median(own)), mebibytes(median(offline)) + " offline",
		mebibytes(median(more)) + " more", "below 8 MiB more", verdict(median(more) < limit),
	}}, nil
}

// pair starts two runs, looks at both, and ends them.
func (b *bench) pair(ctx context.Context, i int, with, without *idleRun) error {
	begin := func(r *idleRun) func() error { return func() error { return r.begin(ctx, b) } }
	err := inTurns(i, begin(with), begin(without))
	if err == nil {
		err = errors.Join(with.look(), without.look())
	}
	if err = errors.Join(err, with.end(), without.end()); err != nil {
		return err
	}
	return differ(with.controls, without.controls)
}

// idleRun is a run whose command waits for the end of its input.
type idleRun struct {
	cell, policy string

	memory memory
	controls

	cmd    *exec.Cmd
	input  io.Closer
	result string
}

func (r *idleRun) begin(ctx context.Context, b *bench) error {
	r.result = filepath.Join(b.work, "idle-"+r.policy+".json")
	cmd := b.command(ctx, b.work, b.program, "--quiet", "run", "--interactive", "--policy", b.policy(r.policy), "--result", r.result,
		r.cell, "--", "sh", "-c", "echo ready; exec cat")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if r.input, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.cmd = cmd
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("an idle run said %q: %w", line, err)
	}
	return nil
}

// look takes the memory of the supervisor and of the cell's first process.
func (r *idleRun) look() error {
	inits, err := children(r.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if len(inits) != 1 {
		return fmt.Errorf("a supervisor has %d children, want the cell's first process", len(inits))
	}
	for _, pid := range append(inits, r.cmd.Process.Pid) {
		if err := r.memory.add(pid); err != nil {
			return err
		}
	}
	return nil
}

// end also ends a run that did not get far.
func (r *idleRun) end() error {
	if r.cmd == nil {
		return nil
	}
	if err := errors.Join(r.input.Close(), r.cmd.Wait()); err != nil {
		return err
	}
	data, err := os.ReadFile(r.result)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &r.controls)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
