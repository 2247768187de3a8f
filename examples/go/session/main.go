// Package session is an example: it starts an agent on a project, tells it what to do,
// and takes back what it did last. The directory that it runs in has a directory
// "project". A shell stands for the agent; with one that is installed, such as claude,
// its name stands in place of generic, and the arguments are its own.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

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
	cell, err := c.Cells.CreateFrom(ctx, "./project", client.CreateCell{Name: "agent-go"})
	if err != nil {
		return err
	}
	session, err := c.Sessions.Start(ctx, client.CreateSession{
		Cell: cell.Name, Agent: "generic", AllowNonGit: true,
		SessionSettings: client.SessionSettings{Arguments: []string{"sh"}, Turns: "1s"},
	})
	if err != nil {
		return err
	}
	for turn, line := range []string{"./fix-b.sh", "rm roman.py"} {
		if _, err := session.Send(ctx, client.Send{Message: line}); err != nil {
			return err
		}
		if err := waitFor(ctx, session, turn+1); err != nil {
			return err
		}
	}
	back := 1
	if _, err := session.Rewind(ctx, client.Rewind{To: &back, Reason: "it removed the program"}); err != nil {
		return err
	}
	ended, err := session.Stop(ctx, client.StopSession{})
	if err != nil {
		return err
	}
	fmt.Println(ended.SessionID, ended.Status)
	stat, err := session.Cell().Diff(client.States{From: ended.Began, To: ended.Head}).Stat(ctx)
	fmt.Println(stat)
	return err
}

// waitFor waits until a turn is recorded.
func waitFor(ctx context.Context, session *client.Session, wanted int) error {
	for {
		for turn, err := range session.Turns(ctx) {
			if err != nil || turn.Turn == wanted {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
