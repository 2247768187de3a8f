// Package mcp offers cells to language models by the Model Context Protocol.
//
// A tool is a request of the REST API. Its arguments are the fields of the request,
// and its result is the document of the answer with a short text for the model. The
// requests go through a client that acts for the caller, so a tool does what the
// caller may do over REST, and nothing else.
//
// The package knows the protocol and the API's documents. It must not know the
// engine, tokens, or who listens where.
package mcp
