package cli

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

type exportOptions struct {
	output       string
	changes      bool
	checkpoint   string
	allowControl []string
	allowSetuid  bool
	withMemory   bool
}

func newExport(s *frame) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [CELL] [CHECKPOINT] -o FILE.tar[.zst]|DIR",
		Short: "Write a state to an archive or a directory",
		Long: `Write a whole state to an archive or a directory. With --changes, write only what
differs from the last applied state. A directory must be new or empty. An archive
can be imported again with init --from.

An archive has everything. In a directory the files are your own: owners, ACLs,
setuid and setgid bits and security.* attributes are dropped and named. Control files
that the cell changed are left out and named, unless you allow them. Files of git
directories that are of no use outside of the cell are left behind and named.

Neither has the memory that a checkpoint may have, unless you ask for it.`,
		Example: `  forkcell export demo -o demo.tar.zst
  forkcell export demo --changes -o changes.tar`,
		Args:              positional("[CELL]", "[CHECKPOINT]"),
		ValidArgsFunction: s.completeStates,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if o.output == "" {
				return usageError("usage: "+usageLine(cmd), "%s: missing -o", verb(cmd))
			}
			if slices.Contains([]string{".zip", ".tgz", ".gz", ".xz", ".bz2", ".7z"}, filepath.Ext(o.output)) {
				return usageError("give FILE.tar, FILE.tar.zst or a directory", "%s: -o %s: this form of archive is not written", verb(cmd), quote.Path(o.output))
			}
			if s.lacks(o.output) {
				return s.handOver()
			}
			name, checkpoint, err := stateArgs(cmd, args, o.checkpoint)
			if err != nil {
				return err
			}
			req := api.ExportRequest{
				Cell: name, Checkpoint: checkpoint, Output: o.output, Changes: o.changes,
				AllowControl: o.allowControl, AllowSetuid: o.allowSetuid, WithMemory: o.withMemory,
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runExport(ctx, s, e, req) })
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE|DIR`")
	cmd.Flags().BoolVar(&o.changes, "changes", false, "only the changes")
	addCheckpoint(cmd, &o.checkpoint, "write the state `CHECKPOINT` instead of the head")
	cmd.Flags().StringArrayVar(&o.allowControl, "allow-control", nil, "write changed control files that match this `PATTERN` to a directory (repeatable)")
	cmd.Flags().BoolVar(&o.allowSetuid, "allow-setuid", false, "write setuid and setgid bits and security.* attributes to a directory")
	cmd.Flags().BoolVar(&o.withMemory, "with-memory", false, "also write the memory of the checkpoint, to the directory FILE.memory beside the output")
	return s.ofDirectory(cmd)
}

func runExport(ctx context.Context, s *frame, e exporter, req api.ExportRequest) error {
	done := s.showProgress()
	res, err := e.Export(ctx, req)
	done()
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.printf("exported %s of %s to %s: %s, %s\n", res.CheckpointID, quote.Line(res.Cell), quote.Path(res.Output),
			count(res.Files, "file", "files"), size(res.Bytes))
		if len(res.Deleted) > 0 {
			p.printf("deleted, and so not in it: %d\n", len(res.Deleted))
			for _, path := range res.Deleted {
				p.printf("  %s\n", quote.Path(path))
			}
		}
		printNotes(p, res.Notes)
		printPathNotes(p, "left behind", res.LeftBehind)
	})
}
