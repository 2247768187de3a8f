// Package gvisor runs a cell's processes under a kernel of their own: gVisor's.
//
// A cell is built as the native driver builds it, with the same namespaces, mounts,
// network and limits. Its only command on the host is the runtime, forkcell-gvisor
// (the module in the directory gvisor). That holds the guest, whose root and mounts are
// those of the cell, and whose sockets are made in the cell's network namespace. The
// guest's first process (package minder) executes the cell's commands.
//
// The guest's kernel answers the system calls of commands. It stands for the filter and
// for Landlock, which commands of the native driver have besides: paths are enforced by
// mounts alone, and calls that are denied are not reported.
//
// The package knows the native driver and the contract. It must not know workspaces,
// policies, receipts or the store.
package gvisor
