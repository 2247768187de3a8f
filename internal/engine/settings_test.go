package engine_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

func (w *world) info(name string) api.CellInfo {
	w.Helper()
	res, err := w.e.Status(w.ctx, name)
	w.ok(err)
	return res.CellInfo
}

// TestUpdate: what is nil stays, 0 and "" take away, and a refused request changes
// nothing, not even the name.
func TestUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	a, b, hour, none, remove, empty := "a", "b", api.Duration(time.Hour), api.Duration(0), api.OnTimeoutRemove, ""
	update := func(r api.UpdateRequest) api.CellInfo {
		t.Helper()
		info, err := w.e.Update(w.ctx, r)
		w.ok(err)
		return *info
	}
	info := update(api.UpdateRequest{Cell: "demo", Name: "other", Labels: map[string]*string{"x": &a, "y": &b}, TTL: &hour, OnTimeout: &remove})
	if info.Cell != "other" || !maps.Equal(info.Labels, map[string]string{"x": "a", "y": "b"}) || info.TTL != hour || info.OnTimeout != "remove" || info.State != "idle" {
		t.Errorf("%+v", info)
	}
	info = update(api.UpdateRequest{Cell: "other", Labels: map[string]*string{"x": nil}, IdleTimeout: &hour})
	if !maps.Equal(info.Labels, map[string]string{"y": "b"}) || info.TTL != hour || info.IdleTimeout != hour || info.OnTimeout != "remove" {
		t.Errorf("%+v", info)
	}
	long := strings.Repeat("x", 256)
	many := map[string]*string{}
	for i := range 65 {
		many[fmt.Sprintf("k%d", i)] = &a
	}
	for what, r := range map[string]api.UpdateRequest{
		"a bad name":         {Cell: "other", Name: "Bad"},
		"a bad key":          {Cell: "other", Name: "third", Labels: map[string]*string{"a b": &a}},
		"an empty key":       {Cell: "other", Labels: map[string]*string{"": &a}},
		"a long key":         {Cell: "other", Labels: map[string]*string{long[:64]: &a}},
		"a long value":       {Cell: "other", Labels: map[string]*string{"x": &long}},
		"a line break":       {Cell: "other", Labels: map[string]*string{"x": ptr("a\nb")}},
		"a bidi character":   {Cell: "other", Labels: map[string]*string{"x": ptr("a\u202eb")}},
		"no UTF-8":           {Cell: "other", Labels: map[string]*string{"x": ptr("\xff")}},
		"too many labels":    {Cell: "other", Labels: many},
		"a short ttl":        {Cell: "other", TTL: ptr(api.Duration(time.Millisecond))},
		"a negative timeout": {Cell: "other", IdleTimeout: ptr(api.Duration(-time.Hour))},
		"a long timeout":     {Cell: "other", IdleTimeout: ptr(api.Duration(1<<63 - 1))},
		"an unknown action":  {Cell: "other", Name: "third", OnTimeout: ptr("explode")},
	} {
		if _, err := w.e.Update(w.ctx, r); api.KindOf(err) != api.Usage {
			t.Errorf("%s: %v", what, err)
		}
	}
	if again := w.info("other"); !maps.Equal(again.Labels, info.Labels) || again.TTL != info.TTL {
		t.Errorf("%+v after refused requests", again)
	}
	info = update(api.UpdateRequest{Cell: "other", DropLabels: true, TTL: &none, IdleTimeout: &none, OnTimeout: &empty})
	if len(info.Labels) != 0 || info.TTL != 0 || info.IdleTimeout != 0 || info.OnTimeout != "stop" {
		t.Errorf("%+v", info)
	}
	w.wantRecovered("other")
	w.sound("other")
}

func ptr[T any](v T) *T { return &v }

// TestUpdateAtOnce: updates of one cell while runs change it from other engines. No
// update is lost, and none undoes a run.
func TestUpdateAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	var all sync.WaitGroup
	for i := range 4 {
		other, release, err := local.Open(w.home, local.Write, tester())
		w.ok(err)
		t.Cleanup(func() { _ = release() })
		all.Go(func() {
			for n := range 5 {
				key, value := fmt.Sprintf("k%d-%d", i, n), "v"
				if _, err := other.Update(w.ctx, api.UpdateRequest{Cell: "demo", Labels: map[string]*string{key: &value}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 5 {
		w.sh("demo", "echo x >> hello.txt", acceptOnSuccess)
	}
	all.Wait()
	if got := len(w.info("demo").Labels); got != 20 {
		t.Errorf("%d labels, want 20", got)
	}
	w.wantInside("demo", "hello.txt", "hello\n"+strings.Repeat("x\n", 5))
	w.wantRecovered("demo")
	w.sound("demo")
}

// TestForkExpects: the revision that a caller expects of a cell is compared in the step
// that records its forks: a change just before that refuses them.
func TestForkExpects(t *testing.T) {
	t.Parallel()
	for what, begin := range map[string]func(e *engine.Engine, expect *int64) error{
		"fork": func(e *engine.Engine, expect *int64) error {
			who := tester()
			who.Expect = expect
			_, err := e.As(who).Fork(t.Context(), api.ForkRequest{Cell: "demo", Name: "try"})
			return err
		},
		"race": func(e *engine.Engine, expect *int64) error {
			_, err := e.BeginRace(t.Context(), engine.RaceOptions{Cell: "demo", Attempts: 2, Expect: expect})
			return err
		},
	} {
		w := newWorld(t)
		w.init("demo", "")
		before, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		other, changed := "b", false
		w.e.Now = func() time.Time { // new cells have the time at which they are made
			if !changed {
				changed = true
				_, err := w.e.Update(w.ctx, api.UpdateRequest{Cell: "demo", Labels: map[string]*string{"x": &other}})
				w.ok(err)
			}
			return time.Now()
		}
		if err := begin(w.e, &before.Revision); api.CodeOf(err) != api.CodeChanged || !changed {
			t.Errorf("%s: %v", what, err)
		}
		w.wantPresent(what, "demo")
	}
}
