package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressInterval is the least time between two notifications.
const progressInterval = time.Second

// progress notifies the client that a call goes on, if the client asked for it.
type progress struct {
	session *sdk.ServerSession
	token   any
	last    time.Time
	steps   float64
}

func newProgress(req *sdk.CallToolRequest) *progress {
	return &progress{session: req.Session, token: req.Params.GetProgressToken()}
}

// report notifies the client, unless it did so a moment ago. The protocol wants
// numbers that grow.
func (p *progress) report(ctx context.Context, message string) {
	if p == nil || p.token == nil || time.Since(p.last) < progressInterval {
		return
	}
	p.last = time.Now()
	p.steps++
	// A client that has gone ends the call by its context.
	_ = p.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: p.steps, Message: message})
}
