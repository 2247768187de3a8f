package daemon_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// overTCP returns the client of a token as one of the local socket's, for helpers that
// name the host localhost.
func (d *testDaemon) overTCP() *testDaemon {
	other := *d
	other.client = &http.Client{Transport: toSite{strings.TrimPrefix(d.site, "http://"), d.client.Transport}}
	return &other
}

// toSite sends requests to an address, whatever their URL says.
type toSite struct {
	address string
	http.RoundTripper
}

func (s toSite) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = s.address, s.address
	return s.RoundTripper.RoundTrip(r)
}

// TestRevokedSockets revokes a token whose holder has WebSockets open: a command in a
// live cell, which goes on without the caller, and a run, which ends.
func TestRevokedSockets(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.live("demo")
	d.cell("idle")
	holder := d.token(api.TokenBody{Name: "holder", Scopes: []string{"run"}}).overTCP()
	command, id := holder.open(shell("echo begun; cat; echo ended"))
	command.until(1, "begun\n")
	run, _, err := holder.dial("/v1/cells/idle/run", nil, execProtocol)
	if err != nil {
		t.Fatal(err)
	}
	run.text(`{"command":["sleep","1000"]}`)
	if m := run.message(); m.Type != "started" {
		t.Fatalf("%+v", m)
	}
	d.want(204, nil, "DELETE", "/v1/tokens/holder", nil)
	for name, s := range map[string]*socket{"command": command, "run": run} {
		if code := s.closed(); code == websocket.StatusCode(-1) && s.ctx.Err() != nil {
			t.Errorf("the socket of the %s stays open", name)
		}
	}
	if _, resp, err := holder.dial("/v1/cells/demo/exec/"+id, nil, execProtocol); err == nil || resp == nil || resp.StatusCode != 401 {
		t.Errorf("%+v, %v", resp, err)
	}
	again, _ := d.open("/v1/cells/demo/exec/" + id)
	again.text(`{"type":"stdin_closed"}`)
	again.until(1, "ended\n")
	d.idle("idle")
	var runs api.List[api.RunInfo]
	d.want(200, &runs, "GET", "/v1/cells/idle/runs", nil)
	if len(runs.Items) != 1 || runs.Items[0].Outcome != "interrupted" {
		t.Errorf("%+v", runs.Items)
	}
}

// TestRevokedModel revokes the token of a session of the Model Context Protocol, in the
// middle of a call of a tool. The run ends, and the session can do nothing more.
func TestRevokedModel(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	began := make(chan struct{}, 100)
	m := d.token(api.TokenBody{Name: "holder", Scopes: []string{"run"}}).overTCP().connect(&sdk.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { began <- struct{}{} },
	})
	params := &sdk.CallToolParams{Name: "run", Arguments: map[string]any{"cell": "demo", "command": []string{"sleep", "1000"}}}
	params.SetProgressToken("p")
	ended := make(chan string, 1)
	go func() {
		res, err := m.CallTool(t.Context(), params)
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- text(res)
	}()
	<-began
	d.want(204, nil, "DELETE", "/v1/tokens/holder", nil)
	var runs api.List[api.RunInfo]
	for runs.Items == nil || runs.Items[0].State == "running" {
		d.want(200, &runs, "GET", "/v1/cells/demo/runs", nil)
	}
	if runs.Items[0].Outcome != "interrupted" {
		t.Errorf("%+v", runs.Items)
	}
	if said := <-ended; strings.Contains(said, "succeeded") {
		t.Error(said)
	}
	if _, err := m.CallTool(t.Context(), &sdk.CallToolParams{Name: "cell_list", Arguments: map[string]any{}}); err == nil {
		t.Error("the session goes on")
	}
}
