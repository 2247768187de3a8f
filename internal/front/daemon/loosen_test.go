package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
)

// boundOfCell is the policy of the cells of the walk. Every policy below would allow more.
const boundOfCell = `version: 1
filesystem_policy: { read_only: [/usr, /etc/ld.so.cache] }
limits: { open_files: 256, output: 1MiB, wall_time: 10m }
`

const toAnywhere = "network_policies: { a: { endpoints: [{ port: 443, %s }], binaries: [{ path: '/**' }] } }\n"

// loosePolicies are policies that loosen a key, by what they do. Those that need a grant of
// the operator are refused to the operator, too, if it does not give that.
func loosePolicies(granted string) (list map[string]string, needGrant []string) {
	return map[string]string{
		"leaves everything out": "version: 1\n",
		"has looser limits":     "version: 1\nlimits: { open_files: 900, output: 1GiB, wall_time: 1h }\n",
		"reaches more":          "version: 1\n" + fmt.Sprintf(toAnywhere, "host: example.com"),
		"wants best effort":     "version: 1\nlandlock: { compatibility: best_effort }\nfilesystem_policy: { read_only: [/usr, /etc, /nonexistent] }\n",
		"allows calls":          "version: 1\nprocess: { allow_syscalls: [io_uring_setup, unshare] }\n",
		"has private addresses": "version: 1\n" + fmt.Sprintf(toAnywhere, "host: example.com, allowed_ips: [10.1.0.0/16]"),
		"has a private host":    "version: 1\n" + fmt.Sprintf(toAnywhere, "host: 10.1.2.3"),
		"shows the host":        "version: 1\nfilesystem_policy: { read_only: [/usr, /etc, " + granted + "] }\n",
		"inherits a variable":   "version: 1\nenvironment: { inherit: [SECRET] }\n",
	}, []string{"allows calls", "has private addresses", "has a private host", "shows the host", "inherits a variable"}
}

// verb is an operation that takes a policy. It returns the receipts of what ran under it,
// and the problem if the operation was refused.
type verb func(w *looseWalk, policy string) (receipts []string, refused *api.Problem)

// verbs are the operations that take a policy and run or keep something.
var verbs = map[string]verb{
	"POST /v1/cells/{cell}/runs": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		var res api.RunAnswer
		p := w.try(&res, "POST", "/v1/cells/a-bound/runs", api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{Policy: policy}})
		return []string{res.ReceiptID}, p
	},
	"POST /v1/cells/{cell}/start": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		return w.startAndStop("a-bound", api.StartBody{RunSettings: api.RunSettings{Policy: policy}})
	},
	"POST /v1/race": func(w *looseWalk, policy string) (receipts []string, p *api.Problem) {
		var won api.RaceResult
		p = w.try(&won, "POST", "/v1/race", api.RaceBody{Cell: "a-bound", Command: []string{"true"}, Judge: []string{"true"}, N: 1, RunSettings: api.RunSettings{Policy: policy}})
		for _, a := range won.Attempts {
			receipts = append(receipts, a.ReceiptID, a.JudgeReceiptID)
		}
		return receipts, p
	},
	"POST /v1/sessions": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		return w.session(policy, "")
	},
	"POST /v1/sessions/{session}/rewind": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		return w.session("", policy)
	},
	"POST /v1/cells": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		made := api.CreateCell{Name: w.name("made"), Source: &api.Source{Empty: true}, Policy: policy}
		if p := w.try(nil, "POST", "/v1/cells", made); p != nil {
			return nil, p
		}
		var res api.RunAnswer
		p := w.try(&res, "POST", "/v1/cells/"+made.Name+"/runs", api.RunBody{Command: []string{"true"}})
		return []string{res.ReceiptID}, p
	},
	"PUT /v1/cells/{cell}/policy": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		name := w.name("kept")
		w.operator.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Empty: true}, Policy: boundOfCell})
		if p := w.try(nil, "PUT", "/v1/cells/"+name+"/policy", api.ValidateBody{Policy: policy}); p != nil {
			return nil, p
		}
		var res api.RunAnswer
		p := w.try(&res, "POST", "/v1/cells/"+name+"/runs", api.RunBody{Command: []string{"true"}})
		return []string{res.ReceiptID}, p
	},
	"POST /v1/cells/{cell}/branch": func(w *looseWalk, policy string) ([]string, *api.Problem) {
		name := w.name("branch")
		if p := w.try(nil, "POST", "/v1/cells/a-warm/branch", api.BranchBody{Name: name, Policy: policy}); p != nil {
			return nil, p
		}
		var res api.RunResult
		w.operator.want(http.StatusOK, &res, "POST", "/v1/cells/"+name+"/stop", api.StopBody{Grace: "0s"})
		return []string{res.ReceiptID}, nil
	},
}

