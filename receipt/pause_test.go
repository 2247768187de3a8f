package receipt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// paused is a run that ended with a pause, after another one.
func paused() *Run {
	r := testRun(1)
	at := time.Date(2026, 11, 17, 1, 2, 3, 0, time.UTC)
	r.Paused = &Pause{RunID: "run_01", At: at, Memory: strings.Repeat("0", 64)}
	r.Resumed = &Pause{RunID: "run_00", At: at, FSOnly: true}
	return r
}

func TestPauseRoundTrip(t *testing.T) {
	t.Parallel()
	l, r := newTestLog(t), paused()
	s, err := Verify(l.add(r), trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, s.Predicate); diff != "" {
		t.Error(diff)
	}
	page := markdownOf(t, r)
	for _, line := range []string{"| Resumed after | `\"run_00, paused 2026-11-17T01:02:03Z, without its processes\"` |", "| Paused | `\"2026-11-17T01:02:03Z, with its memory, sha256:0000"} {
		if !strings.Contains(page, line) {
			t.Errorf("no %s in %s", line, page)
		}
	}
}

func TestBadPause(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Pause){
		"no run":            func(p *Pause) { p.RunID = "chk_01" },
		"no time":           func(p *Pause) { p.At = time.Time{} },
		"no memory":         func(p *Pause) { p.Memory = "" },
		"no hash":           func(p *Pause) { p.Memory = "x" },
		"memory of nothing": func(p *Pause) { p.FSOnly = true },
	} {
		p := *paused().Paused
		spoil(&p)
		if err := p.check("paused"); err == nil || !strings.Contains(err.Error(), "paused: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
