package rest

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/engine/token"
)

// consumer knows what cells use, for quotas.
type consumer interface {
	Lineage(ctx context.Context, root string) (map[string]bool, error)
	LiveCells(ctx context.Context) ([]inventory.LiveCell, error)
	OwnBytes(ctx context.Context) (int64, error)
	LentBytes() (int64, error)
	PausedCell(ctx context.Context, name string) (*engine.SavedCell, error)
	PauseWrites(ctx context.Context, name string) (bool, error)
	SavedCell(ctx context.Context, name, checkpoint string) (*engine.SavedCell, error)
}

// startingCells are the cells that the daemon is about to make live. Until they are, their
// part of a quota is held by the limiter; afterwards they are counted where they are
// recorded. The mutex orders both.
type startingCells struct {
	mu    sync.Mutex
	cells map[string]bool
}

// quotaProblem returns the problem of a quota that is used up, or nil.
func (s *Server) quotaProblem(c *call, err error) error {
	if err == nil {
		return nil
	}
	exceeded, ok := errors.AsType[*token.ExceededError](err)
	if !ok {
		return err
	}
	e := &api.Error{Kind: api.Busy, Code: api.CodeQuota, Message: exceeded.Error()}
	switch {
	case exceeded.Unlimited:
		e.Kind, e.Hint = api.Refused, "send "+exceeded.Quota
		return newProblem(c.id, http.StatusUnprocessableEntity, e)
	case exceeded.Quota == token.QuotaDisk:
		e.Hint = "remove cells, with now=true so that their states are not kept; waiting does not help"
		return newProblem(c.id, http.StatusTooManyRequests, e)
	case exceeded.TooMuch:
		e.Hint = "ask for less; waiting does not help"
		return newProblem(c.id, http.StatusTooManyRequests, e)
	case exceeded.Retry > 0:
		e.Hint = "send fewer requests"
	default:
		e.Hint = "wait until other work has ended"
	}
	return newProblem(c.id, http.StatusTooManyRequests, e).after(exceeded.Retry)
}

// after sets when the request may be sent again.
func (p *problem) after(wait time.Duration) *problem {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	p.header = http.Header{"Retry-After": {strconv.Itoa(seconds)}}
	return p
}

// roomOnDisk refuses work that would make states for a caller whose cells use its
// quota of disk space.
func (s *Server) roomOnDisk(ctx context.Context, c *call) error {
	if !c.caller.boundDisk() {
		return nil
	}
	used, err := usedDisk(ctx, c)
	if err != nil {
		return err
	}
	return s.quotaProblem(c, s.limiter.Disk(c.caller.grant, used-c.frees))
}

// boundDisk reports whether a sender has a quota of disk space.
func (c sender) boundDisk() bool { return !c.local && c.grant.Quota.Disk != 0 }

// usedDisk returns the disk space that counts for the sender of a request.
func usedDisk(ctx context.Context, c *call) (int64, error) {
	used, err := c.engine.OwnBytes(ctx)
	if err != nil {
		return 0, err
	}
	uploaded, err := c.engine.UploadedBytes()
	if err != nil {
		return 0, err
	}
	answers, err := c.engine.AnswerBytes()
	if err != nil {
		return 0, err
	}
	lent, err := c.engine.LentBytes()
	return used + uploaded + answers + lent, err
}

// budget returns what begins work within the sender's quota of disk space; nil if it has
// none.
func (s *Server) budget(c *call) func(context.Context) (caller.Budget, error) {
	if !c.caller.boundDisk() {
		return nil
	}
	return func(ctx context.Context) (caller.Budget, error) {
		used, err := usedDisk(ctx, c)
		if err != nil {
			return nil, err
		}
		return &diskBudget{s.limiter.Budget(c.caller.grant, used-c.frees), s, c, ctx}, nil
	}
}

// diskBudget answers with the problem of a quota that is used up.
type diskBudget struct {
	*token.Budget
	server *Server
	call   *call
	ctx    context.Context //nolint:containedctx // that of the work
}

func (b *diskBudget) Use(bytes int64) error {
	if b.IsStale() {
		if err := b.Renew(func() (int64, error) { return usedDisk(context.WithoutCancel(b.ctx), b.call) }); err != nil {
			return err
		}
	}
	return b.server.quotaProblem(b.call, b.Budget.Use(bytes))
}

