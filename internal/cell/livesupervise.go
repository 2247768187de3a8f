package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/live"
)

// usualGrace is the time that the processes of a cell that is stopped have to
// end by themselves.
const usualGrace = 5 * time.Second

// Supervise is the transaction of a live cell: checkpoint, live, seal, prove.
// ready is called when the cell can be used; if it fails, nothing is left. Then
// Supervise returns when the cell was stopped and has its receipt. The end of
// ctx stops it too, with the outcome interrupted.
func (e *Engine) Supervise(ctx context.Context, order StartOrder, ready func(*api.StartResult) error) error {
	begin := time.Now()
	req := startRun(order.Request, order.Values)
	s, err := e.hold(ctx, req.Cell, heldByStart, req.Wait)
	if err != nil {
		return err
	}
	defer s.release()
	r, err := s.checkpoint(ctx, req)
	if err != nil {
		return err
	}
	r.total = begin
	r.timings.PrepareUS = since(begin)
	l, err := r.makeLive(ctx, req)
	if err == nil {
		err = ready(l.describe())
	}
	if err != nil {
		return errors.Join(err, l.abandon(), r.forget())
	}

	l.live(ctx)

	ctx = context.WithoutCancel(ctx)
	if err = r.seal(ctx); err == nil {
		e.log.ForgetKey()
		var p proof
		if p, err = r.prove(); err == nil {
			err = r.decide(ctx, p)
		}
	}
	// Whoever has the answer may go on with the cell at once.
	s.release()
	l.answer(r.result(), err)
	return errors.Join(err, <-l.served)
}

// liveCell is a live cell as its supervisor has it. It is what the socket
// serves.
type liveCell struct {
	r        *run
	req      runRequest // by which it was started
	cell     driver.Cell
	listener *live.Listener
	log      *transcript
	began    time.Time

	stop   chan time.Duration // the grace that the first stop gave
	cancel context.CancelFunc // ends serving
	served chan error

	// done is closed when the result is known.
	done   chan struct{}
	result *api.RunResult
	err    error

	// whole is held while the cell is captured, and taken by the end.
	whole sync.Mutex

	mu       sync.Mutex
	ending   bool
	commands map[int]*execution // by their pid inside
	env      []string           // of commands that are executed from now on
	running  sync.WaitGroup
}

// makeLive starts the cell and its socket. On an error what it returns is still
// to be abandoned.
func (r *run) makeLive(ctx context.Context, req runRequest) (*liveCell, error) {
	l := &liveCell{
		r: r, req: req, stop: make(chan time.Duration, 1), served: make(chan error, 1), done: make(chan struct{}),
		commands: map[int]*execution{}, log: newTranscript(),
	}
	r.spec.Freezable = true
	r.showCarrier()
	begin := time.Now()
	// A cell lives until it is closed: ctx is for its start.
	started, err := r.e.driver.Start(ctx, r.spec)
	if err != nil && r.withoutGateway(err) {
		if err = r.work.Remount(); err == nil {
			started, err = r.e.driver.Start(ctx, r.spec)
		}
	}
	l.env = r.spec.Env
	if err != nil {
		return l, r.startFailure(err)
	}
	l.cell, l.began = started, time.Now()
	r.timings.StartUS = since(begin)
	r.outcome.Controls = started.Controls()
	r.degraded = append(r.degraded, r.outcome.Controls.Degraded...)
	if l.listener, err = live.Listen(r.e.socket(r.cell)); err != nil {
		return l, api.Failf(api.CodeSocket, err, "make the socket of cell %s", r.cell.Name)
	}
	failpoint.Hit("live.started")
	return l, nil
}

func (l *liveCell) describe() *api.StartResult {
	r := l.r
	return &api.StartResult{
		Cell: r.cell.Name, CellID: r.cell.ID, RunID: r.rec.ID, PID: os.Getpid(), Socket: r.e.socket(r.cell),
		StartedAt: r.rec.StartedAt, Degraded: append([]string{}, r.degraded...), Controls: api.Controls(r.outcome.Controls),
	}
}

