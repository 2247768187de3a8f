package api

import "time"

// TokenRequest asks for a token: the right to use the API of a daemon.
type TokenRequest struct {
	Name string `json:"name"`
	// Scopes are of read, run, decide and admin. Each includes read, and admin
	// includes all.
	Scopes []string `json:"scopes"`
	// Cells is the prefix of the names of the cells that the token sees; "" is all
	// cells.
	Cells string `json:"cells,omitempty"`
	// Credentials are names of the operator's credentials file that requests may
	// use.
	Credentials []string `json:"credentials,omitempty"`
	// AllowControl are patterns of control files that requests may have written to a
	// directory.
	AllowControl []string `json:"allow_control,omitempty"`
	// Quota bounds the use; nil is no bound.
	Quota *Quota `json:"quota,omitempty"`
	// Policy is the ceiling: a run is allowed only what its own policy and this one
	// allow. nil for none.
	Policy *PolicyFile `json:"policy,omitempty"`
	// Expires is the time from now after which the token is refused; 0 is never.
	Expires time.Duration `json:"expires_ns,omitempty"`
}

// Quota bounds the use of a token. A field that is 0 bounds nothing.
type Quota struct {
	// LiveCells and Runs are numbers at one time.
	LiveCells int64 `json:"live_cells,omitempty"`
	Runs      int64 `json:"runs,omitempty"`
	// Memory and CPUs bound the sum of the limits of what runs at one time.
	Memory int64   `json:"memory,omitempty"` // in bytes
	CPUs   float64 `json:"cpus,omitempty"`   // in processors
	// Disk bounds the space of the token's cells, in bytes.
	Disk              int64   `json:"disk,omitempty"`
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
}

// TokenInfo describes a token. The secret is not in it.
type TokenInfo struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	State  string   `json:"state"` // active, expired or revoked
	Scopes []string `json:"scopes"`
	Cells  string   `json:"cells"`
	// Credentials, AllowControl and Quota are as in the request.
	Credentials  []string `json:"credentials"`
	AllowControl []string `json:"allow_control"`
	Quota        *Quota   `json:"quota"`
	// PolicyHash is the hash of the ceiling; "" for none.
	PolicyHash string     `json:"policy_hash"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	RevokedBy  string     `json:"revoked_by"`
}

// TokenCreated is a new token with its secret, which is shown only here.
type TokenCreated struct {
	TokenInfo
	Token string `json:"token"`
	// Entry is the token as a file for `serve --tokens`, if it was made for one
	// instead of the home.
	Entry string `json:"entry,omitempty"`
}
