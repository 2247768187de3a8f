// Package cellinit is a cell's first process, called the init.
//
// It builds the cell from the plan that its parent sends, takes its own rights away,
// executes commands, and reaps. Everything in it runs inside the cell's namespaces;
// package native is the side of the host.
//
// The process is the whole program again, and what the package imports is initialised
// at every start of a cell. It must not import what the driver's contract is made of
// (package net above all), nor anything that knows cells, policies or stores. A test
// in internal/testkit/repo holds this.
package cellinit
