package daemon_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestQuotaOfEveryWork: what is left of a quota bounds each kind of work that adds to the
// disk, also where several requests of one token do it at once.
func TestQuotaOfEveryWork(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	const quota, beforeLook = 24 << 20, 8 << 20
	const written = 6 << 20
	fill := []string{"sh", "-c", "i=0; while [ $i -lt 600 ]; do head -c 100000 /dev/zero >> big; i=$((i+1)); sleep 0.01; done; echo done"}
	for name, w := range map[string]struct {
		live    bool
		at      int // how many at once
		request func(c *testDaemon, cell string, i int) reply
	}{
		"run": {false, 2, func(c *testDaemon, cell string, _ int) reply {
			return c.send("POST", "/v1/cells/"+cell+"/runs", api.RunBody{Command: fill})
		}},
		"race": {false, 1, func(c *testDaemon, cell string, _ int) reply {
			return c.send("POST", "/v1/race", api.RaceBody{Cell: cell, Command: fill, N: 3})
		}},
		// Half is set aside for the live cell.
		"write": {true, 1, func(c *testDaemon, cell string, _ int) reply {
			return c.send("PUT", "/v1/cells/"+cell+"/files?path=big", strings.Repeat("x", quota/2+128<<10), "Content-Type", "application/octet-stream")
		}},
		"checkpoint": {true, 12, func(c *testDaemon, cell string, _ int) reply {
			return c.send("POST", "/v1/cells/"+cell+"/checkpoints", nil)
		}},
		"fork": {true, 12, func(c *testDaemon, cell string, i int) reply {
			return c.send("POST", "/v1/cells/"+cell+"/fork", api.ForkBody{Name: fmt.Sprintf("%s-%d", cell, i)})
		}},
	} {
		prefix := name + "-"
		c := d.token(api.TokenBody{Name: name, Scopes: []string{"run"}, Cells: prefix, Quota: &api.Quota{Disk: quota}})
		cell := prefix + "cell"
		c.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: cell, Source: &api.Source{Empty: true}})
		if w.live {
			c.want(http.StatusOK, nil, "POST", "/v1/cells/"+cell+"/start", nil)
			d.Cleanup(func() { d.remove(cell) })
		}
		if w.live && name != "write" {
			c.want(http.StatusOK, nil, "POST", "/v1/cells/"+cell+"/exec", api.ExecBody{Command: []string{"sh", "-c", "head -c 6291456 /dev/zero > big"}})
		}
		before := d.bytesBelow("pending", "layers")
		answers := make([]reply, w.at)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = w.request(c, cell, i) })
		}
		all.Wait()
		took, refused := d.bytesBelow("pending", "layers")-before, 0
		for _, r := range answers {
			if lacksFreezer(r) {
				took, refused = 0, 1
				break
			}
			if r.status == http.StatusTooManyRequests || strings.Contains(string(r.body), "quota") || strings.Contains(string(r.body), `"killed"`) {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%s: nothing was refused or ended: %d %s", name, answers[0].status, answers[0].body)
		}
		most := int64(quota + beforeLook)
		if w.at > 2 {
			most = quota + written // what one copy takes is not known before it is made
		}
		if took > most {
			t.Errorf("%s took %d bytes of %d", name, took, quota)
		}
		t.Logf("%s: %d bytes, %d of %d refused", name, took, refused, w.at)
	}
}
