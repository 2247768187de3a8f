package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// Resume continues the processes of a paused cell. A live cell that is not paused
// goes on. A cell that is paused on disk gets a new supervisor, and a new run.
func (e *Engine) Resume(ctx context.Context, req api.ResumeRequest) (*api.PauseResult, error) {
	client, err := e.DialLive(ctx, req.Cell)
	if pausedError(err) {
		return e.resumePaused(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	if req.FSOnly {
		return nil, api.Refusef(api.CodeRuntime, "leave it out: its processes are in memory", "--fs-only is for a cell that is paused on disk, and %s is not", req.Cell)
	}
	if len(req.Credentials) > 0 {
		return nil, api.Usagef("leave it out: the cell has its credentials", "--credential is for a cell that is paused on disk, and %s is not", req.Cell)
	}
	return client.Resume(ctx)
}

// pausedMoment is the state that a cell is paused with.
type pausedMoment struct {
	savedRun

	pause  *store.Pause
	image  moments.Image
	policy *policy.Policy
}

// pausedMoment reads what a cell is paused with, after it has checked every byte of it.
func (e *Engine) pausedMoment(ctx context.Context, c store.Cell) (m pausedMoment, err error) {
	if c.Paused == nil {
		return m, notStarted(c, "")
	}
	m.pause, m.image = c.Paused, e.Images().Image(moments.PausedImage(c.Paused.RunID))
	if err = m.image.Verify(ctx, m.pause.Image); err == nil {
		err = e.signedPause(c)
	}
	if err == nil {
		m.policy, err = m.readFor(e, m.image)
	}
	if err != nil {
		return m, pausedMemoryError(c, err)
	}
	return m, nil
}

// signedPause checks that the signed log has the same pause of a cell as the database.
func (e *Engine) signedPause(c store.Cell) error {
	unsigned, err := e.unsignedStates()
	if err != nil {
		return err
	}
	if found := unsigned[c.ID]; len(found) > 0 {
		return errors.Join(moments.ErrDamaged, errors.New(found[0]))
	}
	return nil
}

// pausedMemoryError returns the error of a paused cell that cannot be resumed as it was.
func pausedMemoryError(c store.Cell, err error) error {
	return &api.Error{
		Kind: api.Refused, Code: api.CodeDamaged, Err: err,
		Message: "cell " + c.Name + " stays paused, because what it was paused with cannot be used: " + quote.Line(err.Error()),
		Hint:    afterDamage(c),
	}
}

// afterDamage says what can be done with a paused cell whose memory cannot be used.
func afterDamage(c store.Cell) string {
	if c.Paused.FSOnly {
		return "`forkcell stop " + c.Name + "` ends it; its files are not affected"
	}
	return "`forkcell resume " + c.Name + " --fs-only` starts it without its processes, `forkcell stop " + c.Name + "` ends it; its files are not affected"
}

// resumePaused starts a supervisor for a cell that is paused on disk.
func (e *Engine) resumePaused(ctx context.Context, req api.ResumeRequest) (*api.PauseResult, error) {
	if err := e.openLate(); err != nil {
		return nil, err
	}
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	if c.Paused == nil {
		return nil, notStarted(c, "")
	}
	m, err := e.resumable(ctx, c, req.FSOnly)
	if err != nil {
		return nil, err
	}
	// The caller's environment and credentials are read here, as for a start.
	grant := api.NetworkRequest{Credentials: req.Credentials, CredentialsFile: req.CredentialsFile}
	values, err := e.readValues(ctx, m.policy, networkRequest{NetworkRequest: grant})
	if err != nil {
		return nil, err
	}
	raw := values.HandOver()
	defer wipe(raw)
	order := e.startOrder(m.policy)
	order.Resume, order.Secrets = &api.ResumeRequest{Cell: c.Name, FSOnly: req.FSOnly}, raw
	answer, err := e.launch(ctx, order, c.Name)
	if err != nil {
		return nil, err
	}
	res, err := supervise.DecodeAnswer(answer)
	if err == nil {
		err = e.awaitResumed(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return &api.PauseResult{Cell: res.Cell, RunID: res.RunID, State: api.StateLive, Changed: true, FSOnly: req.FSOnly || c.Paused.FSOnly}, nil
}

// awaitResumed waits until the supervisor has recorded that the pause has ended. Until
// then others see the cell as paused. A supervisor serves requests once it has. What one
// that died has left is finished, and the error names the next step.
func (e *Engine) awaitResumed(ctx context.Context, c store.Cell) error {
	_, lost := e.Client(c).State(ctx)
	if lost == nil || ctx.Err() != nil {
		return lost
	}
	s, err := e.hold(ctx, c.Name, "finish", time.Second)
	if err != nil {
		return errors.Join(lost, err)
	}
	defer s.Release()
	hint := "`forkcell start " + c.Name + "` starts it"
	if s.Record.Paused != nil {
		hint = "`forkcell resume " + c.Name + "` tries again"
	}
	return &api.Error{
		Kind: api.Failed, Code: api.CodeLost, Hint: hint, Err: lost,
		Message: fmt.Sprintf("the supervisor of cell %s died while it resumed the cell", c.Name),
	}
}

// resumable reads what a paused cell is resumed with. If only its files matter and how it
// was started cannot be read any more, it is refused: its policy would not be known.
func (e *Engine) resumable(ctx context.Context, c store.Cell, fsOnly bool) (pausedMoment, error) {
	m, err := e.pausedMoment(ctx, c)
	if err == nil || !fsOnly || !errors.Is(err, moments.ErrDamaged) {
		return m, err
	}
	// The memory is damaged. The run that was paused has its policy in the log.
	return e.withoutMemory(c)
}

// withoutMemory returns how a cell is started whose memory cannot be used: under the
// policy of the run that was paused, which the signed log has.
func (e *Engine) withoutMemory(c store.Cell) (m pausedMoment, err error) {
	if c.Paused.FSOnly {
		return m, pausedMemoryError(c, moments.ErrDamaged)
	}
	m.pause = c.Paused
	var r store.Run
	err = e.Store.View(func(tx *store.Tx) error {
		r, err = tx.Run(c.Paused.RunID)
		return err
	})
	if err != nil {
		return m, err
	}
	if m.policy, err = e.LastPolicy(r); err != nil {
		return m, err
	}
	m.Cell, m.RunID, m.At, m.Ceiling = c.Name, r.ID, c.Paused.At, m.policy.Canonical()
	m.Options = api.RunOptions{
		Policy: &api.PolicyFile{Name: api.Text("the policy of " + c.Name), Text: m.Ceiling}, Runtime: c.Paused.Runtime,
		Timeout: time.Duration(r.TimeoutUS) * time.Microsecond,
	}
	return m, nil
}

// SuperviseResume makes a paused cell live again, and serves it until it ends. It calls
// ready when the cell can be used. Until ready has succeeded the cell is paused, and
// stays so if anything fails.
func (e *Engine) SuperviseResume(ctx context.Context, order supervise.StartOrder, ready func(*api.StartResult) error) error {
	begin := time.Now()
	defer wipe(order.Secrets)
	s, err := e.holdPaused(ctx, order.Resume.Cell)
	if err != nil {
		return err
	}
	defer s.Release()
	m, err := e.resumable(ctx, s.Record, order.Resume.FSOnly)
	if err != nil {
		return err
	}
	fsOnly := m.pause.FSOnly || order.Resume.FSOnly
	req, err := s.resumeRequest(m, fsOnly, order.Secrets)
	if err == nil && !fsOnly {
		err = s.sameFiles(ctx, m)
	}
	if err != nil {
		return err
	}
	bounded, err := e.engineFor(s.Record.Name, m.policy, supervise.BranchOrder{Actor: order.Actor, Caller: order.Caller, Bounded: order.Bounded, Ceiling: order.Ceiling})
	if err != nil {
		return err
	}
	s.actAs(bounded)
	r, err := s.checkpoint(ctx, req)
	if err != nil {
		return err
	}
	r.total, r.timings.PrepareUS = begin, since(begin)
	l := &liveRun{r: r, req: req, make: r.driver.Start, branches: new(sync.WaitGroup)}
	if !fsOnly {
		l.make = func(ctx context.Context, spec driver.Spec) (driver.Cell, error) { return l.restore(ctx, m.image, spec) }
	}
	l.adopt = func(b *liveRun) { l.branches.Go(func() { b.serveBranch(ctx) }) }
	if err = l.start(ctx); err == nil {
		failpoint.Hit("resume.started")
		err = ready(l.describe())
	}
	if err == nil {
		err = l.recordResume(m.pause)
	}
	if err != nil {
		return errors.Join(resumeError(s.Record, err), l.undo(), r.RelockHome(), r.discard())
	}
	err = l.serve(ctx)
	l.branches.Wait()
	return err
}

// resumeRequest returns the request for the run of a cell that is resumed.
func (s *heldCell) resumeRequest(m pausedMoment, fsOnly bool, secrets map[string][]byte) (runRequest, error) {
	values, err := network.TakeValues(secrets)
	if err != nil {
		return runRequest{}, api.Usagef("", "%v", err)
	}
	p := *m.pause
	p.FSOnly = fsOnly
	req := runRequest{
		RunRequest: api.RunRequest{Cell: s.Record.Name, Args: []string{"resume"}, RunOptions: m.Options},
		values:     values, reloadable: true, resumed: &p,
	}
	if fsOnly {
		return req, nil
	}
	data, err := m.image.Read(moments.Network)
	if errors.Is(err, fs.ErrNotExist) {
		return req, nil // the cell had no network
	}
	if err == nil {
		req.source, err = network.Load(data)
	}
	if err != nil {
		return req, pausedMemoryError(s.Record, err)
	}
	return req, nil
}

// sameFiles refuses memory whose files are not those that the cell has now.
func (s *heldCell) sameFiles(ctx context.Context, m pausedMoment) error {
	if err := s.CatchUp(ctx); err != nil {
		return err
	}
	var r store.Run
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		r, err = tx.Run(m.pause.RunID)
		return err
	})
	if err == nil && r.After != s.Head.ID {
		err = pausedMemoryError(s.Record, errors.New("the files of the cell have changed since"))
	}
	return err
}

// resumeError returns the error of a cell that could not be resumed.
func resumeError(c store.Cell, err error) error {
	if _, ok := errors.AsType[*driver.StartError](err); ok {
		return pausedMemoryError(c, err)
	}
	return err
}

// recordResume records that the cell is live.
func (l *liveRun) recordResume(p *store.Pause) error {
	e := l.r.e
	failpoint.Hit("resume.ready")
	err := e.Store.Update(func(tx *store.Tx) error { return l.r.endPause(tx, receipt.OpResume) })
	if err != nil {
		l.r.Record.Paused = p
		return err
	}
	failpoint.Hit("resume.recorded")
	e.dropPause(p)
	text := "its processes go on"
	if l.r.rec.Resumed.FSOnly {
		text = "it was started without the processes that it had"
	}
	l.r.recordEvent(event.Config(event.Subject{Message: text}, cellResumed))
	return nil
}
