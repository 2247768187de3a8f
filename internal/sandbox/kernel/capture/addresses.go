package capture

// Port is the port of all sockets of this package, which have separate
// addresses. While they exist, a program of the cell that binds the wildcard
// address gets EADDRINUSE for this one port, as for any port in use; binding
// loopback or the cell's own address to it works. The port is above the
// kernel's ephemeral range and is not registered.
const Port = 64753

// The addresses are from ranges that are reserved for documentation (RFC 5737,
// RFC 3849). No host has them, so they hide no address that a policy could
// name. A private range could.
const (
	// Own4 and Own6 are the cell's own addresses, the source of its
	// connections. They stay inside the cell, as loopback does.
	Own4 = "192.0.2.2"
	Own6 = "2001:db8::2"
	// Proxy4 and Proxy6 are the addresses of the listener for connections. With
	// [Port], they are the proxy settings for clients that need them.
	Proxy4 = "192.0.2.1"
	Proxy6 = "2001:db8::1"
	// Resolver4 and Resolver6 are the addresses for resolv.conf. Queries to any
	// other address outside the cell are answered as well.
	Resolver4 = "192.0.2.53"
	Resolver6 = "2001:db8::53"
)

// address is one of the above in the kernel's form. Package netip is not used,
// because it adds initialization at the start of the process.
type address struct {
	six  bool
	host byte
}

func (a address) as4() [4]byte { return [4]byte{192, 0, 2, a.host} }

func (a address) as16() [16]byte {
	return [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: a.host}
}

func proxy(six bool) address { return address{six, 1} }

// resolver returns the address of the resolver in one of the families. Its last
// part reads 53 in both: decimal in IPv4, hexadecimal in IPv6.
func resolver(six bool) address {
	if six {
		return address{six, 0x53}
	}
	return address{six, 53}
}
