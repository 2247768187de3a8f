package driver

import (
	"net"
	"net/netip"
)

// Network is the host's side of a cell's network. The cell has no other.
type Network struct {
	// Serve begins to serve the cell's connections. It is called before any command
	// is executed. The sockets are its own, also when it fails. The driver calls
	// stop when the cell is gone.
	Serve func(Captured) (stop func(), err error)
	// Programs reports that the policy distinguishes the programs that connect.
	Programs bool
	// Socket, if not "", is the absolute path of a unix socket in the cell, whose
	// connections the host side accepts. Nothing else may be at the path or be
	// mounted in its directory.
	Socket string
	// Files are in the cell's /etc besides, or instead of, what is there; names
	// are relative to it.
	Files []File
}

// File is a small file of the cell's own.
type File struct {
	Name string
	Data []byte
}

// Captured holds the sockets at which everything arrives that a cell sends out:
// every connection, and every DNS query.
type Captured struct {
	// Connections accept the cell's TCP connections, to whatever address.
	Connections []net.Listener
	// Names accept connections to port 53 of any address, and Queries have the
	// datagrams. There is one of each for IPv4, and where the cell has IPv6 a
	// second one.
	Names   []net.Listener
	Queries []net.PacketConn
	// Local accepts connections to Network.Socket; nil without one.
	Local net.Listener
	// Origin knows where connections were to go and whose they are. It answers
	// until stop has returned.
	Origin Origin
}

// Close closes the sockets.
func (c Captured) Close() {
	for _, l := range append(c.Connections[:len(c.Connections):len(c.Connections)], c.Names...) {
		_ = l.Close() // the cell is not served any more
	}
	for _, q := range c.Queries {
		_ = q.Close()
	}
	if c.Local != nil {
		_ = c.Local.Close()
	}
}

// Origin finds the destination and the program of what a cell sends. It is safe for
// concurrent use.
type Origin interface {
	// Destination returns where an accepted connection was to go.
	Destination(c net.Conn) (Destination, error)
	// Opener returns the program that opened a connection.
	Opener(c net.Conn) (Program, error)
	// Asker returns the program that a DNS datagram came from, as far as it can be
	// found. It is good for telling, not for deciding.
	Asker(from netip.AddrPort) (Program, error)
	// Peer returns the program that opened a connection to Network.Socket, as far as it
	// can be found. It is good for telling, not for deciding.
	Peer(c net.Conn) (Program, error)
	// Resolve returns the path that a path of the cell leads to by symbolic links,
	// and fails where the cell may change one of them. Where there is nothing, or
	// nothing any more since the cell has ended, the error is fs.ErrNotExist.
	Resolve(name string) (string, error)
}

// Destination is where a connection was to go.
type Destination struct {
	// Addr is never an IPv4 address in IPv6 form.
	Addr netip.AddrPort
	// Explicit means that it is the proxy itself: the program knows of the proxy
	// and will say within the connection where it wants to go.
	Explicit bool
}

// Program is a program of the cell.
type Program struct {
	// PID is the process's number in the cell.
	PID int
	// Binary is the path of its executable in the cell.
	Binary string
	// Trusted means that the cell cannot have made the executable: only such a one
	// may match a rule that names a binary.
	Trusted bool
}

// Attempts are the functions that hear what a cell without a network tries to reach.
// Nothing changes for the cell: its connections fail as before, and its questions for
// names have no answer. A driver that cannot see attempts calls nothing. The functions
// may be called at the same time, and are not called any more when the cell is gone.
type Attempts struct {
	// Connect is called for a connection to an address outside of the cell, while the
	// program waits.
	Connect func(p Program, to netip.AddrPort, udp bool)
	// Question is called with a DNS query that nothing in the cell has answered. Its
	// bytes are the cell's, and valid only during the call.
	Question func(query []byte)
}
