package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// ofDirectory makes the name of the cell optional for a command. The default is the
// cell made from the working directory, or from the nearest directory above it. The
// command gets the name as its first argument.
func (s *frame) ofDirectory(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		before := cmd.ArgsLenAtDash()
		if before < 0 || !strings.Contains(cmd.Use, "-- ") {
			before = len(args) // the dashes only say that no flag follows
		}
		if before > 0 {
			return orCheckpoint(cmd, args[0], run(cmd, args))
		}
		s.started = true
		name, err := s.cellHere(cmd)
		if err != nil {
			return err
		}
		return run(cmd, append([]string{name}, args...))
	}
	return cmd
}

// orCheckpoint adds to the error about a cell that does not exist how a state of this
// directory's cell is named: the first argument is always a cell.
func orCheckpoint(cmd *cobra.Command, name string, err error) error {
	var e *api.Error
	if cmd.Flags().Lookup("checkpoint") == nil || !errors.As(err, &e) || e.Message != api.Missing("cell", name, "").Message {
		return err
	}
	missing := *e
	if missing.Hint != "" {
		missing.Hint += "; "
	}
	missing.Hint += "for a checkpoint of this directory's cell give --checkpoint " + quote.Arg(name)
	return &missing
}

// cellHere finds the cell of the working directory, and remembers where in the
// cell's source that directory is.
func (s *frame) cellHere(cmd *cobra.Command) (name string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", usageError("give the name of a cell", "%s: the working directory cannot be found: %v", verb(cmd), err)
	}
	err = s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
		name, s.below, err = e.CellAt(ctx, dir)
		return err
	})
	if err == nil && name == "" {
		return "", usageError("`forkcell ls` shows the cells, `forkcell init NAME --from .` makes one",
			"%s: missing argument CELL, and no cell was made from %s or a directory above it", verb(cmd), quote.Path(dir))
	}
	s.implied = true
	return name, err
}

// startIn returns the directory in which a command in the cell starts: the value of
// the flag, or, if the working directory implied the cell, its counterpart.
func (s *frame) startIn(flag string) string {
	if flag == "" && s.below != "." {
		return s.below
	}
	return flag
}

// stateArgs takes the cell and the state of it that a command line names as
// CELL~N, CELL CHECKPOINT or --checkpoint CHECKPOINT, of which one can be given.
func stateArgs(cmd *cobra.Command, args []string, flag string) (cell, checkpoint string, err error) {
	cell, back, ok := strings.Cut(args[0], "~")
	if ok {
		checkpoint = "~" + back
	}
	if cell == "" || cell == "HEAD" {
		return "", "", usageError("write --checkpoint "+quote.Arg(args[0]), "%s: the first argument names a cell, %s names a state", verb(cmd), quote.Arg(args[0]))
	}
	for _, other := range []string{argument(args, 1), flag} {
		if other == "" {
			continue
		}
		if checkpoint != "" {
			return "", "", usageError("give one of them", "%s: %s and %s both name a state", verb(cmd), quote.Arg(checkpoint), quote.Arg(other))
		}
		checkpoint = other
	}
	return cell, checkpoint, nil
}

func addCheckpoint(cmd *cobra.Command, value *string, usage string) {
	cmd.Flags().StringVar(value, "checkpoint", "", usage)
}
