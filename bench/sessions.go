package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// manySessions is how many sessions are started in a row.
const manySessions = 50

// sessions measures sessions of agents with the smallest agent that there is: what they
// cost besides the agent.
func (b *bench) sessions(ctx context.Context, s shape) ([]row, error) {
	started, err := b.sessionStart(ctx, s)
	if err != nil {
		return nil, err
	}
	attached, err := b.attach(ctx, s)
	if err != nil {
		return nil, err
	}
	turn, err := b.turnPause(ctx, s)
	if err != nil {
		return nil, err
	}
	many, err := b.detachedSessions(ctx, s)
	return append(append([]row{started}, attached...), turn, many), err
}

// attach measures joining a running session: from the start of the program to the first
// byte that the agent had printed. The program is killed then; its processor time is a
// row without a target.
func (b *bench) attach(ctx context.Context, s shape) ([]row, error) {
	const name = "attached"
	if _, err := b.forkcell(ctx, 0, nil, b.agent(s, "--detach", "--name", name, "--turns", "off", "--", "sh", "-c", "echo here; exec sleep 600")...); err != nil {
		return nil, err
	}
	var times, used []time.Duration
	for range b.times(21, 5) {
		took, processor, err := b.attachOnce(ctx, name)
		if err != nil {
			return nil, errors.Join(err, b.stopSession(ctx, name))
		}
		times, used = append(times, took), append(used, processor)
	}
	const most = 20 * time.Millisecond
	m := median(times)
	return []row{
		limitRow("attach to a running session, until its output is there", show(m), "below 20 ms", m < most),
		{"the same, processor time of the client", show(median(used)), "", "", "", ""},
	}, b.stopSession(ctx, name)
}

func (b *bench) attachOnce(ctx context.Context, name string) (took, processor time.Duration, err error) {
	cmd := b.command(ctx, b.work, b.program, "session", "attach", "--no-stdin", name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	took = time.Since(begin)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

func (b *bench) agent(s shape, args ...string) []string {
	return append([]string{"--json", "--quiet", "agent", "generic", "--allow-nongit", "--workspace", b.tree(s)}, args...)
}

// sessionStart compares a session of a program that ends at once with the program.
func (b *bench) sessionStart(ctx context.Context, s shape) (row, error) {
	var own, bare []time.Duration
	for range b.times(21, 5) {
		session, err := b.forkcell(ctx, 0, nil, b.agent(s, "--turns", "off", "--", "true", "--version")...)
		if err != nil {
			return row{}, err
		}
		took, err := b.peer(ctx, "true", "--version")
		if err != nil {
			return row{}, err
		}
		own, bare = append(own, session), append(bare, took)
	}
	more := median(own) - median(bare)
	const most = 80 * time.Millisecond
	return row{"a session of an agent that ends at once", show(median(own)), show(median(bare)) + " bare", show(more) + " more", "at most 80 ms more", verdict(more <= most)}, nil
}

// sessionDocument has the fields of a session that the cases need.
type sessionDocument struct {
	SessionID string `json:"session_id"`
	Monitor   int    `json:"monitor_pid"`
}

// turnsDocument has those of its turns.
type turnsDocument struct {
	Turns []turnDocument `json:"turns"`
}

type turnDocument struct {
	ChangedFiles int   `json:"changed_files"`
	Pause        int64 `json:"pause_us"`
	Unfrozen     bool  `json:"unfrozen"`
}

// turnPause is how long a session stands still for a turn with 100 changed files.
func (b *bench) turnPause(ctx context.Context, s shape) (row, error) {
	const what = "pause for a turn with 100 changed files"
	var pauses []time.Duration
	for i := range b.times(5, 3) {
		name := fmt.Sprintf("turn%d", i)
		script := `n=0; while [ $n -lt 100 ]; do echo x > new$n; n=$((n+1)); done; sleep 600`
		if _, err := b.forkcell(ctx, 0, nil, b.agent(s, "--detach", "--name", name, "--turns", "1s", "--", "sh", "-c", script)...); err != nil {
			return row{}, err
		}
		turn, err := b.awaitTurn(ctx, name)
		if err = errors.Join(err, b.stopSession(ctx, name)); err != nil {
			return row{}, err
		}
		if turn.Unfrozen {
			return row{what, "no freezer here", "", "", "below 10 ms", ""}, nil
		}
		pauses = append(pauses, microseconds(turn.Pause))
	}
	m := median(pauses)
	return limitRow(what, show(m), "below 10 ms", m < 10*time.Millisecond), nil
}

// awaitTurn returns the first turn of a session in which all files have changed.
func (b *bench) awaitTurn(ctx context.Context, name string) (turnDocument, error) {
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		var doc turnsDocument
		if _, err := b.forkcell(ctx, 0, &doc, "--json", "session", "turns", name); err != nil {
			return turnDocument{}, err
		}
		for _, t := range doc.Turns {
			if t.ChangedFiles >= 100 {
				return t, nil
			}
		}
	}
	return turnDocument{}, errors.New("no turn was taken")
}

// detachedSessions starts sessions in a row, and adds up the processor time of the
// program and of the supervisors.
func (b *bench) detachedSessions(ctx context.Context, s shape) (row, error) {
	var used time.Duration
	var names []string
	for range manySessions {
		cmd := b.command(ctx, b.work, b.program, b.agent(s, "--detach", "--turns", "off", "--", "sleep", "600")...)
		var out bytes.Buffer
		cmd.Stdout = &out
		if _, err := timeCommand(cmd, 0); err != nil {
			return row{}, err
		}
		var doc sessionDocument
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			return row{}, fmt.Errorf("%s: %w", strings.TrimSpace(out.String()), err)
		}
		supervisor, err := processorTime(doc.Monitor)
		if err != nil {
			return row{}, err
		}
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + supervisor
		names = append(names, doc.SessionID)
	}
	for _, name := range names {
		if err := b.stopSession(ctx, name); err != nil {
			return row{}, err
		}
	}
	return limitRow(fmt.Sprintf("%d detached sessions in a row, processor time", manySessions), show(used), "below 1 s", used < time.Second), nil
}

func (b *bench) stopSession(ctx context.Context, name string) error {
	_, err := b.forkcell(ctx, 0, nil, "--json", "session", "stop", name)
	return err
}
