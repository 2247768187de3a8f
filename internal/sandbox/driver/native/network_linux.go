package native

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/origin"
)

// describeNetwork describes the network of a cell in its receipt.
const describeNetwork = "captured: every connection and DNS query is decided on the host side; nothing else leaves"

// network is a cell's network while it is served.
type network struct {
	sockets    *origin.Sockets
	attributor *origin.Attributor
	stop       func()
}

// serveNetwork calls Network.Serve with the cell's sockets, before anything can use
// them. Watched means that the kernel reports calls of connect(2).
func (c *Cell) serveNetwork(fds []int, watched bool) error {
	if c.serve == nil {
		return c.hearQuestions(fds)
	}
	if len(fds) == 0 {
		return errors.New("the init sent no sockets")
	}
	fds, local, err := takeLocal(fds, c.serve.Socket)
	if err != nil {
		return err
	}
	n, err := newNetwork(fds, c.pid)
	if err != nil {
		if local != nil {
			_ = local.Close()
		}
		return err
	}
	if err := c.borrow(c.pid); watched && err != nil {
		watched = false
		c.degraded = append(c.degraded, fmt.Sprintf("network: %v; programs are looked for when a connection is accepted", err))
	}
	if watched {
		n.attributor.Watch()
	}
	n.stop, err = c.serve.Serve(driver.Captured{
		Connections: n.sockets.Proxy, Names: n.sockets.DNS, Queries: n.sockets.DNSPackets, Local: local, Origin: cellOrigin{n.attributor},
	})
	if err != nil {
		n.close()
		return err
	}
	c.network = n
	return nil
}

// takeLocal takes the listener of the cell's socket, the last of the descriptors. nil
// is a cell without one. After an error all are closed.
func takeLocal(fds []int, socket string) ([]int, net.Listener, error) {
	if socket == "" {
		return fds, nil, nil
	}
	last := len(fds) - 1
	f := os.NewFile(uintptr(fds[last]), "socket")
	defer f.Close() // FileListener duplicates it
	l, err := net.FileListener(f)
	if err != nil {
		mountfd.CloseAll(fds[:last])
		return nil, nil, fmt.Errorf("the cell's socket: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its path is one of the cell
	}
	return fds[:last], l, nil
}

// newNetwork takes over the sockets of a cell, also when it fails.
func newNetwork(fds []int, initPID int) (*network, error) {
	sockets, err := origin.Open(fds)
	if err != nil {
		return nil, err
	}
	attributor, err := origin.NewAttributor(sockets, initPID)
	if err != nil {
		return nil, errors.Join(err, sockets.Close())
	}
	return &network{sockets: sockets, attributor: attributor}, nil
}

// close ends the service. What cannot be closed belongs to a cell that is gone, or
// was closed by who served it.
func (n *network) close() {
	if n == nil {
		return
	}
	if n.stop != nil {
		n.stop()
	}
	_ = n.attributor.Close()
	_ = n.sockets.Close()
}

// cellOrigin implements driver.Origin.
type cellOrigin struct{ a *origin.Attributor }

func (o cellOrigin) Destination(c net.Conn) (driver.Destination, error) {
	d, err := origin.DestinationOf(c)
	return driver.Destination(d), err
}

func (o cellOrigin) Opener(c net.Conn) (driver.Program, error) { return program(o.a.Of(c)) }

func (o cellOrigin) Asker(from netip.AddrPort) (driver.Program, error) {
	return program(o.a.Asker(from))
}

func (o cellOrigin) Peer(c net.Conn) (driver.Program, error) {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return driver.Program{}, errors.New("no connection to a unix socket")
	}
	return program(o.a.Peer(conn))
}

func (o cellOrigin) Resolve(name string) (string, error) { return o.a.Resolve(name) }

func program(p origin.Process, err error) (driver.Program, error) {
	if err != nil {
		return driver.Program{}, err
	}
	return driver.Program{PID: p.PID, Binary: p.Binary, Trusted: p.IsTrusted()}, nil
}
