package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/forkcell/forkcell/client"
)

// A run is a transaction: its changes are kept in the cell until they are accepted,
// and reach the directory when they are applied.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	c, err := client.New() // FORKCELL_URL, else the local socket
	if err != nil {
		panic(err)
	}
	cell, err := c.Cells.CreateFrom(ctx, dir, client.CreateCell{Name: filepath.Base(dir)})
	if err != nil {
		panic(err)
	}
	defer cell.Close(ctx)
	r, err := cell.Run(ctx, client.Run{Command: client.Shell("echo hello; date > built"), RestoreOnFail: true}, client.Stdout(os.Stdout))
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Outcome, r.ChangedFiles)
	if r.OK() {
		accepted, err := cell.Accept(ctx, client.Accept{Apply: true, Reason: "it works"})
		if err != nil {
			panic(err)
		}
		fmt.Println(accepted.Decision, accepted.Applied.Written[0].Path)
	}
	// Output:
	// hello
	// succeeded 1
	// accepted built
}

// A live cell executes any number of commands.
func ExampleCell_Exec() {
	ctx := context.Background()
	c, err := client.New()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cell, err := c.Cells.CreateFrom(ctx, dir, client.CreateCell{Name: filepath.Base(dir)})
	if err != nil {
		panic(err)
	}
	if _, err := cell.Start(ctx, client.Start{}); err != nil {
		panic(err)
	}
	defer cell.Close(ctx)
	for _, line := range []string{"echo one > file", "cat file"} {
		r, err := cell.Exec(ctx, client.Exec{Command: client.Shell(line)})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %q\n", r.ExitCode, r.Stdout)
	}
	// Output:
	// 0 ""
	// 0 "one\n"
}

// A failure has a code that programs can compare.
func ExampleHasCode() {
	c, err := client.New()
	if err != nil {
		panic(err)
	}
	_, err = c.Cells.Get(context.Background(), "unknown")
	fmt.Println(client.HasCode(err, "not_found"))
	// Output:
	// true
}
