package supervise

import (
	"context"
	"encoding/json"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// ExpireOrder asks a supervisor to stop or pause its cell because its time is up.
type ExpireOrder struct {
	Action string `json:"action"` // stop or pause
	// Idle is how long the cell must have been unused. 0 does not matter.
	Idle time.Duration `json:"idle_ns"`
	// Record is passed on to Config.Expire. Without it, nothing is recorded.
	Record json.RawMessage `json:"record,omitempty"`
}

// Expired says what became of an order.
type Expired struct {
	// Done is false if the cell was used meanwhile, or got other settings.
	Done bool          `json:"done"`
	Idle time.Duration `json:"idle_ns"`
	// Run is the result of a run that was stopped.
	Run *api.RunResult `json:"run,omitempty"`
}

// Expire stops or pauses the cell, unless it was used in the time of the order.
func (c *Client) Expire(ctx context.Context, o ExpireOrder) (Expired, error) {
	var res Expired
	err := c.call(ctx, callExpire, o, &res)
	return res, err
}

func (h *Host) expire(ctx context.Context, o ExpireOrder) (*Expired, error) {
	res, ends, err := h.beginExpire(ctx, o)
	if ends {
		<-h.done
		return res, h.err
	}
	if err != nil || !res.Done || o.Action != api.OnTimeoutStop {
		return res, err
	}
	res.Run, err = h.requestStop(stopCall{GraceUS: -1})
	return res, err
}

// beginExpire decides about an order and records it. After an order to stop, no
// command can begin.
func (h *Host) beginExpire(ctx context.Context, o ExpireOrder) (res *Expired, ends bool, err error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	h.starting.Lock() // no command begins while it is decided
	defer h.starting.Unlock()
	h.mu.Lock()
	res, err = &Expired{Idle: h.idle()}, h.refuseEnding()
	h.mu.Unlock()
	if err != nil || res.Idle < o.Idle {
		return res, false, err
	}
	res.Done = true
	if o.Record != nil {
		if res.Done, ends, err = h.Expire(ctx, o); err != nil || !res.Done {
			return res, false, err
		}
	}
	if ends {
		h.beginSuspension(false)
		return res, true, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.Action == api.OnTimeoutStop {
		h.ending = true
	} else {
		h.paused, h.used = true, time.Now()
	}
	return res, false, nil
}
