package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// TestPeers connects to the socket of a daemon as another user, after its mode was
// opened for all. The uid that the kernel knows decides.
func TestPeers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	const curl = "/usr/bin/curl"
	if _, err := os.Stat(curl); err != nil {
		t.Skip(err)
	}
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(d.home)
	socket := filepath.Join(dir, "open.sock")
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "unix:" + socket}})
	for path, mode := range map[string]os.FileMode{dir: 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for uid, want := range map[uint32]string{0: "200", 65534: "401"} {
		cmd := exec.CommandContext(t.Context(), curl, "-sS", "--unix-socket", socket, "-o", "/dev/null", "-w", "%{http_code}", "http://localhost/v1/cells")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("uid %d: %v, %s, want %s", uid, err, out, want)
		}
	}
}
