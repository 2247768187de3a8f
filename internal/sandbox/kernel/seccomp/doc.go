// Package seccomp turns the deny set of internal/sandbox/kernel/syscalls into a filter that the
// kernel runs at each system call, and answers the denials that the kernel hands
// over instead of answering them itself.
//
// A filter is put on the calling thread, which is about to fork a cell's
// command; all that follows from that thread inherits it. The package knows
// nothing of cells, policies or events.
package seccomp
