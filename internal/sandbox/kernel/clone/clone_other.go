//go:build !(linux && amd64)

package clone

// A cell's first process is made by assembly, which exists for Linux on amd64.
// Package receipt builds everywhere.
var _ = forkcellRunsOnLinuxAMD64Only
