package engine_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
)

// bound returns the engine for a caller with a ceiling.
func (w *world) bound(ceiling string) *engine.Engine {
	w.Helper()
	return w.e.As(caller.Caller{Actor: func() string { return "ci" }, Ceiling: policyText(ceiling)})
}

// runAs runs a script by an engine.
func (w *world) runAs(e *engine.Engine, name, script string, change ...func(*api.RunRequest)) (*api.RunResult, string, error) {
	w.Helper()
	req := api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}, RunOptions: api.RunOptions{Grants: everything()}}
	for _, c := range change {
		c(&req)
	}
	var out bytes.Buffer
	res, err := e.Run(w.ctx, req, engine.Stdio{Out: &out, Err: &out})
	return res, out.String(), err
}

const onlyUsr = "filesystem_policy: { read_only: [/usr], read_write: [/var/tmp] }\nlimits: { wall_time: 20s }\n"

// TestCeilingOfARun has a caller ask for more than the ceiling allows.
func TestCeilingOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	wide := under("filesystem_policy: { read_only: [/usr, /etc], read_write: [/var/tmp, /srv] }\n")
	const script = "ls -d /etc/ssl /srv /var/tmp 2>/dev/null; exit 0"

	// Without the ceiling all of it is there: the control does something.
	if _, out, err := w.runAs(w.e, "demo", script, wide); err != nil || !strings.Contains(out, "/srv") {
		t.Fatalf("without a ceiling: %q, %v", out, err)
	}
	e := w.bound(onlyUsr)
	for _, change := range []func(*api.RunRequest){wide, func(*api.RunRequest) {}} { // the run's policy, and the cell's
		res, out, err := w.runAs(e, "demo", script, change)
		w.ok(err)
		if strings.Contains(out, "/srv") || strings.Contains(out, "/etc/ssl") {
			t.Errorf("the ceiling was passed: %q", out)
		}
		doc, err := w.e.Receipt(w.ctx, res.ReceiptID, "", false)
		w.ok(err)
		text := string(doc.JSON)
		for _, part := range []string{res.PolicyHash, "ceiling sha256:", " of policy sha256:"} {
			if !strings.Contains(text, part) {
				t.Errorf("the receipt lacks %s:\n%s", part, text)
			}
		}
	}
	plan, err := e.Plan(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}})
	w.ok(err)
	if !slices.ContainsFunc(plan.Grants, func(g string) bool { return strings.HasPrefix(g, "ceiling sha256:") }) || plan.TimeoutUS != 20e6 {
		t.Errorf("the plan does not know the ceiling: %+v", plan)
	}
}

// TestCeilingCannotBeCombined refuses a run rather than to guess.
func TestCeilingCannotBeCombined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	_, _, err := w.runAs(w.bound("environment: { set: { A: x } }\n"), "demo", "true", under("environment: { set: { A: y } }\n"))
	w.refused(err, api.Refused, "together with the ceiling of ci")
	if _, _, err := w.runAs(w.bound("nonsense: 1\n"), "demo", "true"); err == nil {
		t.Error("a ceiling that cannot be read bounds nothing")
	}
}

// TestCeilingOfACellsPolicy gives cells policies that others will use.
func TestCeilingOfACellsPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	e := w.bound("limits: { pids: 10 }\n")
	policy := policyText("limits: { pids: 100, open_files: 99 }\n")
	_, err := e.ApplyPolicy(w.ctx, "demo", *policy, nil)
	w.ok(err)
	_, err = e.Init(w.ctx, api.InitRequest{Name: "other", From: w.source, Policy: policy})
	w.ok(err)
	for _, name := range []string{"demo", "other"} {
		got, err := w.e.Policy(w.ctx, name)
		w.ok(err)
		if text := string(got.Text); !strings.Contains(text, "pids: 10\n") || !strings.Contains(text, "open_files: 99\n") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// TestCeilingOfALiveCell uses a cell that somebody else has started.
func TestCeilingOfALiveCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	e := w.bound("filesystem_policy: { read_only: [/usr] }\n")
	start := func(e *engine.Engine, policy *api.PolicyFile) {
		w.Helper()
		_, err := e.Start(w.ctx, api.StartRequest{Cell: "demo", RunOptions: api.RunOptions{Policy: policy}})
		w.ok(err)
	}
	stop := func() {
		w.Helper()
		_, err := w.e.Stop(w.ctx, api.StopRequest{Cell: "demo"})
		w.ok(err)
	}
	exec := func(e *engine.Engine, script string) (string, error) {
		var out bytes.Buffer
		_, err := e.Exec(w.ctx, api.ExecRequest{Cell: "demo", Args: []string{"sh", "-c", script}}, engine.Stdio{Out: &out, Err: &out})
		return out.String(), err
	}

	const look = "ls /etc | wc -l"
	start(w.e, nil) // with the host's /etc
	whole, err := exec(w.e, look)
	w.ok(err)
	_, err = exec(e, "true")
	w.refused(err, api.Refused, "not inside the ceiling of ci")
	_, err = e.CopyIn(w.ctx, api.CopyRequest{Cell: "demo", Host: w.source + "/hello.txt", Path: "x"})
	w.refused(err, api.Refused, "not inside the ceiling of ci")
	stop()

	start(w.e, policyText("filesystem_policy: { read_only: [/usr/bin, /usr/lib, /usr/lib64] }\nlandlock: { compatibility: best_effort }\n"))
	_, err = exec(e, "true")
	w.refused(err, api.Refused, "not inside the ceiling of ci") // best effort is more than the ceiling allows
	stop()

	start(e, nil)
	own, err := exec(e, look) // a few files of the cell's own
	w.ok(err)
	if entries(t, own) >= entries(t, whole) {
		t.Errorf("a cell that was started under the ceiling has %s files in /etc, without it %s", own, whole)
	}
	stop()
}

func entries(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
