package cli

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newCopy(s *frame) *cobra.Command {
	var allowControl []string
	cmd := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files into a live cell, or out of a cell",
		Long: `Copy a file or a directory into a live cell, or out of a cell.

One side is CELL:PATH. A PATH without a leading / is relative to the workspace. From
a live cell, cp copies what it has now; from another cell, its head. If DST is a
directory, the copy goes into it under the name that you typed: "demo:a/b" as b, and
"demo:." as demo. A path such as "." or "a/" must be a directory. A file replaces a file.
A directory that exists is never merged (exit 4).

Permission bits and modification times are kept. Owners, set-user-id bits and
extended attributes are not. FIFOs, sockets and devices are left out.

A copy out of a cell with control files, such as .git/config or .envrc, is refused
(exit 4), and names them, unless you allow them. Files of git directories that are
of no use outside of the cell are left behind and named.`,
		Example: `  forkcell cp demo:build/report.html .
  forkcell cp ./fixtures demo:tests/
  forkcell cp demo:. copy --allow-control '.git/' --allow-control .envrc`,
		Args: positional("SRC", "DST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			from, inFrom := cellPath(args[0])
			to, inTo := cellPath(args[1])
			if inFrom == inTo {
				return usageError("usage: "+usageLine(cmd), "%s: one of SRC and DST must be CELL:PATH", verb(cmd))
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error {
				if inTo {
					if len(allowControl) > 0 {
						return usageError("leave it out", "%s: --allow-control is for copies out of a cell", verb(cmd))
					}
					to.Host = args[0]
					return runCopy(ctx, s, to, e.CopyIn)
				}
				from.Host, from.AllowControl = args[1], allowControl
				return runCopy(ctx, s, from, e.CopyOut)
			})
		},
	}
	cmd.Flags().StringArrayVar(&allowControl, "allow-control", nil, "copy control files that match this `PATTERN` out of the cell (repeatable)")
	return cmd
}

// cellPath splits CELL:PATH. An argument with a slash before the colon is a path of
// the host.
func cellPath(arg string) (api.CopyRequest, bool) {
	name, path, ok := strings.Cut(arg, ":")
	if !ok || name == "" || strings.Contains(name, "/") {
		return api.CopyRequest{}, false
	}
	if path == "" {
		path = "."
	}
	return api.CopyRequest{Cell: name, Path: path}, true
}

func runCopy(ctx context.Context, s *frame, req api.CopyRequest, do func(context.Context, api.CopyRequest) (*api.CopyResult, error)) error {
	res, err := do(ctx, req)
	if err != nil {
		return err
	}
	for _, n := range res.Notes {
		s.note(quote.Line(n))
	}
	return s.emit(res, func(p *page) {
		p.printf("copied %s to %s: %s, %s\n", quote.Path(res.From), quote.Path(res.To), count(res.Files, "file", "files"), size(res.Bytes))
		printPathNotes(p, "left behind", res.LeftBehind)
	})
}
