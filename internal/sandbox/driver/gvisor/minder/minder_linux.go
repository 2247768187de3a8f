// Package minder is the first process of a gVisor guest: it executes the commands of a
// cell and carries their streams.
//
// Orders come over its standard input and reports go to its standard output (package
// frames), because that is the only connection with the host that a guest keeps when it
// is saved and restored. The commands themselves are executed by package cellinit, as
// in a cell without a guest.
//
// It is linked into every first process, and knows nothing of the host's side.
package minder

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// Path is where the program is in a guest.
const Path = "/.forkcell/minder"

// IsMinder reports whether this process was started as a guest's first process.
func IsMinder() bool { return len(os.Args) == 1 && os.Args[0] == Path && os.Getpid() == 1 }

// Main is the guest's first process. Package first calls it on the main thread, and it
// does not return.
func Main() {
	runtime.LockOSThread()
	host := frames.New(os.Stdin, os.Stdout, frames.MaxToGuest)
	var g protocol.Guest
	if err := readGreeting(host, &g); err != nil {
		fail(err)
	}
	own, theirs, err := pair()
	if err != nil {
		fail(err)
	}
	r := &relay{host: host, executor: own, commands: map[uint32]*command{}}
	go r.readReports()
	go r.readFrames()
	cellinit.ServeGuest(theirs, &g)
}

// pair connects the relay with the executor of the same process.
func pair() (own, theirs *protocol.Conn, err error) {
	own, other, err := protocol.SocketPair()
	if err != nil {
		return nil, nil, err
	}
	defer other.Close()
	fd, err := unix.FcntlInt(other.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs, err = protocol.NewConn(fd)
	return own, theirs, err
}

// readGreeting reads what the host says first.
func readGreeting(host *frames.Conn, g *protocol.Guest) error {
	f, err := host.Read()
	if err == nil && f.Kind != frames.Hello {
		err = frames.ErrMalformed
	}
	if err != nil {
		return err
	}
	return protocol.Decode(f.Data, g)
}

// fail ends the guest. Who started the runtime reads what stands on its standard error.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "the guest's first process:", err)
	os.Exit(1)
}
