// Package capture turns an empty network namespace into one whose every way out
// ends at sockets that are handed to the host side: all TCP connections at one
// listener, all DNS queries at others, and everything else is refused at once.
//
// The namespace has nothing but its loopback interface. Routes make every
// address of the world one of its own, so that connections to it are made and
// carried, and transparent proxying (nftables' tproxy) brings them to the
// listener with both of their addresses as they were: the listener's side of an
// accepted connection has the address that the program wanted to reach. What
// stays inside is loopback and the cell's own addresses. Because no interface
// leads out, a mistake in a rule can lose a connection, but never let one out.
//
// Redirecting by address translation, as is usual, was weighed and left: two
// sockets of the cell that share a source port, which the kernel allows when
// they go to different places, clash after translation, and the kernel then
// changes the source port of one. Its process could not be found any more.
// Translation is used for DNS over UDP alone, where it is what gives answers the
// source address that resolvers check; nothing else is tracked.
//
// The package is for a cell's first process, so it links little and computes
// nothing: the messages to the kernel are constants, which a test compares with
// what github.com/google/nftables and github.com/vishvananda/netlink make of the
// rules as written in that test. Every message must be acknowledged; anything
// else is an error and the cell must not start. The package knows nothing of
// cells, policies, names or what is done with connections. The host's side of it
// is package origin.
package capture
