// Package rest is the daemon: it serves the engine over HTTP.
//
// A request passes four places: the listener says who connects, the middleware
// decides what that caller may do, a route turns the request into a call of the
// engine, and the engine's result or error becomes the answer. Package op says how each
// operation is called and what it needs; with the types of its route that is the
// source of api/openapi.yaml.
//
// The package knows HTTP, tokens and the engine's verbs. It knows nothing of files,
// processes and databases, and reads nothing from its own process for a caller: no
// environment, no working directory, no home.
package rest
