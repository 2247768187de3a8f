// Package op has the operations of the product as values: how each is called, who may do
// it, and what it does. The REST API, its document, the tools for models, the pages and
// the tables of the reference are made of them, so that a verb has its right in one place.
//
// It imports the vocabulary of requests and results only, and has no schemas. All values
// are laid out by the compiler, so that a program which does not use them starts no slower.
package op

import (
	"context"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Op is an operation whose request is a document of the type In, and whose answer is one of
// the type Out. Streams, sockets and uploads are a Verb alone.
//
// The fields of In say by their tags where a request has them: path, query, or json for the
// body. One with the tag json:"-" and no other is not part of a request over the API.
type Op[In, Out any] struct {
	Verb

	// Do carries it out. It is nil for an operation that depends on more of the caller than
	// the engine knows: then the front that serves it has the function.
	Do func(Engine, context.Context, In) (*Out, error)
}

// Any is an operation, whatever its request and its answer.
type Any interface {
	// Head returns how it is called, and who may do it.
	Head() Verb
}

// Request returns the type of its request.
func (o Op[In, Out]) Request() reflect.Type { return reflect.TypeFor[In]() }

// Verb says how an operation is called, and who may do it.
type Verb struct {
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
	// Moment reports that the request can name the revision of the cell that the caller has
	// seen (If-Match). It is refused if the cell has another one.
	Moment bool
	// Takes reports that a caller whose quota has no disk space left is refused before the
	// engine is asked. Other operations that take some ask for it themselves: they know how
	// much, or hold it while they work.
	Takes bool
	Kind  Kind
	// Status is that of success; 0 is 200.
	Status int
	// Also are statuses of errors besides the usual ones.
	Also []int
}

// Head implements Any.
func (o Verb) Head() Verb { return o }

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
func (o Verb) At(values ...string) string {
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
func (o Verb) AllowedTo(may func(Scope) bool) bool {
	return !slices.ContainsFunc(o.Needs, func(s Scope) bool { return !may(s) })
}
