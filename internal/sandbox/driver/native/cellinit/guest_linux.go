package cellinit

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// ServeGuest executes the commands of a cell whose programs are held by another kernel
// than the host's. That kernel stands for the filter of system calls, and the mounts of
// the cell are made. It answers with a report as the first process of a cell does, and
// does not return. It must be called on the main thread.
//
// The main thread stays the guest's root: not every kernel protects the first process
// from signals of its own user. Commands are forked from another one, which is as weak
// as they are.
func ServeGuest(c *protocol.Conn, g *protocol.Guest) {
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0); no != 0 {
		giveUp(c, fault.At("the guest's root", no))
	}
	go func() {
		runtime.LockOSThread()
		if err := weakenGuest(g); err != nil {
			giveUp(c, err)
		}
		if err := c.Write(&protocol.Report{Kind: protocol.Built}); err != nil {
			os.Exit(1)
		}
		newExecutor(c, protocol.Without{}, false, nil).serve()
	}()
	select {}
}

// weakenGuest takes everything from the calling thread that commands must not have.
func weakenGuest(g *protocol.Guest) error {
	id := g.ID
	id.Root = true // the thread has to change its user, also for an ordinary caller
	if err := becomeSandbox(id, false, protocol.Without{}); err != nil {
		return err
	}
	return plainProcess(protocol.Guard{OpenFiles: g.OpenFiles}, protocol.Without{})
}

// giveUp reports why there is no guest, and ends it. The other end of the connection is
// in this process, and hands the report on before it closes its end.
func giveUp(c *protocol.Conn, err error) {
	_ = c.Write(protocol.Failure(err)) // a parent that does not listen is gone
	_, _ = c.Read(&protocol.Order{})
	os.Exit(1)
}
