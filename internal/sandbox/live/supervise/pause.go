package supervise

import (
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// State describes a live cell.
type State struct {
	Paused bool `json:"paused"`
	// Template means that the cell is a warm template.
	Template bool `json:"template"`
	// Commands counts the commands that run.
	Commands int `json:"commands"`
	// Idle is the time since the cell was used last: since a request, or the end of
	// a command. A command that runs counts as use, except in a paused cell.
	Idle  time.Duration `json:"idle_ns"`
	Usage driver.Usage  `json:"usage"`
}

// use records that the cell is used now.
func (h *Host) use() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = time.Now()
}

func (h *Host) state() State {
	s := State{Usage: h.Cell.Usage()}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Paused, s.Template, s.Commands, s.Idle = h.paused, h.still, h.active, h.idle()
	return s
}

// idle returns for how long the cell was not used. The caller holds mu.
func (h *Host) idle() time.Duration {
	if h.active > 0 && !h.paused {
		return 0
	}
	return time.Since(h.used)
}

func (h *Host) isPaused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused
}

// pauseCall asks for a pause.
type pauseCall struct {
	FSOnly bool `json:"fs_only,omitempty"`
}

// pause stops the processes of the cell. If it ends with that, pause returns when its
// run is recorded.
func (h *Host) pause(ctx context.Context, q pauseCall) (*api.PauseResult, error) {
	res, err := h.beginPause(ctx, q)
	if err != nil || !res.OnDisk {
		return res, err
	}
	<-h.done
	if h.err != nil {
		return nil, h.err
	}
	return res, nil
}

func (h *Host) beginPause(ctx context.Context, q pauseCall) (*api.PauseResult, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		return nil, err
	}
	if h.isPaused() && !q.FSOnly {
		return h.pauseResult(false), nil
	}
	h.starting.Lock()
	defer h.starting.Unlock()
	ends, err := h.Pause(ctx, q.FSOnly)
	if err != nil {
		return nil, err
	}
	if ends {
		return h.beginSuspension(q.FSOnly), nil
	}
	h.setPaused(true)
	return h.pauseResult(true), nil
}

// beginSuspension ends the cell, which is paused on disk. Processes whose memory was
// kept must not go on.
func (h *Host) beginSuspension(fsOnly bool) *api.PauseResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending, h.suspended = true, true
	grace := time.Duration(0)
	if fsOnly {
		grace = usualGrace
	}
	h.suspend <- grace
	return &api.PauseResult{Cell: h.Name, RunID: h.RunID, State: api.StatePaused, Changed: true, OnDisk: true, FSOnly: fsOnly}
}

// resume continues the processes of a paused cell.
func (h *Host) resume() (*api.PauseResult, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		return nil, err
	}
	if !h.isPaused() {
		return h.pauseResult(false), nil
	}
	if err := h.Resume(); err != nil {
		return nil, err
	}
	h.setPaused(false)
	return h.pauseResult(true), nil
}

func (h *Host) setPaused(paused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused, h.used = paused, time.Now()
}

func (h *Host) pauseResult(changed bool) *api.PauseResult {
	res := &api.PauseResult{Cell: h.Name, RunID: h.RunID, State: api.StateLive, Changed: changed}
	if h.isPaused() {
		res.State = api.StatePaused
	}
	return res
}
