// Package firstprogram holds the program that a daemon executes as the first process of
// its cells: cmd/forkcell-first. The daemon's own program can do the same, but has
// hundreds of packages more, and takes twice as long to start.
//
// A program has it if it was built with the tag smallfirst, as `make build` builds the
// daemon's. It must be of the same version as the daemon, since the messages between
// the two have no version. That is why it is a part of the daemon's program, and not a
// file beside it.
package firstprogram
