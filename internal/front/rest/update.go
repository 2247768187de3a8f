package rest

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// settler changes the settings of cells, and reports what they use.
type settler interface {
	Update(ctx context.Context, r api.UpdateRequest) (*api.CellInfo, error)
	ListMatching(ctx context.Context, f api.CellFilter) ([]api.CellInfo, error)
	Usage(ctx context.Context, prefix string) (*api.UsageResult, error)
}

// addUpdates adds the routes of settings and usage.
func (s *Server) addUpdates() {
	handle(s, op.UpdateCell, s.updateCell)
	handle(s, op.Usage, s.usage)
}

type updateInput struct {
	InCell
	IfMatch
	RawBody []byte
	Body    api.UpdateBody
}

func (s *Server) updateCell(ctx context.Context, c *call, in *updateInput) (*api.CellInfo, error) {
	req := api.UpdateRequest{Cell: in.Cell}
	// A field that is null is different from one that is missing.
	var given map[string]json.RawMessage
	if err := json.Unmarshal(in.RawBody, &given); err != nil {
		return nil, api.Usagef("send an object", "malformed body")
	}
	if in.Body.Name != nil {
		req.Name = *in.Body.Name
		if err := c.mayName(req.Name); err != nil {
			return nil, err
		}
	}
	if _, ok := given["labels"]; ok {
		req.DropLabels, req.Labels = true, map[string]*string{}
		for key, value := range in.Body.Labels {
			req.Labels[key] = &value
		}
	}
	if _, ok := given["on_timeout"]; ok {
		req.OnTimeout = new(string)
		if in.Body.OnTimeout != nil {
			*req.OnTimeout = *in.Body.OnTimeout
		}
	}
	var err error
	if req.TTL, err = limit(given, "ttl", in.Body.TTL); err != nil {
		return nil, err
	}
	if req.IdleTimeout, err = limit(given, "idle_timeout", in.Body.IdleTimeout); err != nil {
		return nil, err
	}
	return c.engine.Update(ctx, req)
}

// limit reads a time limit of a change: nil if the field is missing, 0 if it is null.
func limit(given map[string]json.RawMessage, field string, text *string) (span *api.Duration, err error) {
	if _, ok := given[field]; !ok {
		return nil, nil //nolint:nilnil // nil is the answer: nothing changes
	}
	var d time.Duration
	if text != nil {
		d, err = duration(field, *text)
	}
	return (*api.Duration)(&d), err
}

func (s *Server) usage(ctx context.Context, c *call, _ *struct{}) (*api.UsageResult, error) {
	if c.caller.seesAll() && !c.caller.isOperator() {
		return nil, c.deny(Unbounded)
	}
	return c.engine.Usage(ctx, "")
}

// labels reads filters of the form K=V.
func labels(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, api.Usagef("write ?label=KEY=VALUE", "malformed label")
		}
		out[key] = value
	}
	return out, nil
}
