// Package cli is the command line: flags in, text or JSON out, and one exit
// code.
//
// It holds no logic of the transaction: every command turns its flags into one
// request to the engine and prints what comes back. It knows the engine by the
// interfaces in engine.go only, never a backend, a driver or the store, and it
// prints nothing that came from outside without passing it through package
// quote.
package cli
