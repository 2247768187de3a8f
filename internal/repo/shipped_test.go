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
	for tags, want := range map[string]bool{"": false, "probes": true} {
		binary := filepath.Join(t.TempDir(), "forkcell")
		goCommand(t, "build", "-buildvcs=false", "-tags", tags, "-o", binary, "./cmd/forkcell")
		program, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if got := bytes.Contains(program, []byte(name)); got != want {
				t.Errorf("built with tags %q, %q is there: %t", tags, name, got)
			}
		}
	}
}
