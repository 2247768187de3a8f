package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/grant"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// PolicyRef refers to the policy of a cell, or to one that was read from a file.
type PolicyRef struct {
	Cell string
	File *api.PolicyFile // has priority if set
	// Otherwise, if set, is called if there is no such cell.
	Otherwise func() *api.PolicyFile
}

// Policy returns a cell's policy.
func (e *Engine) Policy(_ context.Context, name string) (*api.PolicyResult, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	p, err := e.StoredPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	res, err := policyResult(p)
	if err == nil {
		res.Cell = c.Name
	}
	return res, err
}

// RunPolicy returns the policy that a run began with.
func (e *Engine) RunPolicy(_ context.Context, id string) (*api.PolicyResult, error) {
	var r store.Run
	err := e.View(func(tx *store.Tx) (err error) {
		r, err = tx.Run(id)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Missing("run", id, "`forkcell log CELL` shows them")
	}
	if err != nil {
		return nil, err
	}
	p, err := e.StoredPolicy(r.Policy)
	if err != nil {
		return nil, err
	}
	return policyResult(p)
}

// ReadPolicy checks a caller's policy file. It needs no home.
func ReadPolicy(c caller.Caller, f api.PolicyFile) (*api.PolicyResult, error) {
	p, err := c.ParsePolicy(f)
	if err != nil {
		return nil, err
	}
	return policyResult(p)
}

// CheckPolicy checks the text of a policy.
func (e *Engine) CheckPolicy(_ context.Context, f api.PolicyFile) (*api.PolicyResult, error) {
	return ReadPolicy(e.Caller, f)
}

func policyResult(p *policy.Policy) (*api.PolicyResult, error) {
	doc, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return &api.PolicyResult{PolicyHash: p.Digest(), Policy: doc, Text: p.Canonical()}, nil
}

// ApplyPolicy gives a cell another policy for its next runs, and applies it at once
// if the cell is live, which may need credentials and grants. given may be nil.
func (e *Engine) ApplyPolicy(ctx context.Context, name string, f api.PolicyFile, given *api.LiveGrant) (*api.PolicyApplied, error) {
	if _, err := e.Caller.ParsePolicy(f); err != nil {
		return nil, err
	}
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	p, err := e.keepable(c, &f)
	if err != nil {
		return nil, err
	}
	live := e.liveGrant(p, given)
	if _, ok := e.Supervisor(c); ok {
		f.Resolve = e.keptPins(f)
		return e.applyLive(ctx, c, f, live)
	}
	switch {
	case given == nil:
	case len(given.Credentials) > 0:
		return nil, api.Usagef("give --credential to run or start", "cell %s is not started: only a live cell takes credentials now", c.Name)
	case len(given.Addresses) > 0:
		return nil, api.Usagef("give --grant-address to run or start", "cell %s is not started: only a live cell takes grants now", c.Name)
	}
	s, err := e.hold(ctx, name, "policy apply", 0)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	before, err := e.StoredPolicy(s.Record.Policy)
	if err != nil && api.KindOf(err) != api.Refused {
		return nil, err
	}
	res := &api.PolicyApplied{Cell: s.Record.Name, PolicyHash: p.Digest(), Before: s.Record.Policy}
	if before != nil {
		res.Before = before.Digest()
	}
	hash, added, err := e.keepPolicy(p)
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "keep the policy")
	}
	s.Record.Policy = hash
	s.Record.PolicyBytes += added
	s.Record.Pins = e.keptPins(f)
	err = e.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(s.Record); err != nil {
			return err
		}
		return e.Evidence.Change(tx, s.Record, s.Head, receipt.OpPolicy, map[string]string{"policy_hash": res.PolicyHash})
	})
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "record the policy of %s", name)
	}
	return res, nil
}

// keepable returns the policy that a cell may keep, for every caller, of one that this
// caller brings, and puts it into the file.
func (e *Engine) keepable(c store.Cell, f *api.PolicyFile) (*policy.Policy, error) {
	own, err := e.withOwn(c, f)
	if err != nil {
		return nil, err
	}
	p, err := own.Caller.ParsePolicy(*f)
	if err != nil {
		return nil, err
	}
	if own.Caller.Ceiling != nil || own.isBounded() {
		if p, err = own.Caller.UnderCeiling(p); err != nil {
			return nil, err
		}
		*f = api.PolicyFile{Name: f.Name, Text: p.Canonical()}
	}
	return p, own.mayLoosen(p)
}

