//go:build !lean

package main

import (
	"github.com/forkcell/forkcell/internal/cli"
	"github.com/forkcell/forkcell/internal/full"
)

// programs returns the parts that only the whole program has.
func programs() cli.Programs {
	return cli.Programs{Archives: true, Serve: full.Serve, MCP: full.MCP, Remote: full.Remote, UI: full.UI}
}
