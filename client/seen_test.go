package client_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/client"
)

// TestAcceptWhatWasSeen: a cell accepts what its caller has seen of it, by each way to look,
// and not what another client did meanwhile.
func TestAcceptWhatWasSeen(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(context.Context, *client.Cell) error{
		"changes": func(ctx context.Context, c *client.Cell) error {
			_, err := c.Diff(client.States{}).Changes(ctx)
			return err
		},
		"stat": func(ctx context.Context, c *client.Cell) error {
			_, err := c.Diff(client.States{}).Stat(ctx)
			return err
		},
		"patch": func(ctx context.Context, c *client.Cell) error {
			_, err := c.Diff(client.States{}).Patch(ctx)
			return err
		},
		"run": func(ctx context.Context, c *client.Cell) error {
			_, err := c.Run(ctx, client.Run{Command: client.Shell("touch more")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, c, dir := t.Context(), connect(t), project(t)
			cell := did[*client.Cell](t)(c.Cells.CreateFrom(ctx, dir, client.CreateCell{Name: "seen-" + name}))
			removeAfter(t, c, cell.Name)
			touch := func(at *client.Cell, file string) string {
				return did[*client.RunAnswer](t)(at.Run(ctx, client.Run{Command: client.Shell("touch " + file)})).RunID
			}
			touch(cell, "good")
			if err := look(ctx, cell); err != nil {
				t.Fatal(err)
			}
			evil := touch(c.Cells.Named(cell.Name), "evil")
			res := did[*client.AcceptResult](t)(cell.Accept(ctx, client.Accept{Apply: true}))
			if res.RunID == evil || slices.Contains(res.Also, evil+" accepted") {
				t.Errorf("accepted what came meanwhile: %+v", res)
			}
			if _, err := os.Stat(filepath.Join(dir, "good")); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "evil")); err == nil {
				t.Error("the directory has what came meanwhile")
			}

			// A fork begins with undecided work, and says so. What others do before it is not
			// accepted with it.
			forks := did[[]*client.Cell](t)(cell.Fork(ctx, client.Fork{Name: cell.Name + "-fork"}))
			fork := forks[0]
			removeAfter(t, c, fork.Name)
			touch(fork, "own")
			did[*client.AcceptResult](t)(fork.Accept(ctx, client.Accept{}))
			touch(c.Cells.Named(fork.Name), "unseen")
			last := touch(fork, "last")
			if _, err := fork.Accept(ctx, client.Accept{}); !client.HasCode(err, "not_shown") {
				t.Errorf("accepted work of others before its own: %v", err)
			}
			did[*client.MoveResult](t)(fork.Restore(ctx, client.Restore{Run: last}))
			did[*client.AcceptResult](t)(fork.Accept(ctx, client.Accept{})) // it has shown nothing: all
		})
	}
}
