package receipt

import (
	"os/exec"
	"strings"
	"testing"
)

// A verifier that imports this package must not get the sandbox with it.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	allowed := []string{
		"github.com/forkcell/forkcell/receipt",
		"github.com/cloudflare/circl/", // signatures without tables made at the start
		"golang.org/x/crypto/cryptobyte",
		"golang.org/x/crypto/cryptobyte/asn1",
		"golang.org/x/sys/cpu", // these three of circl
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		first, _, _ := strings.Cut(path, "/")
		if !strings.Contains(first, ".") || path == "" {
			continue // the standard library
		}
		ok := false
		for _, prefix := range allowed {
			ok = ok || path == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(path, prefix)
		}
		if !ok {
			t.Errorf("receipt depends on %s", path)
		}
	}
}
