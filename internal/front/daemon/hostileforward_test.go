package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/cli"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// TestHostileForward: what a daemon says at the end of a connection to a port does not draw.
func TestHostileForward(t *testing.T) {
	t.Parallel()
	for _, reason := range []websocket.StatusCode{websocket.StatusInternalError, websocket.StatusGoingAway} {
		hostile := httptest.NewServer(endsConnections(t, reason))
		t.Cleanup(hostile.Close)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		t.Cleanup(stop)
		from, out := io.Pipe()
		args := []string{"--url", hostile.URL, "--home", t.TempDir(), "port-forward", "demo", "0:80", "--raw"}
		go func() {
			cli.Main(ctx, args, cli.Streams{In: strings.NewReader(""), Out: out, Err: out}, openNone, cli.Programs{Remote: daemon.Remote}, "v0-test")
			_ = out.Close()
		}()
		lines := bufio.NewReader(from)
		first, err := lines.ReadString('\n')
		address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(first)
		if err != nil || address == "" {
			t.Fatal(first, err)
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := lines.ReadString('\n')
		_ = conn.Close()
		stop()
		rest, _ := io.ReadAll(lines)
		text := first + said + string(rest)
		if !strings.Contains(text, "evil") {
			t.Errorf("%d: nothing of the reason is shown: %q", reason, text)
		}
		if at := strings.IndexFunc(text, draws); at >= 0 || strings.Contains(text, "\nFORGED") {
			t.Errorf("%d: port-forward writes %q", reason, text)
		}
	}
}

// endsConnections is a daemon with a live cell. It ends each connection to a port at once.
func endsConnections(t *testing.T, reason websocket.StatusCode) http.HandlerFunc {
	t.Helper()
	status, err := json.Marshal(api.StatusResult{CellInfo: api.CellInfo{Name: "demo"}, Live: &api.LiveInfo{RunID: "run_1"}})
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/forward") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(status)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"forkcell.exec.v1"}})
		if err == nil {
			_ = conn.Close(reason, drawing)
		}
	}
}
