package daemon_test

import (
	"net/http"
	"testing"
	"time"
)

// TestSiteBudget: no contents make a page much larger than they are.
func TestSiteBudget(t *testing.T) {
	t.Parallel()
	const limit = 5 << 20
	d := newDaemon(t)
	d.cell("demo")
	r := newReviewer(d)
	first := d.ran("demo", `head -c 1048576 /dev/zero | tr '\0' '\001' | fold -b -w 3000 | head -c 1048576 > c1
for i in 2 3 4 5 6; do cp c1 c$i; done
yes "$(printf '\001a\002b')" | tr -d '\n' | head -c 1048576 | fold -b -w 3000 | head -c 1048576 > mixed
yes "$(printf '\001')" | head -c 250000 | tee lines
yes x | head -n 300000 > x1; cp x1 x2; cp x1 x3`)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/accept", nil)
	second := d.ran("demo", `for f in x1 x2 x3; do sed 's/$/ /; 7s/.*/changed/' $f > new; mv new $f; done`)
	for _, at := range []string{
		"/ui/runs/" + first, "/ui/runs/" + first + "/file?path=c1", "/ui/runs/" + first + "/file?path=mixed", "/ui/runs/" + first + "/output",
		"/ui/cells/demo/files?path=lines&view=file", "/ui/cells/demo/files?path=mixed&view=file",
		"/ui/runs/" + second + "?space=ignore", "/ui/runs/" + second + "?space=ignore&view=split", "/ui/runs/" + second + "/file?path=x1&space=ignore",
	} {
		begin := time.Now()
		r.get(http.StatusOK, at)
		t.Logf("%s: %d KiB, %s", at, len(r.page)>>10, time.Since(begin).Round(time.Millisecond))
		if len(r.page) > limit {
			t.Errorf("%s has %d MiB", at, len(r.page)>>20)
		}
	}
	r.get(http.StatusOK, "/ui/runs/"+first)
	r.has("Show this change")
	r.get(http.StatusOK, "/ui/runs/"+first+"?space=ignore")
	r.has(`space=ignore&amp;view=unified" data-load>Show this change`)
	r.get(http.StatusOK, "/ui/runs/"+first+"/file?path=c1")
	r.has("U&#43;0001 ×3000")
}
