package daemon_test

import (
	"net/http"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// TestUndeleteRights: a removed cell is brought back by callers who could remove it, and is
// unknown to those who could not know of it before.
func TestUndeleteRights(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	for _, name := range []string{"team-a", "other"} {
		d.cell(name)
	}
	caller := func(name, cells string, scopes ...string) *testDaemon {
		return d.token(api.TokenBody{Name: name, Scopes: scopes, Cells: cells})
	}
	read, team, foreign, whole := caller("read", "", "read"), caller("team", "team", "run"), caller("foreign", "else", "run"), caller("whole", "", "run")
	remove := func(names ...string) {
		for _, name := range names {
			d.want(http.StatusNoContent, nil, "DELETE", "/v1/cells/"+name, nil)
		}
	}
	undelete := func(name string) string { return "/v1/cells/" + name + "/undelete" }
	remove("team-a", "other")
	read.problem(http.StatusForbidden, api.CodeForbidden, "POST", undelete("team-a"), nil)
	foreign.problem(http.StatusNotFound, api.CodeNotFound, "POST", undelete("team-a"), nil)
	team.problem(http.StatusNotFound, api.CodeNotFound, "POST", undelete("other"), nil)
	team.want(http.StatusOK, nil, "POST", undelete("team-a"), nil)
	whole.want(http.StatusOK, nil, "POST", undelete("other"), nil)

	// What the removal kept from callers is kept from them still: it has its name again.
	foreign.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/cells/team-a", nil)
	team.want(http.StatusOK, nil, "GET", "/v1/cells/team-a", nil)
	// A second time there is nothing to bring back, also when the name is free again.
	whole.problem(http.StatusNotFound, api.CodeNotFound, "POST", undelete("other"), nil)
	d.want(http.StatusNoContent, nil, "DELETE", "/v1/cells/other?now=true", nil)
	whole.problem(http.StatusNotFound, api.CodeNotFound, "POST", undelete("other"), nil)
}

// TestUndeleteOfOneCell: a caller that is bound to one cell brings back its forks, and no
// removed cell of others whose name begins with that of its own.
func TestUndeleteOfOneCell(t *testing.T) {
	t.Parallel()
	engine, release, err := local.Open(t.TempDir()+"/home", local.Serve, caller.Caller{Actor: func() string { return "test" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	made := map[string]string{}
	for _, name := range []string{"demo", "demo-private"} {
		res, err := engine.Init(t.Context(), api.InitRequest{Name: name, Empty: true})
		if err != nil {
			t.Fatal(err)
		}
		made[name] = res.CellID
	}
	if _, err := engine.Fork(t.Context(), api.ForkRequest{Cell: "demo", Name: "fork"}); err != nil {
		t.Fatal(err)
	}
	if err := engine.RemoveCells(t.Context(), api.RemoveRequest{Cells: []string{"demo-private", "fork"}}); err != nil {
		t.Fatal(err)
	}
	s := rest.New(rest.Config{Engine: func(c caller.Caller) rest.Engine { return engine.As(c) }, Tokens: engine.Tokens()})
	client := s.BoundClient(rest.Bound{Name: "model", Cell: "demo", CellID: made["demo"]})
	for name, want := range map[string]int{"demo-private": http.StatusNotFound, "fork": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/cells/"+name+"/undelete", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}
