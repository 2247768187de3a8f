// Package op has the operations of the product as values: how each is called, who may do
// it, and what it does. The REST API, its document, the tools for models, the pages and
// the tables of the reference are made of them, so that a verb has its right in one place.
//
// It imports nothing of the project, and has neither schemas nor functions that do the
// work: those are where the operation is served. All values are laid out by the compiler,
// so that a program which does not use them starts no slower.
package op

import (
	"net/url"
	"slices"
	"strings"
)

// Op is one operation of the product.
type Op struct {
	// ID is the name of the operation, as SDKs use it.
	ID string
	// Method and Path are those of its request. Path has the names of its parameters in
	// braces. An operation without a method takes each.
	Method, Path string
	// Command is the command of the command line that does the same, with its arguments as
	// the names of fields in braces. "" for none.
	Command string
	Summary string
	Tag     string // the group of the API that it belongs to
	// Needs are the scopes that a caller must have, all of them. Without any the operation
	// is for all callers.
	Needs  []Scope
	Effect Effect
	// Idempotent reports that a second call with the same arguments changes nothing.
	Idempotent bool
	// Open reports that what it starts or continues can reach the network, as far as the
	// policy allows.
	Open bool
	Kind Kind
	// Status is that of success; 0 is 200.
	Status int
	// Also are statuses of errors besides the usual ones.
	Also []int
}

// Scope is a part of what a caller may do.
type Scope string

// The scopes. Each includes ScopeRead, and ScopeAdmin includes those above it.
const (
	ScopeRead   Scope = "read"   // sees
	ScopeRun    Scope = "run"    // makes and runs cells
	ScopeDecide Scope = "decide" // accepts, rejects, applies
	ScopeAdmin  Scope = "admin"  // the rest
	// ScopeUnbounded is no scope of a token. What is about a whole home needs it, and a
	// caller has it who is bound to no cells, policy or quota.
	ScopeUnbounded Scope = "unbounded"
)

// Effect says what an operation does to what a home, or a directory of the host, has.
type Effect int

// The effects.
const (
	Reads    Effect = iota
	Adds            // it changes something, and loses nothing
	Destroys        // what it removes or overwrites is lost
)

// Kind says what the request and the answer of an operation are.
type Kind int

// The kinds.
const (
	KindPlain    Kind = iota // documents
	KindEvents               // the answer is a stream of events, or can be
	KindDownload             // the answer is bytes or a text
	KindUpload               // the body is bytes
	KindSocket               // a WebSocket
	KindProxy                // both are passed on to a listener in a cell, and from there
	KindMounted              // a handler beside the API, which its document does not describe
)

// The statuses that are written more than once.
const (
	switched    = 101
	created     = 201
	accepted    = 202
	noContent   = 204
	badMethod   = 405
	tooLarge    = 413
	noRange     = 416
	upgrade     = 426
	badGateway  = 502
	lateGateway = 504
)

// At returns the path of an operation with values in place of its parameters, in their
// order. The values are escaped.
func (o Op) At(values ...string) string {
	path := o.Path
	for _, v := range values {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(v) + after
	}
	return path
}

// AllowedTo reports whether a caller may do the operation. may reports each scope that the
// caller has.
func (o Op) AllowedTo(may func(Scope) bool) bool {
	return !slices.ContainsFunc(o.Needs, func(s Scope) bool { return !may(s) })
}
