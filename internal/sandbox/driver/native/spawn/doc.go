// Package spawn starts a process in new namespaces: the first process of a cell,
// or one that starts those of the cell's branches.
//
// It knows nothing of plans and cells.
package spawn
