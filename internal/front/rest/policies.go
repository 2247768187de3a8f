package rest

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/preset"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// addPolicies adds the routes of policies and of the daemon's operation.
func (s *Server) addPolicies() {
	handle(s, op.ListPresets, s.listPresets)
	handle(s, op.ValidatePolicy, s.validatePolicy)
	handle(s, op.ExplainPolicy, s.explainPolicy)
	routeBy(s, op.SuggestPolicy, s.suggestPolicy)
	show(s, op.GetPolicy)
	handle(s, op.SetPolicy, s.setPolicy)
	handle(s, op.Doctor,
		func(ctx context.Context, c *call, _ *struct{}) (*api.Doctor[driver.Check], error) {
			return &api.Doctor[driver.Check]{Controls: c.engine.Doctor(ctx)}, nil
		})
	show(s, op.GetKey)
	handle(s, op.CollectGarbage, s.collectGarbage)
}

func (s *Server) listPresets(_ context.Context, _ *call, in *Page) (*api.List[api.Preset], error) {
	var list []api.Preset
	for _, name := range preset.Names() {
		list = append(list, api.Preset{Name: name, Summary: preset.Summary(name)})
	}
	return cut(*in, list, func(p api.Preset) string { return p.Name })
}

type validateInput struct {
	Body api.ValidateBody
}

func (s *Server) validatePolicy(ctx context.Context, c *call, in *validateInput) (*api.PolicyResult, error) {
	file, err := s.policyFile(ctx, in.Body.Policy)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return nil, api.Usagef("send the text of a policy", "the policy is empty")
	}
	return c.engine.CheckPolicy(ctx, *file)
}

type explainInput struct {
	Body api.ExplainBody
}

func (s *Server) explainPolicy(ctx context.Context, c *call, in *explainInput) (*api.Explanation, error) {
	b := in.Body
	ref := engine.PolicyRef{Cell: b.Cell}
	if (b.Cell == "") == (b.Policy == "") {
		return nil, api.Usagef("send one of them", "either cell or policy is needed")
	}
	err := c.visible(b.Cell)
	if err == nil {
		ref.File, err = s.policyFile(ctx, b.Policy)
	}
	if err != nil {
		return nil, err
	}
	q, err := question(b)
	if err != nil {
		return nil, err
	}
	x, err := c.engine.ExplainPolicy(ctx, ref, q)
	return (*api.Explanation)(x), err
}

// question returns what a body asks about: a path, a system call or a request.
func question(b api.ExplainBody) (engine.PolicyQuestion, error) {
	q := engine.PolicyQuestion{Path: b.Path, Syscall: b.Syscall}
	chosen := 0
	for _, given := range []string{b.Path, b.Syscall, b.Host} {
		if given != "" {
			chosen++
		}
	}
	if chosen != 1 {
		return q, api.Usagef("send one of path, host and syscall", "name one thing to explain")
	}
	if b.Host == "" {
		return q, nil
	}
	host, port, err := policy.SplitHost(b.Host)
	if err != nil {
		return q, api.Usagef("write it as HOST:PORT", "host: %v", err)
	}
	q.Request = &policy.Request{Host: host, Port: port, Scheme: b.Scheme, Binary: b.Binary, Method: b.Method}
	q.Request.Path, q.RawQuery, _ = strings.Cut(b.URLPath, "?")
	return q, nil
}

func (s *Server) suggestPolicy(ctx context.Context, c *call, in *api.SuggestRequest) (*api.PolicySuggestion, error) {
	if err := c.visible(in.Cell); err != nil {
		return nil, err
	}
	return c.engine.SuggestPolicy(ctx, in.Cell, in.Run)
}

type setPolicyInput struct {
	InCell
	IfMatch
	Body api.ValidateBody
}

func (s *Server) setPolicy(ctx context.Context, c *call, in *setPolicyInput) (*api.PolicyApplied, error) {
	file, err := s.policyFile(ctx, in.Body.Policy)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return nil, api.Usagef("send the text of a policy", "the policy is empty")
	}
	return c.engine.ApplyPolicy(ctx, in.Cell, *file, nil)
}

type gcInput struct {
	Body *api.GCBody
}

func (s *Server) collectGarbage(ctx context.Context, c *call, in *gcInput) (*api.GCResult, error) {
	var b api.GCBody
	if in.Body != nil {
		b = *in.Body
	}
	age, err := duration("older_than", b.OlderThan)
	if err != nil {
		return nil, err
	}
	if b.OlderThan == "" {
		age = engine.DefaultOlderThan
	}
	outputAge, err := duration("output_older_than", b.OutputOlderThan)
	if err != nil {
		return nil, err
	}
	if b.OutputOlderThan != "" && outputAge == 0 {
		outputAge = -1 // all of it
	}
	return c.engine.GC(ctx, api.GCRequest{DryRun: b.DryRun, KeepLast: b.KeepLast, OlderThan: age, OutputOlderThan: outputAge, Removed: b.Removed})
}
