// Package egress decides about every connection and request that leaves a cell,
// and forwards the allowed ones.
//
// A [Proxy] serves the listeners that receive all connections of a cell's
// network namespace. For each connection it checks, always in this order: which
// program opened it, whether a rule lists that program with that endpoint, the
// server name in TLS, each request, and whether a credential may be sent. Then
// it forwards the connection or request to an address that has been checked. An
// upstream sees nothing of what a check refused. Only connections whose
// endpoint is `protocol: tcp` are dialled before the program has sent anything.
//
// This package never decides whether something is allowed: internal/policy
// does, so that `policy explain` and the proxy use one engine. The packages
// below this one are independent of each other and are combined here.
//
// The package must not know cells, stores, receipts, drivers or the command line.
// Everything from a cell and from an upstream is hostile to it.
package egress
