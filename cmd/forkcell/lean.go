//go:build lean

package main

import "github.com/forkcell/forkcell/internal/front/cli"

// programs returns nothing: a lean program hands over to the whole one beside it.
func programs() cli.Programs { return cli.Programs{} }