// acquire takes the work of runs out of the quotas of the caller and of the daemon.
func (s *Server) acquire(ctx context.Context, c *call, a token.Amount) (release func(), err error) {
	if err := s.roomOnDisk(ctx, c); err != nil {
		return nil, err
	}
	if q := c.caller.grant.Quota; c.caller.local || q.Memory == 0 && q.CPUs == 0 {
		return s.take(c, a, token.Amount{}, token.Amount{})
	}
	s.starting.mu.Lock()
	defer s.starting.mu.Unlock()
	whole, own, _, err := s.live(ctx, c, "")
	if err != nil {
		return nil, err
	}
	return s.take(c, a, whole, own)
}

// acquireStart takes a cell that is about to be live out of the quotas, except that of
// disk space. After the start
// release is called: the cell itself counts as long as it is live.
func (s *Server) acquireStart(ctx context.Context, c *call, name string, a token.Amount) (release func(), err error) {
	s.starting.mu.Lock()
	defer s.starting.mu.Unlock()
	whole, own, known, err := s.live(ctx, c, name)
	if err != nil || known != nil || s.starting.cells[name] {
		return func() {}, err // the engine refuses a cell that is live
	}
	free, err := s.take(c, a, whole, own)
	if err != nil {
		return nil, err
	}
	return s.starting.begin([]string{name}, free), nil
}

// acquireAgain takes a cell that is about to be started again out of the quotas, before it
// is stopped. What it uses while it is live does not count besides.
func (s *Server) acquireAgain(ctx context.Context, c *call, name string, a token.Amount) (release func(), err error) {
	if err := s.roomOnDisk(ctx, c); err != nil {
		return nil, err
	}
	s.starting.mu.Lock()
	defer s.starting.mu.Unlock()
	if s.starting.cells[name] {
		return nil, api.Refusef(api.CodeBusy, "wait until it has started", "%s is being started", name)
	}
	var free func()
	end := s.starting.begin([]string{name}, func() { free() })
	whole, own, _, err := s.live(ctx, c, name)
	if err == nil {
		free, err = s.take(c, a, whole, own)
	}
	if err != nil {
		delete(s.starting.cells, name)
		return nil, err
	}
	return end, nil
}

// begin adds cells that are about to be live. end removes them, and calls free. The
// caller of begin holds mu.
func (s *startingCells) begin(names []string, free func()) (end func()) {
	if s.cells == nil {
		s.cells = map[string]bool{}
	}
	for _, n := range names {
		s.cells[n] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, n := range names {
			delete(s.cells, n)
		}
		free()
	}
}

// live returns what live cells use, all of them and those that the caller started, and
// the one with a name, or nil. Those that are being started are left out. The caller
// holds starting.mu.
func (s *Server) live(ctx context.Context, c *call, name string) (whole, own token.Amount, known *inventory.LiveCell, err error) {
	cells, err := s.actFor(&call{}, nil, nil).LiveCells(ctx)
	for _, l := range cells {
		if l.Cell == name {
			known = &l
		}
		if s.starting.cells[l.Cell] {
			continue
		}
		used := token.Amount{LiveCells: 1, Memory: l.Memory, CPUs: l.CPUs}
		whole = whole.Plus(used)
		if l.Actor == c.caller.name {
			own = own.Plus(used)
		}
	}
	return whole, own, known, err
}

// take takes an amount out of the quotas of the daemon and of the caller. whole and own
// are what they use besides.
func (s *Server) take(c *call, a, whole, own token.Amount) (release func(), err error) {
	daemon := token.Grant{ID: "the daemon", Quota: api.Quota{LiveCells: int64(s.config.MaxLive), Runs: int64(s.config.MaxRuns)}}
	ours, err := s.limiter.Acquire(daemon, token.Amount{LiveCells: a.LiveCells, Runs: a.Runs}, whole)
	if err != nil {
		return nil, s.quotaProblem(c, err)
	}
	if c.caller.local {
		return ours, nil
	}
	theirs, err := s.limiter.Acquire(c.caller.grant, a, own)
	if err != nil {
		ours()
		return nil, s.quotaProblem(c, err)
	}
	return func() { theirs(); ours() }, nil
}
