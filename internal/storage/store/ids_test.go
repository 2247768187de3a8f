package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNewID: ids are ULIDs in small letters, and no id repeats.
func TestNewID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // midnight of 2000-01-01
		var ids []string
		for range 100 {
			ids = append(ids, NewID("run"))
			<-time.After(time.Millisecond) // by the clock of the bubble
		}
		if first := ids[0]; !strings.HasPrefix(first, "run_00vhnczb00") || len(first) != len("run_")+26 || strings.Trim(first[4:], digits) != "" {
			t.Errorf("the first id is %q", first)
		}
		if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 100 {
			t.Errorf("out of order, or twice: %q", ids)
		}
	})
}

func TestPickID(t *testing.T) {
	t.Parallel()
	ids := []string{"chk_01m7hs7kt2e1h3yc1tgwe6sja4", "chk_01m7hs7kt2ffffffffffffsja4", "run_01m7hs7kt2gggggggggggggggg", "rcpt_01m7"}
	for ref, want := range map[string]struct {
		index int
		err   error
	}{
		ids[0]: {0, nil}, "chk_01m7hs7kt2e": {0, nil}, "run_": {2, nil}, "1h3yc": {0, nil}, "chk_1h3yc": {0, nil}, "gggg": {2, nil},
		"6sja4": {0, nil}, "chk_0": {0, ErrAmbiguous}, "sja4": {0, ErrAmbiguous}, "run_1h3yc": {0, ErrNotFound}, "1h3": {0, ErrNotFound},
		"hs7kt2": {0, ErrNotFound}, "": {0, ErrNotFound}, "chk_": {0, ErrAmbiguous}, "_": {0, ErrNotFound}, "nothing": {0, ErrNotFound},
	} {
		got, err := PickID(ids, ref)
		if !errors.Is(err, want.err) || err == nil && got != ids[want.index] {
			t.Errorf("%q: %q, %v; want %q, %v", ref, got, err, ids[want.index], want.err)
		}
	}
}

// TestIDTime reads the time of ids, also of what is none.
func TestIDTime(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	if at := IDTime(NewID("rcpt")); at.Before(before) || at.After(time.Now()) {
		t.Errorf("%v, not %v", at, before)
	}
	for _, id := range []string{"", "rcpt", "rcpt_", "rcpt_1", "rcpt_" + strings.Repeat("u", 26), strings.Repeat("0", 26)} {
		if at := IDTime(id); !at.IsZero() {
			t.Errorf("%q: %v", id, at)
		}
	}
}
