package supervise

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// Config describes a live cell to its supervisor. All functions may be called by
// many goroutines at once, unless their comment restricts it.
type Config struct {
	Cell     driver.Cell
	Listener *wire.Listener
	Version  string // of this program

	Name  string // of the cell
	RunID string
	// MountAt is where the workspace is in the cell, Workdir where commands start.
	MountAt, Workdir string
	// User is the number of the cell's only user, UserName its name.
	User     int
	UserName string
	// Env is the environment of commands.
	Env []string
	// Timeout ends the cell; 0 is no limit.
	Timeout time.Duration
	// AwaitMain ends the cell if no command that it ends with has begun within this
	// time; 0 waits for none.
	AwaitMain time.Duration
	// Look is the time between checks that the socket can be reached; 0 is five seconds.
	Look time.Duration

	// NewID returns a new id of a command.
	NewID func() string
	// Recordable returns arguments as events may have them.
	Recordable func(args []string) []string
	// Record appends an event to the run's journal.
	Record func(event.Event)
	// Store keeps output of a command, without secrets.
	Store func(stderr bool, p []byte)
	// Secrets returns what is removed from stored output, besides the secrets in
	// environments.
	Secrets func() []redact.Secret
	// StartError returns the error of a command that could not be started.
	StartError func(error) error
	// Checkpoint captures the cell, and Save its memory too, unless it is paused. ApplyPolicy gives it another policy, takes the
	// values over, and returns the environment of commands from then on; nil keeps
	// it. Pause stops the processes and Resume continues them; both record it. If Pause
	// reports that the cell ends, all is kept that it needs to be live again. Expire
	// records that the cell is stopped or paused because its time is up, and pauses
	// it; it reports false if its time is not up any more. Only one of these calls is
	// made at a time, and none when the cell ends.
	Checkpoint  func(ctx context.Context, name string) (*api.CheckpointResult, error)
	Save        func(ctx context.Context, name string) (*api.CheckpointResult, error)
	ApplyPolicy func(ctx context.Context, f api.PolicyFile, grants api.GrantRequest, values map[string][]byte) (res *api.PolicyApplied, env []string, err error)
	Pause       func(ctx context.Context, fsOnly bool) (ends bool, err error)
	Resume      func() error
	Expire      func(ctx context.Context, o ExpireOrder) (done, ends bool, err error)
	// Branch makes branches of the cell, unless it is paused, and Unbranch ends and removes those of an
	// order, if there are any. Only one of these calls is made at a time, together with
	// those above.
	Branch   func(ctx context.Context, o BranchOrder) (*api.BranchResult, error)
	Unbranch func(id string) error
	// Turns says when turns are taken, and Asks is read for the wishes of programs in
	// the cell; both may be nil. Turn takes one, and returns nil if it was skipped.
	// It is called like Checkpoint.
	Turns *api.TurnRequest
	Asks  io.Reader
	Turn  func(ctx context.Context, by string, asked int64) (*api.TurnInfo, error)
	// Eval runs code in the cell's warm interpreter.
	Eval func(ctx context.Context, code string) (*api.EvalResult, error)
}

// Host is the supervisor's side of a live cell: it serves the socket. Serve returns
// when the cell is to end, End ends it, Close removes the socket, and Finish
// answers the clients that wait for the end.
type Host struct {
	Config
	output *transcript

	stop    chan time.Duration // the grace of the first stop
	suspend chan time.Duration // the grace when the cell ends because it is paused
	main    chan wire.Exit     // how the command ended that the cell ends with
	begun   chan struct{}      // has a value once that command has begun
	cancel  context.CancelFunc // ends serving
	served  chan error

	// done is closed when the result is known.
	done   chan struct{}
	result *api.RunResult
	err    error

	// exclusive is held while the cell is captured, paused, resumed, gets a policy or
	// ends.
	exclusive sync.Mutex
	// starting is held shared while a command starts, and alone while the cell is
	// being paused: a command that starts in a frozen cell would block its caller.
	starting sync.RWMutex

	clock atomic.Pointer[turnClock] // nil unless turns are taken

	mu        sync.Mutex
	ending    bool
	endedBy   string // the request that ended it; see api.EndedBy
	died      bool   // its processes were killed, and its end was not asked for
	still     bool   // a warm template: none of its processes can end by itself
	paused    bool
	suspended bool               // the cell ends because it is paused on disk
	active    int                // commands that start or run
	used      time.Time          // when the cell was used last
	commands  map[int]*execution // by their pid inside
	env       []string           // of commands that are executed from now on
	running   sync.WaitGroup
}

// NewHost returns the host of a live cell.
func NewHost(c Config) *Host {
	return &Host{
		Config: c, output: newTranscript(), env: c.Env, commands: map[int]*execution{}, used: time.Now(),
		stop: make(chan time.Duration, 1), suspend: make(chan time.Duration, 1), main: make(chan wire.Exit, 1), begun: make(chan struct{}, 1), served: make(chan error, 1), done: make(chan struct{}), cancel: func() {},
	}
}

// Bind gives the host its cell and the environment of commands there. Nothing is
// served before.
func (h *Host) Bind(cell driver.Cell, l *wire.Listener, env []string) {
	h.Cell, h.Listener, h.Config.Env, h.env = cell, l, env, env
}

// Processes implements live.Host.
func (h *Host) Processes(context.Context) ([]wire.ProcessInfo, error) {
	list, err := h.Cell.Processes()
	if err != nil {
		return nil, h.failure(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]wire.ProcessInfo, len(list))
	for i, p := range list {
		out[i] = wire.ProcessInfo{
			PID: p.PID, PPID: p.PPID, UID: p.UID, State: p.State, Started: p.Started, CPU: p.CPU, RSS: p.RSS, Args: p.Args,
		}
		// Each command is the leader of a new session: its session id is its pid.
		if x := h.commands[p.SID]; x != nil {
			out[i].Session = x.id
		}
	}
	return out, nil
}