// quiet are the operations that take a policy and run and keep nothing, or are the
// operator's alone.
var quiet = []string{
	"POST /v1/policies/explain", "POST /v1/policies/validate", "POST /v1/cells/{cell}/plan", "POST /v1/sessions/plan", "POST /v1/tokens",
}

// looseWalk tries policies as one caller.
type looseWalk struct {
	*testDaemon

	operator *testDaemon
	who      string
	made     *int
}

func (w *looseWalk) name(what string) string {
	*w.made++
	return fmt.Sprintf("a-%s-%d", what, *w.made)
}

// try sends a request that succeeds or is refused.
func (w *looseWalk) try(doc any, method, path string, body any) *api.Problem {
	w.Helper()
	r := w.send(method, path, body)
	if r.status < 300 {
		if doc != nil {
			w.decode(r, doc)
		}
		return nil
	}
	var p api.Problem
	w.decode(r, &p)
	if r.status != http.StatusForbidden && r.status != http.StatusUnprocessableEntity {
		w.Errorf("%s %s as %s: %+v", method, path, w.who, p)
	}
	return &p
}

func (w *looseWalk) decode(r reply, doc any) {
	w.Helper()
	if err := json.Unmarshal(r.body, doc); err != nil {
		w.Fatalf("%v: %s", err, r.body)
	}
}

func (w *looseWalk) startAndStop(name string, b api.StartBody) ([]string, *api.Problem) {
	w.Helper()
	if p := w.try(nil, "POST", "/v1/cells/"+name+"/start", b); p != nil {
		return nil, p
	}
	var res api.RunResult
	w.want(http.StatusOK, &res, "POST", "/v1/cells/"+name+"/stop", api.StopBody{Grace: "0s"})
	return []string{res.ReceiptID}, nil
}

// session starts a session under a policy, or rewinds it under another one, and ends it.
func (w *looseWalk) session(first, rewound string) ([]string, *api.Problem) {
	w.Helper()
	b := api.CreateSession{Cell: "a-bound", Agent: "generic", AllowNonGit: true, Name: w.name("session")}
	b.Arguments, b.Turns, b.Policy = []string{"sleep", "1000"}, "1h", first
	if p := w.try(nil, "POST", "/v1/sessions", b); p != nil {
		return nil, p
	}
	at := "/v1/sessions/" + b.Name
	w.Cleanup(func() { w.operator.send("DELETE", "/v1/cells/"+b.Name+"?force=true", nil) })
	if rewound != "" {
		again := api.RewindBody{To: new(int)}
		again.Policy = rewound
		if p := w.try(nil, "POST", at+"/rewind", again); p != nil {
			return nil, p
		}
	}
	var i api.AgentSession
	w.operator.want(http.StatusOK, &i, "POST", at+"/stop", nil)
	return []string{i.ReceiptID}, nil
}

