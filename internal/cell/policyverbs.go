package cell

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// PolicyResult is a policy: a cell's, or that of a file.
type PolicyResult struct {
	Cell       string          `json:"cell"`
	PolicyHash string          `json:"policy_hash"`
	Policy     json.RawMessage `json:"policy"`

	Parsed *policy.Policy `json:"-"`
}

// PolicyApplied says that a cell got another policy.
type PolicyApplied struct {
	Cell       string `json:"cell"`
	PolicyHash string `json:"policy_hash"`
	Before     string `json:"policy_hash_before"`

	// Live says that the policy rules a live cell already: its run, from this
	// event on, and under which hash if flags of the start narrowed it.
	Live      bool   `json:"live"`
	RunID     string `json:"run_id,omitempty"`
	FromEvent int64  `json:"from_event,omitempty"`
	RulesAs   string `json:"effective_policy_hash,omitempty"`
}

// PolicyRef names a policy: that of a cell, or one that was read from a file.
type PolicyRef struct {
	Cell string
	File *PolicyFile // it decides where it is given
	// Otherwise, if given, is asked where there is no such cell.
	Otherwise func() *PolicyFile
}

// PolicyDiff is what differs between two policies.
type PolicyDiff struct {
	HashA       string              `json:"policy_hash_a"`
	HashB       string              `json:"policy_hash_b"`
	Differences []policy.Difference `json:"differences"`
}

// PolicyQuestion is what a policy is asked about: one of the three.
type PolicyQuestion struct {
	Path    string
	Syscall string
	Request *policy.Request
	// RawQuery, Header and Body are the request's, as it is sent; a nil body is
	// one that is not known.
	RawQuery string
	Header   map[string][]string
	Body     []byte
}

// Policy returns a cell's policy.
func (e *Engine) Policy(_ context.Context, name string) (*PolicyResult, error) {
	c, err := e.findCell(name)
	if err != nil {
		return nil, err
	}
	p, err := e.storedPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	res, err := policyResult(p)
	if err == nil {
		res.Cell = c.Name
	}
	return res, err
}

// ReadPolicy checks a policy file. It needs no home.
func ReadPolicy(f PolicyFile) (*PolicyResult, error) {
	p, err := ParsePolicy(f)
	if err != nil {
		return nil, err
	}
	return policyResult(p)
}

func policyResult(p *policy.Policy) (*PolicyResult, error) {
	doc, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return &PolicyResult{PolicyHash: policyHash(p), Policy: doc, Parsed: p}, nil
}

// ApplyPolicy gives a cell another policy: a live one at once, which may need
// credentials, and every cell from its next run on. Of the grant only the
// credentials are used; nil is none.
func (e *Engine) ApplyPolicy(ctx context.Context, name string, f PolicyFile, grant *NetworkRequest) (*PolicyApplied, error) {
	p, err := ParsePolicy(f)
	if err != nil {
		return nil, err
	}
	c, err := e.findCell(name)
	if err != nil {
		return nil, err
	}
	if _, ok := e.supervisor(c); ok {
		return e.applyLive(ctx, c, f, *cmp.Or(grant, &NetworkRequest{}))
	}
	if grant != nil && len(grant.Credentials) > 0 {
		return nil, usage("give --credential to run or start", "cell %s is not started: only a live cell takes credentials now", c.Name)
	}
	s, err := e.hold(ctx, name, "policy apply", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	before, err := e.storedPolicy(s.cell.Policy)
	if err != nil && KindOf(err) != Refused {
		return nil, err
	}
	res := &PolicyApplied{Cell: s.cell.Name, PolicyHash: policyHash(p), Before: s.cell.Policy}
	if before != nil {
		res.Before = policyHash(before)
	}
	if s.cell.Policy, err = e.keepPolicy(p); err != nil {
		return nil, failed("policy", err, "keep the policy")
	}
	err = e.store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(s.cell); err != nil {
			return err
		}
		return e.logChange(tx, s.cell, s.head, opPolicy, map[string]string{"policy_hash": res.PolicyHash})
	})
	if err != nil {
		return nil, failed("policy", err, "record the policy of %s", name)
	}
	return res, nil
}

// referred finds a policy, and the cell that it is asked for, if it is one's.
func (e *Engine) referred(ref PolicyRef) (*policy.Policy, store.Cell, error) {
	if ref.File != nil {
		p, err := ParsePolicy(*ref.File)
		return p, store.Cell{}, err
	}
	c, err := e.findCell(ref.Cell)
	if err != nil && KindOf(err) == NotFound && ref.Otherwise != nil {
		p, err := ParsePolicy(*ref.Otherwise())
		return p, store.Cell{}, err
	}
	if err != nil {
		return nil, c, err
	}
	p, err := e.storedPolicy(c.Policy)
	return p, c, err
}

// DiffPolicies compares two policies key by key.
func (e *Engine) DiffPolicies(_ context.Context, a, b PolicyRef) (*PolicyDiff, error) {
	left, _, err := e.referred(a)
	if err != nil {
		return nil, err
	}
	right, _, err := e.referred(b)
	if err != nil {
		return nil, err
	}
	return &PolicyDiff{HashA: policyHash(left), HashB: policyHash(right), Differences: policy.Diff(left, right)}, nil
}

// ExplainPolicy says what a policy decides, by which rule and why.
func (e *Engine) ExplainPolicy(_ context.Context, ref PolicyRef, q PolicyQuestion) (*policy.Explanation, error) {
	p, c, err := e.referred(ref)
	if err != nil {
		return nil, err
	}
	var x policy.Explanation
	switch {
	case q.Path != "":
		if !filepath.IsAbs(q.Path) {
			return nil, usage("give it as the command in the cell would, from /", "the path %s is not absolute", quote.Path(q.Path))
		}
		x = p.ExplainPath(q.Path, pathContext(c))
		x = explainShown(p, c, q.Path, x)
	case q.Syscall != "":
		if !(denySet{}).Known(q.Syscall) {
			return nil, usage("docs/internals/seccomp.md lists those that are denied", "no system call is called %s", quote.Arg(q.Syscall))
		}
		x = p.ExplainSyscall(q.Syscall, denySet{})
	case q.Request != nil:
		request := *q.Request
		if q.Body != nil {
			request.Content = gateway.Content(q.Body)
		}
		x = p.ExplainSent(policy.Sent{Request: request, RawQuery: q.RawQuery, Header: q.Header})
	default:
		return nil, usage("a path, a host or a system call", "nothing to explain")
	}
	return &x, nil
}

// pathContext is what decides about paths in a cell besides its policy. A policy
// that is no cell's is asked about the host alone.
func pathContext(c store.Cell) policy.PathContext {
	ctx := policy.PathContext{Workspace: c.MountAt, Extra: c.ReadOnly, Defaults: []string{}, Links: map[string]string{}, TmpOwned: os.Geteuid() != 0}
	for _, p := range policy.DefaultReadOnly() {
		info, err := os.Lstat(p)
		if err != nil {
			continue // the host has none, and so has no cell
		}
		if info.Mode()&os.ModeSymlink == 0 {
			ctx.Defaults = append(ctx.Defaults, p)
		} else if to, err := os.Readlink(p); err == nil {
			ctx.Links[p] = to
		}
	}
	return ctx
}
