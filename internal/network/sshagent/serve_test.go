package sshagent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/network/sshkey"
)

// listen serves an agent at a socket, until the test ends.
func (s *scene) listen(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := filepath.Join(dir, "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.agent.Serve(ctx, l, func(net.Conn) (int, string) { return 7, "/usr/bin/ssh" })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return at
}

func dial(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// talk sends a message and returns the answer.
func talk(conn net.Conn, message []byte) ([]byte, error) {
	if _, err := conn.Write(frame(message)); err != nil {
		return nil, err
	}
	return hear(conn)
}

// hear reads an answer.
func hear(conn net.Conn) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// TestLimits: messages that are empty or too large end a connection, one that waits too
// long ends, and only so many are served at a time.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.agent.limits.connections = 2
	at := s.listen(t)
	for _, head := range []uint32{0, maxMessage + 1, 1 << 31} {
		conn := dial(t, at)
		if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, head)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%d: %v", head, err)
		}
	}
	if d := s.last(); d.PID != 7 || d.Binary != "/usr/bin/ssh" || d.Allowed || d.Reason != errTooLarge.Error() {
		t.Errorf("%+v", d)
	}
	first, second, third := dial(t, at), dial(t, at), dial(t, at)
	for _, conn := range []net.Conn{first, second} {
		if answer, err := talk(conn, []byte{requestIdentities}); err != nil || answer[0] != identitiesAnswer {
			t.Fatalf("%x, %v", answer, err)
		}
	}
	if err := third.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if answer, err := talk(third, []byte{requestIdentities}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a third connection was served: %x, %v", answer, err)
	}
	_ = first.Close()
	if err := third.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if answer, err := hear(third); err != nil || answer[0] != identitiesAnswer {
		t.Errorf("%x, %v", answer, err)
	}
}

// TestIdle: a connection that sends nothing, or half a message, ends.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.agent.limits.idle, s.agent.limits.message = time.Millisecond, time.Millisecond
	at := s.listen(t)
	for _, part := range [][]byte{nil, {0, 0}, {0, 0, 0, 9, requestIdentities}} {
		conn := dial(t, at)
		_, _ = conn.Write(part) // the agent may have ended it already
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%x was answered", part)
		}
	}
}

// TestRate: requests wait when there are too many.
func TestRate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.agent.limits.rate, s.agent.limits.burst = 0.0001, 4
	at := s.listen(t)
	conn := dial(t, at) // which counts, too
	for range 3 {
		if _, err := talk(conn, []byte{requestIdentities}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if answer, err := talk(conn, []byte{requestIdentities}); err == nil {
		t.Errorf("a fourth request was answered: %x", answer)
	}
	before := len(s.decisions())
	bad := dial(t, at)
	if _, err := bad.Write(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if err := bad.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || len(s.decisions()) != before {
		t.Errorf("an empty request was decided about at once: %v", err)
	}
}

// TestUpstream: a key of the operator's agent signs, and only that with the fingerprint
// is found.
func TestUpstream(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil {
		t.Skip("ssh-keygen needs a user with a name: ", err)
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "key")
	daemon := exec.CommandContext(t.Context(), "ssh-agent", "-D", "-a", socket)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	if _, err := out.Read(make([]byte, 64)); err != nil { // it listens
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", file}, {"ssh-add", "-q", file}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, text)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	private, err := sshkey.ParsePrivate(text)
	if err != nil {
		t.Fatal(err)
	}
	upstream := Upstream{Socket: socket}
	key, err := upstream.Key(t.Context(), private.Public().Fingerprint())
	if err != nil || !bytes.Equal(key.Blob(), private.Public().Blob()) {
		t.Fatalf("%v", err)
	}
	s := newScene(t)
	bind := bindRequest(s.host.Public(), s.host, s.session, 0)
	signature, err := key.Sign(t.Context(), bind, []byte("data"), sshkey.RSASHA512)
	if err != nil || private.Public().Verify([]byte("data"), signature) != nil {
		t.Errorf("%v, %x", err, signature)
	}
	if _, err := upstream.Key(t.Context(), s.key.Public().Fingerprint()); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
	if _, err := (Upstream{Socket: socket + "x"}).Key(t.Context(), ""); err == nil {
		t.Error("an agent that is not there")
	}
}
