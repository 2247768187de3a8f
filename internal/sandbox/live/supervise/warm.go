package supervise

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// BranchOrder is the order to a supervisor to make branches of its cell.
type BranchOrder struct {
	// ID is chosen by the client, to take the order back.
	ID      string            `json:"id"`
	Request api.BranchRequest `json:"request"`
	Actor   string            `json:"actor"`
	// Caller is the id of the caller; "" is the operator.
	Caller string `json:"caller,omitempty"`
	// Bounded: the caller may give nothing that else only the operator gives.
	Bounded bool `json:"bounded,omitempty"`
	// RequestID is the request of the API that asked for it, or "".
	RequestID string `json:"request_id,omitempty"`
	// Expect is the revision that the cell must have; nil is any.
	Expect *int64 `json:"expect,omitempty"`
	// Race is the race that the branches are the attempts of, or nil.
	Race *RaceOrder `json:"race,omitempty"`
	// Ceiling is the caller's policy that the policies of branches must be under.
	Ceiling *api.PolicyFile `json:"ceiling,omitempty"`
	// Secrets are credentials that the caller has read.
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// RaceOrder says that branches are the attempts of a race.
type RaceOrder struct {
	ID string `json:"id"`
	// Keep keeps their cells if the process of the race dies.
	Keep bool `json:"keep,omitempty"`
	// Variable has the number of its attempt in each of them.
	Variable string `json:"variable"`
}

type unbranchCall struct {
	ID string `json:"id"`
}

type evalCall struct {
	Code []byte `json:"code"`
}

// Branch makes branches of the cell. If ctx ends first, none is left.
func (c *Client) Branch(ctx context.Context, o BranchOrder) (*api.BranchResult, error) {
	var res api.BranchResult
	err := c.call(ctx, callBranch, o, &res)
	if ctx.Err() != nil {
		// The supervisor may have finished just now.
		var none struct{}
		if undone := c.call(context.WithoutCancel(ctx), callUnbranch, unbranchCall{o.ID}, &none); undone != nil {
			return nil, undone
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &res, nil
}

// Eval runs code in the cell's warm interpreter.
func (c *Client) Eval(ctx context.Context, code string) (*api.EvalResult, error) {
	var res api.EvalResult
	if err := c.call(ctx, callEval, evalCall{[]byte(code)}, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

func (h *Host) branch(ctx context.Context, o BranchOrder) (*api.BranchResult, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		return nil, err
	}
	return h.Branch(ctx, o)
}

// takeBack takes back an order of a client that was killed before the answer. Branches
// that cannot be removed stay listed.
func (h *Host) takeBack(method string, request json.RawMessage) {
	if method == callBranch {
		_, _ = answerTo(request, h.unbranch) // both have the id of the order
	}
}

func (h *Host) unbranch(q unbranchCall) (struct{}, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	return struct{}{}, h.Unbranch(q.ID)
}

// Exclusively does something while the cell is neither captured, paused nor branched,
// and does not end.
func (h *Host) Exclusively(do func() error) error {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.Usable(); err != nil {
		return err
	}
	return do()
}

// Usable refuses a cell that ends or is paused.
func (h *Host) Usable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refuseEnding(); err != nil {
		return err
	}
	return h.refusePaused()
}

// refusePaused returns an error when the cell is paused. The caller holds mu.
func (h *Host) refusePaused() error {
	if h.paused {
		return api.Refusef(api.CodePaused, "`forkcell resume "+h.Name+"` continues it", "cell %s is paused", h.Name)
	}
	return nil
}

// ExecWarm executes the command that becomes the warm process of a template, and
// returns when it has begun. It reads input. Its output is kept.
func (h *Host) ExecWarm(ctx context.Context, args []string, input string) (wire.Process, error) {
	cmd, _, err := h.command(wire.Command{Args: args})
	if err != nil {
		return nil, err
	}
	cmd.Warm, cmd.Env = true, append(cmd.Env, driver.WarmVariable)
	stdio, finish := h.Output()
	stdio.In = strings.NewReader(input)
	x, err := h.launch(ctx, cmd, h.Recordable(args), stdio, finish)
	if err != nil {
		return nil, execError(h.Name, args, err)
	}
	return x, nil
}

// SetStill marks the cell of the host as a warm template.
func (h *Host) SetStill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.still = true
}

// Output returns where a process of the cell that no client has executed writes to.
// finish is called at its end.
func (h *Host) Output() (stdio driver.Stdio, finish func()) {
	stdio.Out, stdio.Err, finish = h.tap(wire.Streams{Out: io.Discard, Err: io.Discard}, nil)
	return stdio, finish
}

// Follow records the process that a branch began with, and waits for its end in the
// background. finish is that of Output.
func (h *Host) Follow(c driver.Child, args []string, finish func()) {
	process := event.Process{Parent: 1, Binary: args[0], Args: args}
	h.Record(event.Launch(event.Subject{Process: event.Process{PID: 1}, Message: "a copy of a warm process began"}, process))
	h.running.Go(func() {
		<-c.CopyEnded()
		finish()
		h.Record(event.Exit(event.Subject{Message: "the copy of the warm process has ended"}, process, c.CopyOutcome().Code))
	})
}

// LastOutput returns the last lines that commands have printed.
func (h *Host) LastOutput(most int) []string { return h.output.last(most) }

// AllOutput returns what is kept of the output of commands.
func (h *Host) AllOutput() string { return h.output.text() }

// text returns what is kept.
func (t *transcript) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, c := range t.chunks {
		b.Write(c.Data)
	}
	return b.String()
}

// last returns the last lines of the transcript.
func (t *transcript) last(most int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := &boundedBuffer{}
	from := len(t.chunks)
	for size := 0; from > 0 && size < maxErrorOutput; from-- {
		size += len(t.chunks[from-1].Data)
	}
	for _, c := range slices.Clone(t.chunks[from:]) {
		_, _ = text.Write(c.Data) // it never fails
	}
	lines := text.lines()
	return lines[max(0, len(lines)-most):]
}
