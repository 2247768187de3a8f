//go:build agents

package session_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRealAgentsThroughDaemon: the same sessions are started through a daemon, over its
// socket and over TCP. A daemon takes no --resolve, so the test needs network and mount
// namespaces of its own, in which the services have their real names and ports.
func TestRealAgentsThroughDaemon(t *testing.T) {
	if os.Getenv("FORKCELL_AGENTS_ISOLATED") == "" {
		t.Skip("needs namespaces of its own: make test-agents as root makes them")
	}
	far := newFarHost(t)
	for _, p := range programs() {
		t.Run(p.name+"/socket", func(t *testing.T) {
			l := newLane(t, p, far.listen(t))
			far.trust(l)
			l.file("user/secret", p.key)
			if err := os.Chmod(l.dir+"/user/secret", 0o600); err != nil {
				t.Fatal(err)
			}
			l.forkcell("auth", "init")
			l.forkcell("auth", "set", "--agent", p.name, "--credential", p.credential, "--source", l.dir+"/user/secret")
			l.serve()
			operator := l.env
			l.env = append(operator, "FORKCELL_URL=unix:"+l.dir+"/home/api.sock")
			l.throughDaemon(func() {
				daemon := l.env
				l.env = operator // no daemon publishes for the command line
				l.publish()
				l.env = daemon
			})
		})
		t.Run(p.name+"/tcp", func(t *testing.T) {
			l := newLane(t, p, far.listen(t))
			far.trust(l)
			address := l.serve("--listen", "127.0.0.1:0", "--allow-agent", p.name)
			l.file("token", l.forkcell("token", "create", "--quiet", "--name", "ada", "--scope", "run", "--scope", "decide"))
			if err := os.Chmod(l.dir+"/token", 0o600); err != nil {
				t.Fatal(err)
			}
			l.env = append(l.env, "FORKCELL_HOME="+l.dir+"/here", "FORKCELL_URL=http://"+address, "FORKCELL_TOKEN_FILE="+l.dir+"/token")
			l.given = []string{"--credential", p.credential + "=env:" + p.variable}
			l.throughDaemon(l.publish)
		})
	}
}

// throughDaemon is a whole session. Only agents that tell about their tools are taken
// back: the others take minutes.
func (l *lane) throughDaemon(publish func()) {
	l.t.Helper()
	l.session()
	if l.p.tools {
		l.rewind(l.checkTurns())
	}
	l.checks(publish)
}

// serve starts a daemon, which ends with the test, and returns its last address.
func (l *lane) serve(args ...string) string {
	l.t.Helper()
	log, err := os.Create(l.dir + "/daemon.log")
	if err != nil {
		l.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(l.t.Context()), os.Getenv("FORKCELL_BIN"), append([]string{"serve", "--listen", "unix:" + l.dir + "/home/api.sock"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = l.dir, l.env, log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		if err := cmd.Wait(); err != nil || l.t.Failed() {
			text, _ := os.ReadFile(l.dir + "/daemon.log")
			l.t.Logf("the daemon: %v\n%s", err, text)
		}
	})
	ready := make([]byte, 4096)
	n, err := out.Read(ready)
	if err != nil {
		l.t.Fatal(err)
	}
	fields := strings.Fields(string(ready[:n]))
	return fields[len(fields)-1]
}

// farHost is a network namespace with the services, one hop away. Its address is a public
// one, which a daemon reaches as it would reach the services.
type farHost struct{ work chan func() }

const (
	nearAddress = "99.0.0.1/24"
	farAddress  = "99.0.0.2"
)

func newFarHost(t *testing.T) *farHost {
	t.Helper()
	f := &farHost{make(chan func())}
	thread := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocks it: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		thread <- unix.Gettid()
		for do := range f.work {
			do()
		}
	}()
	t.Cleanup(func() { close(f.work) })
	ip(t, "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", strconv.Itoa(<-thread))
	ip(t, "address", "add", nearAddress, "dev", "near")
	ip(t, "link", "set", "near", "up")
	f.do(func() {
		ip(t, "address", "add", farAddress+"/24", "dev", "far")
		ip(t, "link", "set", "far", "up")
	})
	var names []string
	for _, p := range programs() {
		names = append(names, p.hosts...)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+farAddress+" "+strings.Join(names, " ")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bind(t, hosts, "/etc/hosts")
	return f
}

// do calls a function in the namespace.
func (f *farHost) do(fn func()) {
	done := make(chan struct{})
	f.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}

// listen returns a listener for a service.
func (f *farHost) listen(t *testing.T) (l net.Listener) {
	t.Helper()
	var err error
	f.do(func() { l, err = net.Listen("tcp", farAddress+":443") })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// trust makes the authority of a service the only one of this host.
func (f *farHost) trust(l *lane) {
	l.t.Helper()
	bind(l.t, l.dir+"/ca.pem", "/etc/ssl/certs/ca-certificates.crt")
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// ip runs ip(8) in the namespace of this thread.
func ip(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ip", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("ip %q: %v\n%s", args, err, out.String())
	}
}
