//go:build !smallfirst

package firstprogram

// content is empty: this build has no such program.
var content []byte