// liveGrant returns what a live cell gets with a policy. A caller who is not the operator
// gives no grants but those of its ceiling, which the policy is under.
func (e *Engine) liveGrant(p *policy.Policy, given *api.LiveGrant) (g api.LiveGrant) {
	if given != nil {
		g = *given
	}
	if e.isBounded() {
		g.Addresses, g.ConfigFile = nil, ""
	}
	if e.Caller.CeilingGrants() {
		g.Addresses = AddressesOf(p)
	}
	return g
}

// findPolicy finds a policy, and its cell if it has one.
func (e *Engine) findPolicy(ref PolicyRef) (*policy.Policy, store.Cell, error) {
	if ref.File != nil {
		p, err := e.Caller.ParsePolicy(*ref.File)
		return p, store.Cell{}, err
	}
	c, err := e.FindCell(ref.Cell)
	if err != nil && api.KindOf(err) == api.NotFound && ref.Otherwise != nil {
		p, err := e.Caller.ParsePolicy(*ref.Otherwise())
		return p, store.Cell{}, err
	}
	if err != nil {
		return nil, c, err
	}
	p, err := e.StoredPolicy(c.Policy)
	return p, c, err
}

// DiffPolicies compares two policies key by key.
func (e *Engine) DiffPolicies(_ context.Context, a, b PolicyRef) (*api.PolicyDiff, error) {
	left, _, err := e.findPolicy(a)
	if err != nil {
		return nil, err
	}
	right, _, err := e.findPolicy(b)
	if err != nil {
		return nil, err
	}
	return ComparePolicies(left, right), nil
}

// ComparePolicies compares two policies key by key.
func ComparePolicies(a, b *policy.Policy) *api.PolicyDiff {
	diff := &api.PolicyDiff{HashA: a.Digest(), HashB: b.Digest()}
	for _, d := range policy.Diff(a, b) {
		diff.Differences = append(diff.Differences, api.PolicyDifference(d))
	}
	return diff
}

// ExplainPolicy returns the decision of a policy, with its rule and reason.
func (e *Engine) ExplainPolicy(_ context.Context, ref PolicyRef, q PolicyQuestion) (*policy.Explanation, error) {
	p, c, err := e.findPolicy(ref)
	if err != nil {
		return nil, err
	}
	var x policy.Explanation
	switch {
	case q.Path != "":
		if !filepath.IsAbs(q.Path) {
			return nil, api.Usagef("give it as the command in the cell would, from /", "the path %s is not absolute", quote.Path(q.Path))
		}
		x = p.ExplainPath(q.Path, pathContext(c))
		x = explainShown(p, c, q.Path, x)
	case q.Syscall != "":
		if !(caller.DenySet{}).Known(q.Syscall) {
			return nil, api.Usagef("docs/internals/seccomp.md lists those that are denied", "no system call is called %s", quote.Arg(q.Syscall))
		}
		x = p.ExplainSyscall(q.Syscall, caller.DenySet{})
		if slices.Contains(p.Process.AllowSyscalls, q.Syscall) {
			x.Needs = grantsText([]grant.Grant{{Syscall: q.Syscall}})
		}
	case q.Request != nil:
		request := *q.Request
		if q.Body != nil {
			request.Content = network.Content(q.Body)
		}
		x = p.ExplainSent(policy.SentRequest{Request: request, RawQuery: q.RawQuery, Header: q.Header})
		x.Needs = grantsText(addressesFor(p, request.Host, request.Port))
	default:
		x = ExplainNeeds(p)
	}
	return &x, nil
}

// pathContext returns what decides about paths in a cell besides its policy.
// Without a cell it covers only the host.
func pathContext(c store.Cell) policy.PathContext {
	ctx := policy.PathContext{Workspace: c.MountAt, Extra: c.ReadOnly, Defaults: []string{}, Links: map[string]string{}, TmpOwned: os.Geteuid() != 0}
	for _, p := range policy.DefaultReadOnly() {
		info, err := os.Lstat(p)
		if err != nil {
			continue // the host does not have it, and so no cell does
		}
		if info.Mode()&os.ModeSymlink == 0 {
			ctx.Defaults = append(ctx.Defaults, p)
		} else if to, err := os.Readlink(p); err == nil {
			ctx.Links[p] = to
		}
	}
	return ctx
}

// PolicyQuestion asks about one path, system call or request. The zero value asks what a
// run under the policy needs of the operator.
type PolicyQuestion struct {
	Path    string
	Syscall string
	Request *policy.Request
	// RawQuery, Header and Body are those of the request as it is sent; a nil body
	// is unknown.
	RawQuery string
	Header   map[string][]string
	Body     []byte
}
