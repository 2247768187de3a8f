package transfer

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
)

// TestHostileList: a program in a cell answers with as many and as long names as it likes.
// The daemon holds a list in memory, and takes what the kernel allows, up to 8 MiB.
func TestHostileList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, target int // lengths
		most         int // bytes that are held
	}{
		"long names":   {64_000, 0, 0},
		"long targets": {1, 64_000, 0},
		"many names":   {4_000, 0, files.MaxList},
		"many targets": {1, 4_000, files.MaxList},
		"short names":  {10, 0, files.MaxList},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, taken := 0, 0
			each := boundedList("/w", func(i api.FileInfo) error {
				held += len(i.Path) + len(*i.Target)
				taken++
				return nil
			})
			info := api.FileInfo{Path: strings.Repeat("x", c.path), Mode: "0644", Type: "file"}
			target := strings.Repeat("x", c.target)
			var err error
			for range 4 * files.MaxEntries {
				info.Target = &target
				if err = each(info); err != nil {
					break
				}
			}
			if err == nil || held > c.most || taken > files.MaxEntries {
				t.Errorf("%v after %d entries with %d bytes", err, taken, held)
			}
		})
	}
}