// TestEveryLoosePolicy sends every policy that loosens something through every operation
// that takes one, as every kind of caller. For a caller who is not the operator it is
// refused, or the receipt shows a policy within the caller's bounds: the ceiling of the
// token, or the policy of the cell. The operator is refused what it does not grant. A new
// operation must be in one of both lists.
func TestEveryLoosePolicy(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	granted := t.TempDir()
	if err := os.WriteFile(filepath.Join(granted, "file"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newRemote(t, api.ServeOptions{})
	for _, name := range []string{"a-bound", "a-warm"} {
		d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Empty: true}, Policy: boundOfCell})
	}
	d.want(http.StatusOK, nil, "POST", "/v1/cells/a-warm/start", api.StartBody{Warm: &api.WarmBody{Python: &api.WarmPython{}}})
	t.Cleanup(func() { d.send("POST", "/v1/cells/a-warm/stop", api.StopBody{Grace: "0s"}) })
	takePolicies(d)

	ceiling := strings.Replace(boundOfCell, "256", "200", 1)
	bounds := map[string]string{"run": boundOfCell, "run with policy": ceiling, "admin with policy": narrowPolicy}
	callers := boundedCallers(d)
	delete(callers, "run and decide")   // as run
	delete(callers, "admin with quota") // as admin with cells
	callers["run"] = d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	callers["run with policy"] = d.token(api.TokenBody{Name: "narrow", Scopes: []string{"run"}, Policy: ceiling})
	callers["operator"] = d
	callers["operator's token"] = d.token(api.TokenBody{Name: "root", Scopes: []string{"admin"}})
	policies, needGrant := loosePolicies(granted)
	made := 0
	for who, as := range callers {
		w := &looseWalk{testDaemon: as, operator: d, who: who, made: &made}
		bound := bounds[who]
		if bound == "" {
			bound = boundOfCell
		}
		for op, fn := range verbs {
			for what, text := range policies {
				operator := strings.HasPrefix(who, "operator")
				if operator && (!slices.Contains(needGrant, what) || op == "POST /v1/cells/{cell}/branch") {
					continue // a branch is within its cell, whoever makes it
				}
				receipts, refused := fn(w, text)
				if operator && refused == nil {
					t.Errorf("%s as %s with a policy that %s: nothing was granted, and it ran", op, who, what)
				}
				if operator || refused != nil {
					continue
				}
				if op == "POST /v1/cells" && bounds[who] != ceiling && bounds[who] != narrowPolicy {
					w.loosensNothing(receipts, op+" with a policy that "+what)
					continue
				}
				w.within(receipts, bound, op+" with a policy that "+what)
			}
		}
	}
}

// takePolicies finds the operations that take a policy.
func takePolicies(d *testDaemon) {
	d.Helper()
	words := readWords(d)
	for path, methods := range words.Paths {
		for method, op := range methods {
			at := strings.ToUpper(method) + " " + path
			schema := words.resolve(op.Body.Content["application/json"].Schema)
			takes := schema != nil && schema.Properties["policy"] != nil
			_, walked := verbs[at]
			if isQuiet := slices.Contains(quiet, at); takes != (walked || isQuiet) || walked && isQuiet {
				d.Errorf("%s: say in one of the lists what it does with a policy", at)
			}
		}
	}
}

// ran returns the policies that receipts name.
func (w *looseWalk) ran(receipts []string) (list []*policy.Policy) {
	w.Helper()
	w.engine(func(e *engine.Engine) {
		list = stdio{&model{TB: w.TB}, e, ""}.policies(slices.DeleteFunc(receipts, func(id string) bool { return id == "" })...)
	})
	if len(list) == 0 {
		w.Errorf("as %s: nothing ran, and nothing was refused", w.who)
	}
	return list
}

func (w *looseWalk) within(receipts []string, bound, what string) {
	w.Helper()
	most, err := policy.Parse("bound", []byte(bound), policy.Options{})
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range w.ran(receipts) {
		if !policy.Within(p, most) {
			w.Errorf("%s as %s: the policy is wider than\n%s\n%s", what, w.who, bound, p.Canonical())
		}
	}
}

// loosensNothing checks the policies of a cell that a caller without a ceiling has made.
func (w *looseWalk) loosensNothing(receipts []string, what string) {
	w.Helper()
	for _, p := range w.ran(receipts) {
		if x := engine.ExplainNeeds(p); x.Needs != "" || p.Landlock == policy.BestEffort {
			w.Errorf("%s as %s: it loosens something: %s", what, w.who, p.Canonical())
		}
	}
}
