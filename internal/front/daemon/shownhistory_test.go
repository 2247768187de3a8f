package daemon_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestShownIsAccepted: over random histories, what the API or a tool shows before a decision
// is what the directory gets by it, file by file. The test of that name in internal/engine asks
// the engine.
func TestShownIsAccepted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			d.cell("demo")
			p := &promise{testDaemon: d, model: d.connect(nil), rng: rand.New(rand.NewPCG(seed, 11))}
			for range 40 {
				p.step()
			}
			if p.decided == 0 {
				t.Error("nothing was decided")
			}
		})
	}
}

// promise is a random history of the cell demo.
type promise struct {
	*testDaemon
	model   *model
	rng     *rand.Rand
	n       int
	decided int
	last    string // run
}

func (p *promise) pick(list ...string) string { return list[p.rng.IntN(len(list))] }

func (p *promise) step() {
	p.n++
	switch p.rng.IntN(9) {
	case 0, 1, 2:
		file := func() string { return p.pick("a", "b", "d/x", "d/y", "hello.txt") }
		script := "mkdir -p d"
		for range 1 + p.rng.IntN(3) {
			script += p.pick("; rm -f "+file(), "; mv "+file()+" "+file()+" 2>/dev/null", fmt.Sprintf("; echo %d >> %s", p.n, file()), fmt.Sprintf("; echo %d > %s", p.n, file()))
		}
		p.last = p.ran("demo", script+"; true")
	case 3:
		p.write(p.pick("s0", "s1"), fmt.Sprint("of the user ", p.n))
		p.move("refresh", api.RefreshRequest{})
	case 4:
		p.move("reject", api.RejectRequest{})
	case 5:
		var states api.List[api.CheckpointInfo]
		p.want(http.StatusOK, &states, "GET", "/v1/cells/demo/checkpoints", nil)
		p.move("restore", api.RestoreRequest{Checkpoint: states.Items[p.rng.IntN(len(states.Items))].CheckpointID})
	default:
		p.decide(p.rng.IntN(2) == 0, p.pick("", p.last))
	}
}

// move sends a request that may be refused.
func (p *promise) move(verb string, body any) bool {
	p.Helper()
	r := p.send("POST", "/v1/cells/demo/"+verb, body)
	if r.status != http.StatusOK && r.status != http.StatusConflict && r.status != http.StatusNotFound {
		p.Fatalf("%s: %d %s", verb, r.status, r.body)
	}
	return r.status == http.StatusOK
}

// decide looks at all undecided work, or at a run, accepts what was shown, and compares the
// directory with that. It does both by tools or both by requests.
func (p *promise) decide(tools bool, run string) {
	p.Helper()
	var shown api.DiffResult
	if tools {
		if p.model.try(&shown, "diff", map[string]any{"cell": "demo", "run": run}).IsError {
			return // there is no run
		}
	} else if r := p.send("GET", "/v1/cells/demo/diff?run="+run, nil); r.status == http.StatusOK {
		p.want(http.StatusOK, &shown, "GET", "/v1/cells/demo/diff?run="+run, nil)
	}
	if len(shown.Runs) == 0 {
		return
	}
	var plan api.ApplyResult
	if r := p.send("POST", "/v1/cells/demo/apply", api.ApplyRequest{DryRun: true}); r.status == http.StatusOK {
		p.want(http.StatusOK, &plan, "POST", "/v1/cells/demo/apply", api.ApplyRequest{DryRun: true})
	}
	waits := map[string]bool{} // for an apply, without the decision
	for _, ch := range plan.Written {
		waits[ch.Path], waits[ch.OldPath] = true, true
	}
	before := p.files()
	body := api.AcceptRequest{Runs: shown.Runs, LeaveOut: []string{}, Force: true, Apply: true}
	for _, w := range shown.Earlier {
		body.LeaveOut = append(body.LeaveOut, w.ID)
	}
	if tools {
		args := map[string]any{"cell": "demo", "runs": body.Runs, "leave_out": body.LeaveOut, "force": true, "apply": true}
		if p.model.try(nil, "accept", args).IsError {
			return
		}
	} else if !p.move("accept", body) {
		return
	}
	p.decided++
	want := maps.Clone(before)
	other := map[string]bool{} // files of the directory in place of one that is deleted; they may stay
	remove := func(path, digest string) {
		delete(want, path)
		other[path] = before[path] != digest
	}
	for _, ch := range shown.Changes {
		if ch.OldPath != "" && ch.OldPath != ch.Path {
			remove(ch.OldPath, ch.OldDigest)
		}
		switch {
		case ch.Change == "deleted":
			remove(ch.Path, ch.OldDigest)
		case ch.Type == "file":
			want[ch.Path] = ch.NewDigest
		}
	}
	got := p.files()
	for _, path := range slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got))) {
		if want[path] != got[path] && !waits[path] && !(other[path] && got[path] == before[path]) {
			p.Fatalf("step %d, tools %t: %s was %q, was shown as %q, and is %q\nshown: %+v", p.n, tools, path, before[path], want[path], got[path], shown)
		}
	}
}

// files returns the digest of each file of the source directory.
func (p *promise) files() map[string]string {
	p.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(p.source, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		sum := sha256.Sum256(text)
		rel, _ := filepath.Rel(p.source, name)
		found[rel] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return found
}
