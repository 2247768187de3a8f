// Package race is an example: it runs the tests of a project in a cell, and races two
// attempts at fixing it. The directory that it runs in has a directory "project" with
// two scripts that fix it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/client"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := client.New() // FORKCELL_URL, else the local socket
	if err != nil {
		return err
	}
	defer c.Close()
	cell, err := c.Cells.CreateFrom(ctx, "./project", client.CreateCell{Policy: "dev"})
	if err != nil {
		return err
	}
	defer cell.Close(ctx)
	r, err := cell.Run(ctx, client.Run{Command: client.Shell("pytest -q"), RestoreOnFail: true}, client.Stdout(os.Stdout))
	if err != nil {
		return err
	}
	if r.OK() {
		if _, err := cell.Accept(ctx, client.Accept{Apply: true, Reason: "tests pass"}); err != nil {
			return err
		}
	}
	race, err := cell.Race(ctx, client.Race{
		Attempts: client.Attempts("./fix-a.sh", "./fix-b.sh"), Judge: client.Shell("pytest -q"), Keep: true,
	})
	if err != nil {
		return err
	}
	for _, a := range race.Attempts {
		stat, err := a.Diff().Stat(ctx)
		if err != nil {
			return err
		}
		fmt.Println(a.Attempt, *a.JudgeExitCode, stat)
	}
	return nil
}
