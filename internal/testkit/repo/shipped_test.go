package repo

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestNoSwitchIsShipped: the names of controls are in the program only if it can
// leave controls off, which it compares with them.
func TestNoSwitchIsShipped(t *testing.T) {
	t.Parallel()
	names := []string{"lookups in the root", "workdir without magic links", "detached host root", "live directory calls"}
	for _, c := range []struct {
		file string
		want bool
	}{{program(t, programs.whole), false}, {program(t, programs.probes), true}} {
		contents, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if got := bytes.Contains(contents, []byte(name)); got != c.want {
				t.Errorf("%s: %q is there: %t", filepath.Base(c.file), name, got)
			}
		}
	}
}
