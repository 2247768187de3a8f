// Package api is the vocabulary of Forkcell: what can be asked for, what comes
// back, and how it can fail. It is plain data with JSON tags.
//
// The command line, the protocol of live cells and the engine share these values.
// The package imports nothing of the project and does nothing.
package api