// Call implements live.Host.
func (h *Host) Call(ctx context.Context, method string, request json.RawMessage) (json.RawMessage, error) {
	if method != callState && method != callExpire {
		h.use()
	}
	var result any
	var err error
	switch method {
	case callStop:
		result, err = answerTo(request, h.requestStop)
	case callCheckpoint:
		result, err = answerTo(request, func(q checkpointCall) (*api.CheckpointResult, error) { return h.checkpoint(ctx, q) })
	case callOutput:
		result, err = answerTo(request, func(q outputCall) (*outputPart, error) { return h.readOutput(ctx, q) })
	case callPolicy:
		result, err = answerTo(request, func(q policyCall) (*api.PolicyApplied, error) { return h.applyPolicy(ctx, q) })
	case callPause:
		result, err = answerTo(request, func(q pauseCall) (*api.PauseResult, error) { return h.pause(ctx, q) })
	case callResume:
		result, err = h.resume()
	case callState:
		result = h.state()
	case callExpire:
		result, err = answerTo(request, func(o ExpireOrder) (*Expired, error) { return h.expire(ctx, o) })
	case callTurn:
		result, err = h.requestTurn(ctx)
	case callRead:
		result, err = answerTo(request, h.read)
	case callBranch:
		result, err = answerTo(request, func(o BranchOrder) (*api.BranchResult, error) { return h.branch(ctx, o) })
	case callUnbranch:
		result, err = answerTo(request, h.unbranch)
	case callEval:
		result, err = answerTo(request, func(q evalCall) (*api.EvalResult, error) { return h.Eval(ctx, string(q.Code)) })
	default:
		err = api.Refusef(api.CodeUnknownCall, "use the version of forkcell that started the cell", "the supervisor does not know the call %s", quote.Arg(method))
	}
	switch {
	case err != nil && (method == callBranch || method == callEval) && !h.isGone():
		return nil, toWire(err) // a branch may have ended, and not this cell
	case err != nil:
		return nil, h.failure(err)
	}
	return json.Marshal(result)
}

func answerTo[Q, A any](request json.RawMessage, do func(Q) (A, error)) (any, error) {
	var q Q
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, api.Usagef("", "a request that cannot be understood: %v", err)
	}
	return do(q)
}

// requestStop begins the end, or joins one that has begun, and waits for it.
func (h *Host) requestStop(q stopCall) (*api.RunResult, error) {
	grace := time.Duration(q.GraceUS) * time.Microsecond
	if grace < 0 {
		grace = usualGrace
	}
	h.mu.Lock()
	if h.endedBy == "" && !h.ending {
		h.endedBy = cmp.Or(q.For, api.EndedByStop)
	}
	h.mu.Unlock()
	select {
	case h.stop <- grace:
	default:
	}
	<-h.done
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.suspended && h.err == nil {
		return nil, api.Refusef(api.CodePaused, "`forkcell stop "+h.Name+"` ends it", "cell %s was paused at the same time", h.Name)
	}
	return h.result, h.err
}

// readOutput returns what the cell's commands have printed.
func (h *Host) readOutput(ctx context.Context, q outputCall) (*outputPart, error) {
	if q.Run != "" && q.Run != h.RunID {
		return nil, api.Missing("live run", q.Run, "`forkcell log "+h.Name+"` shows the runs")
	}
	return h.output.read(ctx, q.From, q.Wait)
}

func (h *Host) checkpoint(ctx context.Context, q checkpointCall) (*api.CheckpointResult, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		return nil, err
	}
	if q.Memory {
		return h.Save(ctx, q.Name)
	}
	return h.Checkpoint(ctx, q.Name)
}

func (h *Host) applyPolicy(ctx context.Context, q policyCall) (*api.PolicyApplied, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		for _, value := range q.Values {
			clear(value)
		}
		return nil, err
	}
	res, env, err := h.ApplyPolicy(ctx, api.PolicyFile{Name: api.Text(q.Name), Text: q.Text, Path: q.Path}, q.Grants, q.Values)
	if err != nil {
		return nil, err
	}
	if env != nil {
		h.mu.Lock()
		h.env = env
		h.mu.Unlock()
	}
	return res, nil
}

func (h *Host) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refuseEnding()
}

// isGone reports whether the cell's processes have ended.
func (h *Host) isGone() bool {
	select {
	case <-h.Cell.Gone():
		return true
	default:
		return false
	}
}

// failure returns the error of a call, as it crosses a socket. A cell that has ended
// meanwhile explains whatever else went wrong.
func (h *Host) failure(err error) *api.Error {
	if errors.Is(err, driver.ErrEnded) {
		h.mu.Lock()
		defer h.mu.Unlock()
		// An end that was asked for is recorded first: nothing else has killed it.
		h.died = h.died || !h.ending
		return toWire(h.refuseEnding())
	}
	return toWire(err)
}

// refuseEnding returns an error when the cell is ending. The caller holds mu.
func (h *Host) refuseEnding() error {
	if h.died {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeStopping, Message: fmt.Sprintf("cell %s has ended: its first process was killed", h.Name),
			Hint: "`forkcell log " + h.Name + "` shows its run",
		}
	}
	if h.ending {
		return &api.Error{Kind: api.Refused, Code: api.CodeStopping, Message: fmt.Sprintf("cell %s is being stopped", h.Name)}
	}
	return nil
}
