package engine_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
)

// ruled returns the engine for a caller who is not the operator. A ceiling that the
// operator gave it grants what it loosens.
func (w *world) ruled(ceiling string, granted bool) *engine.Engine {
	w.Helper()
	who := caller.Caller{ID: "token:ci", Actor: func() string { return "ci" }, MayGive: func(string) bool { return false }}
	if ceiling != "" {
		who.Ceiling = policyText(ceiling)
		who.Ceiling.Grants = granted
	}
	return w.e.As(who)
}

// TestSyscallGrants runs a command under a policy that takes a call out of the deny set,
// for each kind of caller. Where it is allowed, unshare fails later, by a limit of the cell.
func TestSyscallGrants(t *testing.T) {
	t.Parallel()
	const loose = "process: { allow_syscalls: [unshare] }\n"
	w := newWorld(t)
	w.init("demo", "")
	w.init("kept", "")
	_, err := w.e.ApplyPolicy(w.ctx, "kept", *policyText(loose), nil)
	w.ok(err)
	grants := func(r *api.RunRequest) { r.Grants = api.GrantRequest{Syscalls: []string{"unshare"}} }
	for _, c := range []struct {
		name    string
		engine  *engine.Engine
		change  []func(*api.RunRequest)
		refused bool
		allowed bool
	}{
		{"the operator without a grant", w.e, nil, true, false},
		{"the operator", w.e, []func(*api.RunRequest){grants}, false, true},
		{"a guest", w.ruled("", false), nil, false, false},
		{"a guest with the cell's policy as its ceiling", w.ruled(loose, false), nil, false, false},
		{"a guest with a ceiling that allows it", w.ruled(loose, true), nil, false, true},
		{"a guest with a ceiling that does not", w.ruled("limits: { open_files: 99 }\n", true), nil, false, false},
	} {
		for cellName, change := range map[string][]func(*api.RunRequest){"demo": {under(loose)}, "kept": nil} {
			req := api.RunRequest{Cell: cellName, Args: []string{"unshare", "-U", "true"}}
			for _, f := range append(change, c.change...) {
				f(&req)
			}
			var out bytes.Buffer
			res, err := c.engine.Run(w.ctx, req, engine.Stdio{Out: &out, Err: &out})
			if c.refused {
				w.refused(err, api.Refused, "not granted: the system call unshare")
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, cellName, err)
				continue
			}
			if recorded := strings.Contains(strings.Join(res.Degraded, " "), "allows unshare"); strings.Contains(out.String(), "not permitted") == c.allowed || recorded != c.allowed {
				t.Errorf("%s, %s: degraded %q: %s", c.name, cellName, res.Degraded, out.String())
			}
		}
	}
}

// TestSyscallGrantsOfALiveCell: a caller who may not loosen a control does not enter a cell
// where it is loosened, and takes no such policy into one.
func TestSyscallGrantsOfALiveCell(t *testing.T) {
	t.Parallel()
	const loose = "process: { allow_syscalls: [unshare] }\n"
	w := newWorld(t)
	w.init("demo", "")
	_, err := w.ruled(loose, true).Start(w.ctx, api.StartRequest{Cell: "demo", RunOptions: api.RunOptions{Policy: policyText(loose)}})
	w.ok(err)
	enter := func(e *engine.Engine) error {
		var out bytes.Buffer
		_, err := e.Exec(w.ctx, api.ExecRequest{Cell: "demo", Args: []string{"unshare", "-U", "true"}}, engine.Stdio{Out: &out, Err: &out})
		if strings.Contains(out.String(), "not permitted") {
			t.Errorf("the call is denied: %s", out.String())
		}
		return err
	}
	w.ok(enter(w.ruled(loose, true)))
	w.ok(enter(w.e))
	other := w.e.As(caller.Caller{ID: "token:other", Actor: func() string { return "other" }, MayGive: func(string) bool { return false }})
	w.refused(enter(other), api.Refused, "may not give: the system call unshare")
	_, err = w.e.Stop(w.ctx, api.StopRequest{Cell: "demo"})
	w.ok(err)
}

// TestAddressGrants plans a run under a policy with addresses that are not public, for each
// kind of caller.
func TestAddressGrants(t *testing.T) {
	t.Parallel()
	const start, end = "network_policies: { a: { endpoints: [{ port: 5432, ", " }], binaries: [{ path: '/**' }] } }\n"
	policies := map[string]string{
		"in allowed_ips": start + "host: db.example, allowed_ips: [10.1.0.0/16]" + end,
		"as a host":      start + "host: 10.1.2.3" + end,
		"as IPv6":        start + "host: db.example, allowed_ips: ['fd00:1::/32']" + end,
	}
	w := newWorld(t)
	w.init("demo", "")
	for name, loose := range policies {
		// Under the policy of another cell the rule would be gone.
		_, err := w.e.ApplyPolicy(w.ctx, "demo", *policyText(loose), nil)
		w.ok(err)
		grants := func(r *api.RunRequest) { r.Grants.Addresses = []string{"10.1.0.0/16", "fd00::/8"} }
		other := func(r *api.RunRequest) { r.Grants.Addresses = []string{"10.2.0.0/16", "fd01::/16"} }
		pinned := func(r *api.RunRequest) {
			r.Network.Resolve = []string{"db.example=127.0.0.1", "10.1.2.3:5432=127.0.0.1"}
		}
		for _, c := range []struct {
			name    string
			engine  *engine.Engine
			change  func(*api.RunRequest)
			refused string
		}{
			{"the operator without a grant", w.e, nil, "; give --grant-address"},
			{"the operator with other grants", w.e, other, "; give --grant-address"},
			{"the operator", w.e, grants, ""},
			{"the operator with a pin", w.e, pinned, ""},
			{"a guest", w.ruled("", false), nil, "ask the operator"},
			{"a guest with the cell's policy as its ceiling", w.ruled(loose, false), nil, "ask the operator"},
			{"a guest with a ceiling that allows it", w.ruled(loose, true), nil, ""},
		} {
			req := api.RunRequest{Cell: "demo", Args: []string{"true"}}
			under(loose)(&req)
			if c.change != nil {
				c.change(&req)
			}
			_, err := c.engine.Plan(w.ctx, req)
			switch e, _ := errors.AsType[*api.Error](err); {
			case c.refused == "" && err != nil:
				t.Errorf("%s, %s: %v", name, c.name, err)
			case c.refused != "" && (e == nil || e.Code != api.CodeGrant || !strings.Contains("; "+e.Hint, c.refused)):
				t.Errorf("%s, %s: %v", name, c.name, err)
			}
		}
		for who, e := range map[string]*engine.Engine{"bounded": w.ruled("", false), "under a standin": w.ruled(loose, false)} {
			_, err := e.ApplyPolicy(w.ctx, "demo", *policyText(loose), nil)
			if api.CodeOf(err) != api.CodeGrant {
				t.Errorf("%s, %s: apply: %v", name, who, err)
			}
			_, err = e.Init(w.ctx, api.InitRequest{Name: "made", From: w.source, Policy: policyText(loose)})
			if api.CodeOf(err) != api.CodeGrant {
				t.Errorf("%s, %s: init: %v", name, who, err)
			}
		}
	}
}
