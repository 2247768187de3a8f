// Package shim is the program in a cell that is named as a package manager: it asks the
// cell's first process to execute that package manager as the cell's root, and ends as
// it does.
//
// It runs as any command of the cell, and is trusted as little. It must not know what
// the first process decides.
package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/packages"
)

// Manager returns the package manager that a program with these arguments was executed
// as.
func Manager(args []string) (packages.Manager, bool) {
	if len(args) == 0 {
		return packages.Manager{}, false
	}
	m, known := packages.Find(filepath.Base(args[0]))
	if !known {
		return m, false
	}
	self, err := os.Executable()
	return m, err == nil && self == packages.Dir+"/"+m.Name
}

// failed is the exit code when a package manager was not executed.
const failed = 126

// Main asks for a package manager with these arguments, and returns its exit code.
func Main(m packages.Manager, args []string) int {
	if m.ReadsOnly(args) {
		for _, path := range m.Paths {
			_ = unix.Exec(path, append([]string{m.Name}, args...), os.Environ()) // returns only if it is not there
		}
	}
	code, err := ask(m, args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: not run as root in the cell: %v\n", m.Name, err)
		return failed
	}
	return code
}

func ask(m packages.Manager, args []string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	conn, err := protocol.NewConn(fd)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: packages.Socket}); err != nil {
		return 0, err
	}
	call := &protocol.PackageCall{
		Args: protocol.Bytes(append([]string{m.Name}, args...)), Env: protocol.Bytes(packages.Environment(os.Environ())), Workdir: []byte(dir),
	}
	if err := conn.Write(call, int(os.Stdin.Fd()), int(os.Stdout.Fd()), int(os.Stderr.Fd())); err != nil {
		return 0, err
	}
	var end protocol.PackageEnd
	if _, err := conn.Read(&end); err != nil {
		return 0, err
	}
	if end.Problem != "" {
		return 0, errors.New(end.Problem)
	}
	status := unix.WaitStatus(end.Status)
	if status.Signaled() {
		const bySignal = 128
		return bySignal + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}
