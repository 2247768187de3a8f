// Package landlock takes from the calling thread what the cell's policy does not
// let it do with files, and keeps its signals and abstract sockets among its own
// descendants.
//
// The mount namespace decides what exists; this package decides what may be done
// with it, a second time and independently. It makes raw system calls on the
// calling thread only: going through all threads of a process costs a
// millisecond, and only the thread that forks a cell's command matters. The
// package knows nothing of cells, policies or paths; it is handed descriptors.
package landlock
