//go:build !lean

package main

import (
	"github.com/forkcell/forkcell/internal/front/cli"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// programs returns the parts that only the whole program has.
func programs() cli.Programs {
	return cli.Programs{Archives: true, Serve: daemon.Serve, MCP: daemon.MCP, Remote: daemon.Remote, UI: daemon.UI}
}
