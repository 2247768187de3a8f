package daemon_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkExec executes true in a live cell over a kept-alive connection.
func BenchmarkExec(b *testing.B) {
	d := newDaemon(b)
	d.live("demo")
	for b.Loop() {
		resp, err := d.client.Post("http://localhost/v1/cells/demo/exec", "application/json", strings.NewReader(`{"command":["true"]}`))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		_ = resp.Body.Close()
	}
}
