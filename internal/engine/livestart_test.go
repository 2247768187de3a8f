package engine

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
)

func TestPickSession(t *testing.T) {
	t.Parallel()
	list := []api.SessionInfo{{ExecID: "exec_1"}, {ExecID: "exec_12"}, {ExecID: "exec_2"}}
	for ref, want := range map[string]string{"exec_1": "exec_1", "exec_12": "exec_12", "exec_2": "exec_2", "exec_": "", "x": ""} {
		s, err := pickSession(list, "demo", ref)
		if s.ExecID != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", ref, s.ExecID, err)
		}
	}
}

// TestStartOrder sends an order to a supervisor and compares it byte for byte.
func TestStartOrder(t *testing.T) {
	t.Parallel()
	q := api.StartRequest{Cell: "demo", RunOptions: api.RunOptions{
		Env: []string{"A=\xff"}, Workdir: "\xfe", ReadOnly: []string{"/x"}, Timeout: 5e9, Wait: -1e9, Memory: 1, CPUs: 2, PIDs: 3,
		AllowDegraded: true, Policy: &api.PolicyFile{Name: "p", Text: []byte("version: 1\n")},
	}}
	p := policy.Default()
	p.Environment.Inherit = []string{"IN", "ABSENT"}
	e := New(Config{Home: "/home", Caller: caller.Caller{
		Actor: func() string { return "tester" }, Env: []string{"IN=va=l\xffue", "OTHER=x", "PATH=/x"},
		Git: func() caller.GitUser { return caller.GitUser{Name: "A\xff", Email: "a@b"} }, Home: "/h\xff", Dir: "/d",
	}})
	given := e.startOrder(p)
	given.Request = q
	data, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	order, err := supervise.DecodeOrder(data)
	if err != nil || order.Home != "/home" {
		t.Fatal(order.Home, err)
	}
	if diff := cmp.Diff(q, order.Request); diff != "" {
		t.Error(diff)
	}
	c := OrderCaller(order)
	if v, ok := c.LookupEnv("IN"); v != "va=l\xffue" || !ok {
		t.Errorf("inherited %q, %v", v, ok)
	}
	if _, ok := c.LookupEnv("OTHER"); ok {
		t.Error("something else is inherited")
	}
	if c.GitUser() != e.Caller.GitUser() || c.Actor() != "tester" || c.Home != "/h\xff" || c.Dir != "/d" {
		t.Errorf("%+v", c)
	}
	if _, err := supervise.DecodeOrder([]byte("{")); err == nil {
		t.Error("nonsense was understood")
	}
}
