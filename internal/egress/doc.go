// Package egress decides about every connection and request that leaves a cell,
// and forwards the allowed ones.
//
// A [Proxy] serves the listeners to which a cell's network namespace brings all
// connections. For each one it asks, in this order and never in another: which
// program opened it, whether a rule lists that program with that endpoint, what
// it says in TLS, what each request on it asks for, whether a credential may go
// along; then it is forwarded, to an address that has been checked. An upstream
// sees nothing of what one of these questions refused; only connections whose
// endpoint is `protocol: tcp` are dialled before the program has said anything.
//
// Whether something is allowed is never decided here: internal/policy does, so
// that `policy explain` and the proxy are one engine. What the packages below
// this one do, each for itself, is put together here.
//
// The package must not know cells, stores, receipts, drivers or the command line.
// Everything from a cell and from an upstream is hostile to it.
package egress
