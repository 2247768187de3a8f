package repo

import (
	"regexp"
	"strings"
	"testing"
)

// TestFlakes: a test that failed and passed without a change is in the ledger, once. The
// second time it must be mended before anything else lands.
func TestFlakes(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^\d{4}-\d\d-\d\d (\S+)$`)
	seen := map[string]bool{}
	for text := range strings.Lines(read(t, ".ci/flakes")) {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		m := line.FindStringSubmatch(text)
		switch {
		case m == nil:
			t.Errorf(".ci/flakes: %q is no DAY NAME", text)
		case seen[m[1]]:
			t.Errorf(".ci/flakes: %s has failed twice without a change: mend it, and remove its lines", m[1])
		default:
			seen[m[1]] = true
		}
	}
}
