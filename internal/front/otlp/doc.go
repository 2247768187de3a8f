// Package otlp sends spans to an OpenTelemetry collector: OTLP over HTTP, in the
// binary form of protobuf.
//
// It knows spans and the address of a collector. It must not know requests, cells or
// runs.
package otlp
