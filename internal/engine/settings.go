package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The bounds of settings.
const (
	maxLabels     = 64
	maxLabelKey   = 63
	maxLabelValue = 255
	minTimeLimit  = time.Second
	maxTimeLimit  = 10 * 365 * 24 * time.Hour
)

// newSettings checks the settings of a new cell, and adds them to those that it
// inherits.
func newSettings(inherited map[string]string, s api.Settings) (store.Settings, error) {
	labels := maps.Clone(inherited)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.Labels)
	out := store.Settings{
		Labels: labels, TTL: time.Duration(s.TTL), IdleTimeout: time.Duration(s.IdleTimeout), OnTimeout: s.OnTimeout,
	}
	return out, checkSettings(out)
}

func checkSettings(s store.Settings) error {
	if len(s.Labels) > maxLabels {
		return api.Usagef("", "a cell has at most %d labels", maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		if err := checkLabel(key, s.Labels[key]); err != nil {
			return err
		}
	}
	if err := checkTimeLimit("ttl", s.TTL); err != nil {
		return err
	}
	if err := checkTimeLimit("idle_timeout", s.IdleTimeout); err != nil {
		return err
	}
	switch s.OnTimeout {
	case "", api.OnTimeoutStop, api.OnTimeoutPause, api.OnTimeoutRemove:
		return nil
	}
	return api.Usagef("one of stop, pause, remove", "unknown on_timeout %s", quote.Arg(s.OnTimeout))
}

func checkLabel(key, value string) error {
	if !isLabelKey(key) {
		return api.Usagef(fmt.Sprintf("use 1 to %d of a-z A-Z 0-9 . _ - / and begin and end with a letter or digit", maxLabelKey),
			"bad label key %s", quote.Arg(key))
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(value) > maxLabelValue || !utf8.ValidString(value) || strings.IndexFunc(value, hidden) >= 0 {
		return api.Usagef(fmt.Sprintf("use at most %d bytes of printable text", maxLabelValue), "bad value of label %s", key)
	}
	return nil
}

func isLabelKey(key string) bool {
	if key == "" || len(key) > maxLabelKey {
		return false
	}
	for i := range len(key) {
		ch := key[i]
		plain := ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9'
		inside := i > 0 && i < len(key)-1 && strings.IndexByte("._-/", ch) >= 0
		if !plain && !inside {
			return false
		}
	}
	return true
}

func checkTimeLimit(name string, d time.Duration) error {
	if d != 0 && (d < minTimeLimit || d > maxTimeLimit) {
		return api.Usagef("", "%s must be from %s to %s", name, minTimeLimit, maxTimeLimit)
	}
	return nil
}
