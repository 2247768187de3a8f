package api

import (
	"errors"
	"time"
)

// Duration is a time span. Its JSON is the text of Go, such as "1h30m0s"; 0 is "".
type Duration time.Duration

// ErrDuration means that a text is not a duration.
var ErrDuration = errors.New(`want a duration such as "90s" or "1h30m"`)

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	if d == 0 {
		return []byte{}, nil
	}
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.Duration(0), error(nil)
	if len(text) > 0 {
		span, err = time.ParseDuration(string(text))
	}
	if err != nil || span < 0 {
		return ErrDuration
	}
	*d = Duration(span)
	return nil
}

// What happens to a cell whose time is up.
const (
	OnTimeoutStop   = "stop"
	OnTimeoutPause  = "pause"
	OnTimeoutRemove = "remove"
)

// Settings are the labels of a cell, and when it is stopped, paused or removed.
type Settings struct {
	Labels map[string]string `json:"labels,omitempty"`
	// TTL counts from the creation of the cell, IdleTimeout from the last request or
	// the end of the last command.
	TTL         Duration `json:"ttl,omitzero"`
	IdleTimeout Duration `json:"idle_timeout,omitzero"`
	OnTimeout   string   `json:"on_timeout,omitempty"` // stop, pause or remove; "" is stop
}

// UpdateRequest changes the name and the settings of a cell. What is nil or "" stays
// as it is.
type UpdateRequest struct {
	Cell string `json:"cell"`
	Name string `json:"name,omitempty"`
	// DropLabels removes all labels, before those of Labels are set. A label with the
	// value nil is removed.
	DropLabels bool               `json:"drop_labels,omitempty"`
	Labels     map[string]*string `json:"labels,omitempty"`
	// A duration of 0 takes the limit away.
	TTL         *Duration `json:"ttl,omitempty"`
	IdleTimeout *Duration `json:"idle_timeout,omitempty"`
	// OnTimeout is stop, pause or remove; "" is the default, stop.
	OnTimeout *string `json:"on_timeout,omitempty"`
}

// CellFilter selects cells.
type CellFilter struct {
	Labels map[string]string `json:"labels,omitempty"` // a cell has all of them
	State  string            `json:"state,omitempty"`  // "" is any
	Prefix string            `json:"prefix,omitempty"` // of the name
}

// The causes of an expiry.
const (
	CauseTTL  = "ttl"
	CauseIdle = "idle_timeout"
)

// Expiry is a cell whose time is up.
type Expiry struct {
	Cell   string    `json:"cell"`
	CellID string    `json:"cell_id"`
	Cause  string    `json:"cause"`  // ttl or idle_timeout
	Action string    `json:"action"` // stop, pause or remove
	DueAt  time.Time `json:"due_at"`
	// Reason is the cause in words. For a cell that waits it is why.
	Reason string `json:"reason"`
}

// ExpireResult lists the cells whose time was up.
type ExpireResult struct {
	DryRun  bool     `json:"dry_run"`
	Expired []Expiry `json:"expired"`
	// Waiting are cells with a run under way. They expire when it has ended.
	Waiting []Expiry `json:"waiting"`
}
