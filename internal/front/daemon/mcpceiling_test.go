package daemon_test

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/policy"
)

// stdio is a model on stdin and stdout, and the engine of the operator on the same home.
type stdio struct {
	*model
	operator *engine.Engine
	home     string
}

// newStdio makes the cell demo with a policy, and serves it to a model.
func newStdio(t *testing.T, text string) stdio {
	t.Helper()
	home := t.TempDir() + "/home"
	operator, release, err := local.Open(home, local.Serve, caller.Caller{Actor: func() string { return "test" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	file := &api.PolicyFile{Name: "narrow", Text: []byte(text)}
	if _, err := operator.Init(t.Context(), api.InitRequest{Name: "demo", Empty: true, Policy: file}); err != nil {
		t.Fatal(err)
	}
	return stdio{serveModel(t, home, api.MCPOptions{Cell: "demo"}), operator, home}
}

// serveModel serves a cell to a model until the test ends.
func serveModel(t *testing.T, home string, o api.MCPOptions) *model {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- daemon.MCP(ctx, home, o, in, out) }()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &model{t, s}
}

// policyFields returns the places of a schema that take a policy.
func policyFields(schema any, at string) (fields []string) {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	for _, key := range []string{"items", "additionalProperties"} {
		fields = append(fields, policyFields(s[key], at+"[]")...)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		if name == "policy" {
			fields = append(fields, at+name)
		}
		fields = append(fields, policyFields(p, at+name+".")...)
	}
	return fields
}

var policyHash = regexp.MustCompile(`"policy_hash": ?"([0-9a-f]{64})"`)

// policies returns the policies that the receipts of some runs name.
func (s stdio) policies(receipts ...string) (list []*policy.Policy) {
	s.Helper()
	for _, id := range receipts {
		doc, err := s.operator.Receipt(s.Context(), id, "", false)
		if err != nil {
			s.Fatal(id, err)
		}
		hash := policyHash.FindSubmatch(doc.JSON)
		if hash == nil {
			s.Fatalf("the receipt %s names no policy: %s", id, doc.JSON)
		}
		p, err := s.operator.StoredPolicy(string(hash[1]))
		if err != nil {
			s.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// run runs a command by a tool, and returns the receipt.
func (s stdio) run(args map[string]any) string {
	s.Helper()
	var run api.RunAnswer
	args["command"] = []string{"true"}
	s.do(&run, "run", args)
	return run.ReceiptID
}

// stop ends a live cell, and returns the receipt.
func (s stdio) stop(cell string) string {
	s.Helper()
	var run api.RunResult
	s.do(&run, "stop", map[string]any{"cell": cell, "grace": "0s"})
	return run.ReceiptID
}

// TestMCPEveryPolicyIsUnderTheCeiling sends a policy that allows more than that of the
// cell in every field of every tool that takes one. What runs then, by its receipt, is
// within the policy of the cell.
func TestMCPEveryPolicyIsUnderTheCeiling(t *testing.T) {
	t.Parallel()
	const narrow = "version: 1\nfilesystem_policy: { read_only: [/usr, /etc/ld.so.cache] }\nlimits: { open_files: 256 }\n"
	const wide = `version: 1
filesystem_policy: { read_only: [/usr, /etc] }
landlock: { compatibility: best_effort }
process: { allow_syscalls: [io_uring_setup] }
network_policies:
  all: { endpoints: [{ host: example.com, port: 443 }], binaries: [{ path: /** }] }
`
	s := newStdio(t, narrow)
	calls := map[string]func() []string{
		"run policy": func() []string { return []string{s.run(map[string]any{"policy": wide})} },
		"cell_create policy": func() []string {
			s.do(nil, "cell_create", map[string]any{"name": "demo-own", "source": map[string]any{"empty": true}, "policy": wide})
			s.do(nil, "fork", map[string]any{"cell": "demo-own", "name": "demo-own-fork"})
			s.do(nil, "start", map[string]any{"cell": "demo-own-fork"})
			return []string{s.run(map[string]any{"cell": "demo-own"}), s.run(map[string]any{"cell": "demo-own", "policy": wide}), s.stop("demo-own-fork")}
		},
		"start policy": func() []string {
			s.do(nil, "start", map[string]any{"policy": wide})
			return []string{s.stop("demo")}
		},
		"branch policy": func() []string {
			if _, err := exec.LookPath("python3"); err != nil {
				t.Skip("needs python3")
			}
			s.do(nil, "start", map[string]any{"policy": wide, "warm": map[string]any{"python": map[string]any{}}})
			s.do(nil, "branch", map[string]any{"cell": "demo", "name": "demo-branch", "policy": wide})
			return []string{s.stop("demo-branch"), s.stop("demo")}
		},
		"race policy": func() (receipts []string) {
			var won api.RaceResult
			s.do(&won, "race", map[string]any{"command": []string{"true"}, "judge": []string{"true"}, "n": 2, "policy": wide})
			for _, a := range won.Attempts {
				receipts = append(receipts, a.ReceiptID)
			}
			return receipts
		},
		"policy_explain policy": func() []string { return nil }, // nothing runs
	}
	var fields []string
	for name, tool := range s.tools() {
		raw, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		fields = append(fields, policyFields(schema, name+" ")...)
	}
	var tried []string
	for name := range calls {
		tried = append(tried, name)
	}
	slices.Sort(fields)
	if slices.Sort(tried); !reflect.DeepEqual(fields, tried) {
		t.Fatalf("the tools take a policy in\n%q, this test tries\n%q", fields, tried)
	}
	ceiling, err := s.operator.Caller.ParsePolicy(api.PolicyFile{Name: "narrow", Text: []byte(narrow)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fields {
		for i, p := range s.policies(calls[name]()...) {
			if !policy.Within(p, ceiling) {
				t.Errorf("%s, receipt %d: the policy is wider than that of the cell:\n%s", name, i, p.Canonical())
			}
		}
	}
}
