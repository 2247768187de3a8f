package daemon_test

import (
	"os"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// cacheRun runs a command in a cell, with its caches.
func (d *testDaemon) cacheRun(cell, script string) api.RunAnswer {
	d.Helper()
	var res api.RunAnswer
	d.want(200, &res, "POST", "/v1/cells/"+cell+"/runs", api.RunBody{
		Command: []string{"sh", "-c", script}, AcceptOnSuccess: true, RunSettings: api.RunSettings{Cache: api.CacheStandard},
	})
	if res.Outcome != "succeeded" {
		d.Fatalf("%s: %+v", cell, res)
	}
	return res
}

// TestCachesOfPrefixes promotes the caches of a cell that a token with a prefix made.
// The cells of other prefixes and of the operator do not start from them, although all
// are of one directory.
func TestCachesOfPrefixes(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{AllowSource: []string{os.TempDir()}})
	a := d.token(api.TokenBody{Name: "a", Scopes: []string{"run", "decide"}, Cells: "a-"})
	b := d.token(api.TokenBody{Name: "b", Scopes: []string{"run", "decide"}, Cells: "b-"})
	a.cell("a-one")
	a.cacheRun("a-one", "mkdir -p $GOCACHE && echo built by a > $GOCACHE/x")
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	done, err := e.Promote(t.Context(), api.PromoteRequest{Cell: "a-one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range done.Caches {
		names = append(names, c.Cache)
	}
	if !slices.Equal(names, []string{"cache:a-:home", "cache:a-:" + d.source}) {
		t.Errorf("promoted to %q", names)
	}
	const look = "cat $GOCACHE/x 2>&1 || :"
	a.cell("a-two")
	if res := a.cacheRun("a-two", look); res.Stdout != "built by a\n" {
		t.Errorf("the same prefix has %q", res.Stdout)
	}
	b.cell("b-one")
	d.cell("operator")
	for _, who := range []string{"b-one", "operator"} {
		if res := d.cacheRun(who, look); res.Cache.From != "" || res.Stdout == "built by a\n" {
			t.Errorf("%s is based on %+v and has %q", who, res.Cache, res.Stdout)
		}
	}
	// A fork that the operator makes stays with the prefix of its origin.
	a.cell("a-three")
	d.want(201, nil, "POST", "/v1/cells/a-three/fork", api.ForkBody{Name: "forked"})
	if res := d.cacheRun("forked", look); res.Cache.From != "cache:a-:"+d.source {
		t.Errorf("the fork is based on %+v", res.Cache)
	}
}
