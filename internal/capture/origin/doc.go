// Package origin is the host's side of package capture: it takes over the
// sockets that were made in a cell's network namespace and tells of each
// connection where it wanted to go and which program opened it.
//
// A program is told by its executable, as the kernel knows it while the program
// waits in connect(2): see [Attributor.Connecting]. Its socket is given a mark
// there, which the accepted connection has too. Where the kernel reports no
// connects, the program is the one that holds the other end when the connection
// is accepted. Scripts are the interpreter that runs them. Programs of one cell
// are not kept apart by this: they can start, trace and feed each other. It serves
// to give honest tools what each of them needs.
//
// The package knows nothing of cells, policies, names or protocols. It never
// follows a path that a program of the cell could have changed: executables are
// known by descriptor, and names are resolved beneath the cell's root without
// symbolic links, save those on mounts that the cell cannot write.
package origin
