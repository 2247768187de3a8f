// Package protocol has the messages between a cell's first process and its parent.
//
// The parent sends a [Plan], with descriptors, and after it orders. The first process
// answers with reports. How messages travel: see wire.go and [Conn].
//
// Both ends link the package, and the first process must start fast: it imports
// nothing whose initialisation takes time, above all not the driver's contract, whose
// types name package net. It must not know how either end does its work.
package protocol