// abandon undoes makeLive.
func (l *liveCell) abandon() error {
	var err error
	if l.listener != nil {
		err = l.listener.Close()
	}
	if l.cell != nil {
		err = errors.Join(err, l.cell.Close())
	}
	return err
}

// ending is why a live cell ended.
type ending struct {
	outcome string
	code    int
	signal  int
	text    string
	grace   time.Duration
}

// live serves until the cell shall end, or has ended, and returns with no process
// of it left.
func (l *liveCell) live(ctx context.Context) {
	l.r.unlockHome()
	watched, full := l.r.watchDisk(ctx)
	why := l.serve(watched)
	if watched.Err() != nil && ctx.Err() == nil {
		why.grace = 0 // the disk is full: what has time to end has time to write
	}
	l.end(why, full)
	l.hangUp()
	failpoint.Hit("live.ended")
}

func (l *liveCell) serve(ctx context.Context) ending {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go func() {
		l.served <- live.Serve(serving, l.listener, l, live.Options{UID: os.Geteuid(), Version: l.r.e.version})
	}()
	var limit <-chan time.Time
	if l.r.spec.Timeout > 0 {
		t := time.NewTimer(l.r.spec.Timeout)
		defer t.Stop()
		limit = t.C
	}
	select {
	case grace := <-l.stop:
		return ending{outcome: succeeded, grace: grace}
	case <-limit:
		return ending{outcome: timedOut, code: 124, grace: usualGrace}
	case <-l.cell.Gone():
		const sig = int(syscall.SIGKILL)
		return ending{outcome: killed, code: 128 + sig, signal: sig, text: "the cell's first process was killed"}
	case <-ctx.Done():
		return ending{
			outcome: interrupted, code: 128 + int(syscall.SIGTERM), grace: usualGrace, text: "the supervisor was told to end",
		}
	case err := <-l.served:
		l.served <- nil
		return ending{outcome: errored, code: 125, grace: usualGrace, text: fmt.Sprintf("the cell's socket failed: %v", err)}
	}
}

// end asks what runs in the cell to end, kills what stays, and notes the outcome.
func (l *liveCell) end(why ending, full func() bool) {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.whole.Lock()
	defer l.whole.Unlock()
	r := l.r
	if why.grace > 0 {
		l.hangUpTerminals()
		if _, err := l.cell.Terminate(why.grace); err != nil {
			r.notes = append(r.notes, "its processes could not be asked to end: "+err.Error())
		}
	}
	r.outcome.Usage = l.cell.Usage()
	if err := l.cell.Close(); err != nil {
		r.degraded = append(r.degraded, err.Error())
	}
	l.awaitCommands()
	l.log.close()
	r.rec.FinishedAt = r.e.now().UTC()
	r.timings.CommandUS = since(l.began)
	r.rec.Outcome, r.rec.ExitCode, r.rec.Signal = why.outcome, why.code, why.signal
	if why.text != "" {
		r.fail(why.text)
	}
	if full() {
		r.diskFull()
	}
	r.explainLimits()
	r.closeJournal()
}

// patience is how long clients have to take what their commands have printed.
const patience = 5 * time.Second

// awaitCommands returns when nothing is written of any command any more. A client
// that does not read would hold up its own; then everybody is hung up on.
func (l *liveCell) awaitCommands() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		l.hangUp()
		<-ended
	}
}

// hangUpTerminals tells interactive shells, which do not hear SIGTERM.
func (l *liveCell) hangUpTerminals() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.commands {
		if x.tty {
			_ = x.Signal(int(syscall.SIGHUP))
		}
	}
}

// hangUp removes the socket and begins to end the connections; those that wait
// for an answer still get it. It comes before the run is concluded, so that a
// socket is never without a run that somebody must finish.
func (l *liveCell) hangUp() {
	l.cancel()
	_ = l.listener.Close() // what it could not remove, the next start replaces
}

// answer gives those who asked for the end what came of it.
func (l *liveCell) answer(res *api.RunResult, err error) {
	l.result, l.err = res, err
	close(l.done)
}
