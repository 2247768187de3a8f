package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// sshdPath is where Debian and others have the server.
const sshdPath = "/usr/sbin/sshd"

// hasSSHD reports whether a server can log in the user of this process.
func hasSSHD() bool {
	_, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	_, missing := os.Stat(sshdPath)
	return err == nil && missing == nil
}

// sshd VARIABLE DIR: serves SSH at a port of loopback, which the variable gets, until
// the script ends. The directory has a file host, the server's key, and a file
// authorized, the keys that may log in as $LOGIN. The log is in DIR/log.
func sshd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sshd VARIABLE DIR")
	}
	dir := ts.MkAbs(args[1])
	config := "HostKey " + dir + "/host\nAuthorizedKeysFile " + dir + "/authorized\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n" +
		"KbdInteractiveAuthentication no\nLogLevel VERBOSE\nPidFile none\n"
	ts.Check(os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	who, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	ts.Check(err)
	ts.Setenv("LOGIN", who.Username)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { serveSSH(ctx, conn, dir) })
		}
	})
	ts.Defer(func() {
		_ = l.Close()
		cancel()
		wait.Wait()
	})
}

// serveSSH has one server serve a connection. For root it needs a directory that is
// there only when the host runs one itself.
func serveSSH(ctx context.Context, conn net.Conn, dir string) {
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer file.Close()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer log.Close()
	args := []string{sshdPath, "-i", "-e", "-f", filepath.Join(dir, "config")}
	if os.Geteuid() == 0 {
		args = append([]string{"/usr/bin/unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec "$@"`, "sh"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, log
	_ = cmd.Run() // the log says what happened
}
