// Package origin is the host's side of package capture: it takes over the
// sockets that were made in a cell's network namespace, and finds the
// destination of each connection and the program that opened it.
//
// A program is identified by its executable, as the kernel reports it while the
// program waits in connect(2): see [Attributor.Connecting]. Its socket gets a
// mark there, which the accepted connection inherits. Where the kernel reports
// no connects, the program is the one that holds the other end when the
// connection is accepted. A script counts as its interpreter. This does not
// isolate the programs of one cell: they can start, trace and feed each other.
// It is enough for tools that do not try to deceive it.
//
// The package knows nothing of cells, policies, names or protocols. It never
// follows a path that a program of the cell could have changed: executables are
// opened by descriptor, and names are resolved beneath the cell's root without
// symbolic links, except links on mounts that the cell cannot write.
package origin
