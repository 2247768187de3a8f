package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// showTime returns a time for people, in UTC.
func showTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// ago returns how long ago a time is, in its largest unit.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "never"
	case d < 10*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// showBytes returns a size for people.
func showBytes(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), ""
	for _, u := range units {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if v >= 100 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// showMicros returns a duration in microseconds for people.
func showMicros(us int64) string { return showDuration(time.Duration(us) * time.Microsecond) }

func showDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// elapsed returns how long a run took, or "running".
func elapsed(r api.RunInfo) string {
	if r.FinishedAt == nil {
		return "running"
	}
	return showDuration(r.FinishedAt.Sub(r.StartedAt))
}

// short returns an id for people: its kind and the first characters.
func short(id string) string {
	kind, rest, found := strings.Cut(id, "_")
	if !found || len(rest) <= 10 {
		return id
	}
	return kind + "_" + rest[:10]
}

// shortHash returns the first characters of a hash.
func shortHash(hash string) string {
	hash = strings.TrimPrefix(hash, "sha256:")
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

// badge is a word with a sign and the class of its colour. The word says everything:
// sign and colour only repeat it.
type badge struct{ Class, Sign, Word string }

// mark returns the badge of an outcome, a decision, a state or a kind of change.
func mark(word string) badge {
	signs := map[string][2]string{
		"succeeded": {"good", "✓"}, "accepted": {"good", "✓"}, "partial": {"good", "◐"}, "added": {"good", "+"}, "allowed": {"good", "✓"}, "ok": {"good", "✓"},
		"active": {"good", "✓"}, "verified": {"good", "✓"}, "works": {"good", "✓"},
		"failed": {"bad", "✕"}, "rejected": {"bad", "✕"}, "killed": {"bad", "✕"}, "error": {"bad", "!"}, "deleted": {"bad", "−"}, "denied": {"bad", "✕"},
		"timed_out": {"bad", "◷"}, "mismatch": {"bad", "!"}, "unreadable": {"bad", "!"}, "revoked": {"bad", "✕"}, "missing": {"bad", "✕"}, "fails": {"bad", "✕"},
		"pending": {"wait", "●"}, "interrupted": {"wait", "‖"}, "degraded": {"wait", "!"}, "expired": {"wait", "◷"}, "type": {"wait", "!"},
		"running": {"live", "▸"}, "live": {"live", "▸"}, "paused": {"live", "‖"},
		"restored": {"calm", "↺"}, "renamed": {"calm", "→"}, "modified": {"calm", "~"}, "mode": {"calm", "#"}, "idle": {"calm", "○"},
	}
	if s, ok := signs[word]; ok {
		return badge{s[0], s[1], strings.ReplaceAll(word, "_", " ")}
	}
	return badge{"calm", "○", word}
}
