// Package capture sets up an empty network namespace so that all traffic out of
// it reaches sockets of the host side: all TCP connections one listener, all
// DNS queries others. Everything else is refused at once.
//
// The namespace has only its loopback interface. Routes make every address
// local, so that connections to it can be made, and transparent proxying
// (nftables' tproxy) passes them to the listener with both addresses unchanged:
// the local address of an accepted connection is the address that the program
// connected to. Only loopback and the cell's own addresses stay inside. Because
// no interface leads out, a mistake in a rule can lose a connection but never
// let one out.
//
// The usual redirection by address translation was rejected. Two sockets of the
// cell may share a source port if they connect to different places. After
// translation they conflict, and the kernel changes the source port of one, so
// that its process can no longer be found. Translation is used only for DNS
// over UDP, where it gives answers the source address that resolvers check; no
// other traffic is tracked.
//
// The package is for a cell's first process, so it links little and computes
// nothing: the messages to the kernel are constants, which a test compares with
// what github.com/google/nftables and github.com/vishvananda/netlink make of the
// rules as written in that test. Every message must be acknowledged; anything
// else is an error and the cell must not start. The package knows nothing of
// cells, policies, names or what is done with connections. The host's side of it
// is package origin.
package capture
