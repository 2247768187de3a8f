// Package native runs a cell's processes in namespaces of this kernel.
//
// A [Driver] makes the mounts of a cell and starts this same binary again as the
// cell's first process (package cellinit). That process builds the cell from a plan
// that its parent sends, takes its own rights away, and executes commands. The
// two speak over a socket pair (package protocol).
//
// The package knows processes, the kernel's controls and a mount description. It
// must not know workspaces, policies, receipts or the store.
package native
