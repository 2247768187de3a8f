package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		`"90s"`: 90 * time.Second, `"1h30m"`: 90 * time.Minute, `"0s"`: 0, `""`: 0,
	} {
		d := api.Duration(time.Hour)
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %s, %v", text, time.Duration(d), err)
		}
		data, err := json.Marshal(d)
		var again api.Duration
		if err != nil || json.Unmarshal(data, &again) != nil || again != d {
			t.Errorf("%s comes back as %s, %v", text, data, err)
		}
	}
	for _, text := range []string{`90`, `"90"`, `"-1s"`, `"1 h"`, `"soon"`, `{}`, `true`, `"999999999h"`} {
		if err := json.Unmarshal([]byte(text), new(api.Duration)); err == nil {
			t.Errorf("%s was understood", text)
		}
	}
}
