package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/incell/ready"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// ExecReady executes a command, and returns when a condition holds: output that a
// regular expression matches, port:N, file:PATH or notify. The command keeps running. If
// it ends before without an error, it may have left others behind: they have until the
// end of ctx.
func (h *Host) ExecReady(ctx context.Context, args []string, when string) error {
	await, env, err := h.awaitReady(ctx, when)
	if err != nil {
		return err
	}
	cmd, _, err := h.command(wire.Command{Args: args, Env: env})
	if err != nil {
		return err
	}
	stdio, finish := h.Output()
	x, err := h.launch(ctx, cmd, h.Recordable(args), stdio, finish)
	if err != nil {
		return execError(h.Name, args, err)
	}
	held := make(chan error, 1)
	go func() { held <- await(ctx) }()
	select {
	case err := <-held:
		return err
	case <-x.done:
		if x.exit.Code != 0 {
			return h.Ended(x.exit)
		}
	}
	return <-held
}

// Ended returns an error that says how a command has ended that should run.
func (h *Host) Ended(x wire.Exit) error {
	switch usage := h.Cell.Usage(); {
	case x.Signal != 0 && usage.OOMKills > 0:
		return errors.New("its command was killed: the cell ran out of memory")
	case x.Signal != 0:
		return fmt.Errorf("its command was ended by the signal %d (%v)", x.Signal, syscall.Signal(x.Signal))
	}
	return fmt.Errorf("its command has ended with code %d", x.Code)
}

// awaitReady returns a function that waits for a condition, and the variables that the
// command needs for it. What happens from now on counts.
func (h *Host) awaitReady(ctx context.Context, when string) (await func(context.Context) error, env []string, err error) {
	kind, _, _ := strings.Cut(when, ":")
	if kind != "port" && kind != "file" && when != ready.Notify {
		expression, err := regexp.Compile(when)
		if err != nil {
			return nil, nil, api.Usagef("", "--ready: %v", err)
		}
		return func(ctx context.Context) error { return h.output.await(ctx, expression) }, nil, nil
	}
	if when == ready.Notify {
		env = []string{ready.Variable}
	}
	await, err = h.awaitInside(ctx, when)
	return await, env, err
}

// awaitInside executes the cell's end of a wait, and returns when it has begun to wait.
func (h *Host) awaitInside(ctx context.Context, when string) (await func(context.Context) error, err error) {
	args := []string{carrier, ready.Verb, when}
	cmd, _, err := h.command(wire.Command{Args: args})
	if err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	complaints := &boundedBuffer{}
	x, err := h.launch(ctx, cmd, h.Recordable(args), driver.Stdio{Out: to, Err: complaints}, func() { _ = to.Close() })
	if err != nil {
		return nil, execError(h.Name, args, err)
	}
	await = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.done:
		}
		if x.exit.Code != ready.Done {
			return fmt.Errorf("wait for %s in the cell: %s", when, quote.Line(strings.Join(complaints.lines(), "; ")))
		}
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = from.CloseWithError(ctx.Err()) })
	defer stop()
	if _, err := from.Read(make([]byte, 1)); err != nil {
		return nil, errors.Join(await(ctx), err)
	}
	go func() { _, _ = io.Copy(io.Discard, from) }()
	return await, nil
}

// await returns when an expression matches the output that is kept.
func (t *transcript) await(ctx context.Context, expression *regexp.Regexp) error {
	for {
		_, changed := t.part(0)
		if expression.MatchString(t.text()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
