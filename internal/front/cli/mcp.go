package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newMCP(s *frame) *cobra.Command {
	var o api.MCPOptions
	var from string
	cmd := &cobra.Command{
		Use:   "mcp [--cell CELL | --from DIR] [--allow-decide]",
		Short: "Serve a cell to a language model, by the Model Context Protocol on stdin and stdout",
		Long: `Serve a cell to a language model, by the Model Context Protocol on stdin and stdout.
A client such as a coding agent starts this command.

The tools work on one cell, on its forks, and on cells that the model makes, whose names
begin with that of the cell and a hyphen. Other cells do not exist for it, whatever their
names. --cell names the cell.
--from DIR takes the cell of a directory, and makes it if there is none. Without either
it is the cell of the working directory, which must exist.

The model can run commands, and undo them. It can accept, reject and apply only with
--allow-decide. It gets no credentials. A policy that it sends can only restrict.`,
		Example: `  forkcell mcp --from ~/project
  claude mcp add forkcell -- forkcell mcp --from .`,
		DisableFlagsInUseLine: true,
		Args:                  positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			if s.programs.MCP == nil {
				return s.handOver()
			}
			if err := s.chooseCell(cmd, &o, from); err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return s.programs.MCP(ctx, s.home, o, s.streams.In, s.streams.Out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Cell, "cell", "", "serve the cell `CELL`")
	f.StringVar(&from, "from", "", "serve the cell of the directory `DIR`, which is made if there is none")
	f.BoolVar(&o.AllowDecide, "allow-decide", false, "let the model accept, reject and apply")
	cmd.MarkFlagsMutuallyExclusive("cell", "from")
	return cmd
}

// chooseCell sets the cell that a model works on.
func (s *frame) chooseCell(cmd *cobra.Command, o *api.MCPOptions, from string) (err error) {
	switch {
	case from != "":
		return s.engine(cmd.Context(), Create, func(ctx context.Context, e Engine) error {
			o.Cell, err = s.cellOf(ctx, e, from)
			return err
		})
	case o.Cell == "":
		o.Cell, err = s.cellHere(cmd)
		return withHint(err, "--from DIR makes one, --cell CELL names one")
	}
	return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
		_, err := e.Status(ctx, o.Cell)
		return err
	})
}

// cellOf returns the cell of a directory, with what changed there since it was made.
// If there is none, it makes one. A cell in use stays as it is.
func (s *frame) cellOf(ctx context.Context, e Engine, from string) (string, error) {
	dir, err := filepath.Abs(from)
	if err != nil {
		return "", usageError("", "mcp: %v", err)
	}
	name, below, err := e.CellAt(ctx, dir)
	if err != nil {
		return "", err
	}
	if name == "" || below != "." {
		res, err := initCell(ctx, s, e, api.InitRequest{From: dir, Runtime: api.RuntimeNative, Sole: true})
		if err != nil {
			return "", err
		}
		return res.Cell, nil
	}
	status, err := e.Status(ctx, name)
	if err != nil || status.State != api.StateIdle {
		return name, err
	}
	_, err = e.Refresh(ctx, api.RefreshRequest{Cell: name, OnConflict: "fail"})
	return name, api.WithHint(err, api.CodeConflict, "`forkcell refresh "+quote.Arg(name)+" --on-conflict ours` or `theirs` settles them")
}
