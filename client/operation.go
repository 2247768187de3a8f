package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Version returns the version of the daemon, and of the API that it speaks.
func (c *Client) Version(ctx context.Context) (*VersionInfo, error) {
	return get[VersionInfo](ctx, c, "/version")
}

// Health reports whether the daemon runs.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return get[Health](ctx, c, "/healthz")
}

// Ready reports whether the daemon takes requests. One that is stopping is an error
// with the code draining.
func (c *Client) Ready(ctx context.Context) (*Health, error) {
	in, err := newCall(http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return nil, err
	}
	in.repeatable = false // the answer is about this moment
	return receive[Health](ctx, c, in)
}

// Key returns the key that signs receipts.
func (c *Client) Key(ctx context.Context) (*KeyInfo, error) {
	return ask(ctx, c, op.GetKey, op.None{}, nil)
}

// GC frees states that nothing needs.
func (c *Client) GC(ctx context.Context, r GC) (*GCResult, error) {
	return post[GCResult](ctx, c, op.CollectGarbage.Path, r, nil)
}

// Usage returns what cells use, for each and in all.
func (c *Client) Usage(ctx context.Context) (*UsageResult, error) {
	return get[UsageResult](ctx, c, op.Usage.Path)
}

// Disk returns the disk space of all cells and of the home.
func (c *Client) Disk(ctx context.Context) (*DiskResult, error) {
	return ask(ctx, c, op.GetHomeDisk, op.None{}, nil)
}

// Check is one control that a host can enforce, or why it cannot.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// Doctor returns what the daemon's host can enforce.
func (c *Client) Doctor(ctx context.Context) ([]Check, error) {
	found, err := get[api.Doctor[Check]](ctx, c, op.Doctor.Path)
	if err != nil {
		return nil, err
	}
	return found.Controls, nil
}

// Tokens makes and revokes tokens.
type Tokens struct{ client *Client }

// Create makes a token. The result is the only document that has its secret.
func (s *Tokens) Create(ctx context.Context, r CreateToken, opts ...CallOption) (*TokenCreated, error) {
	return post[TokenCreated](ctx, s.client, op.CreateToken.Path, r, opts)
}

// List returns the tokens, the oldest first.
func (s *Tokens) List(ctx context.Context) iter.Seq2[TokenInfo, error] {
	return list[TokenInfo](ctx, s.client, op.ListTokens.Path, nil)
}

// Revoke revokes a token, by its name or id. It takes effect at once.
func (s *Tokens) Revoke(ctx context.Context, token string) error {
	in, err := newCall(http.MethodDelete, op.RevokeToken.At(token), nil, nil)
	if err != nil {
		return err
	}
	_, err = receive[struct{}](ctx, s.client, in)
	return err
}
