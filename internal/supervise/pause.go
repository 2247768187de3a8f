package supervise

import (
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
)

// State describes a live cell.
type State struct {
	Paused bool `json:"paused"`
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
	s.Paused, s.Commands, s.Idle = h.paused, h.active, h.idle()
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

// pause stops the processes of the cell.
func (h *Host) pause(ctx context.Context) (*api.PauseResult, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		return nil, err
	}
	if h.isPaused() {
		return h.pauseResult(false), nil
	}
	h.starting.Lock()
	defer h.starting.Unlock()
	if err := h.Pause(ctx); err != nil {
		return nil, err
	}
	h.setPaused(true)
	return h.pauseResult(true), nil
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
