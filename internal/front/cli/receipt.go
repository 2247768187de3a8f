package cli

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newReceipt(s *frame) *cobra.Command {
	return group("receipt", "Show, verify and export the receipts of runs",
		newReceiptShow(s), newReceiptList(s), newReceiptVerify(s), newReceiptExport(s))
}

type receiptShowOptions struct {
	bundle string
	key    string
	cell   string
	latest bool
	format string
}

func newReceiptShow(s *frame) *cobra.Command {
	var o receiptShowOptions
	cmd := &cobra.Command{
		Use:   "show [RECEIPT]",
		Short: "Show a receipt and the present decision about its run",
		Long: `Show a receipt and the present decision about its run. It is the receipt that is
named, or the newest one of a cell. Without either, the cell is that of the working
directory. A removed cell is found by the name that it had.

--bundle shows the receipt in a bundle or in a page of receipt export, from anywhere. The
first line says whether a trusted key signed it.`,
		Example: `  forkcell receipt show
  forkcell receipt show rcpt_01J
  forkcell receipt show --cell demo --latest --format md
  forkcell receipt show --bundle evidence.html --key signer.pem`,
		Args:              positional("[RECEIPT]"),
		ValidArgsFunction: s.completeReceipt,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if s.json && !cmd.Flags().Changed("format") {
				o.format = "json"
			}
			if err := oneOf(cmd, "format", o.format, "md", "json", "dsse"); err != nil {
				return err
			}
			if o.bundle != "" && (len(args) == 1 || o.cell != "") {
				return usageError("forkcell receipt show --bundle FILE", "%s: name one receipt, a cell, or a bundle", verb(cmd))
			}
			if o.key != "" && o.bundle == "" {
				return usageError("leave it out", "%s: --key is for --bundle", verb(cmd))
			}
			if o.bundle != "" {
				return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return showBundle(ctx, s, e, o) })
			}
			if len(args) == 1 && o.cell != "" {
				return usageError("forkcell receipt show RECEIPT, or --cell CELL --latest", "%s: name one receipt, or a cell", verb(cmd))
			}
			if len(args) == 0 && o.cell == "" {
				var err error
				if o.cell, err = s.cellHere(cmd); err != nil {
					return err
				}
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
				return runReceiptShow(ctx, s, e, argument(args, 0), o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.bundle, "bundle", "", "the receipt in the bundle or page in this `FILE`")
	f.StringVar(&o.key, "key", "", "trust the public key in the PEM file `PUB` (for --bundle)")
	f.StringVar(&o.cell, "cell", "", "the receipt of this `CELL`")
	f.BoolVar(&o.latest, "latest", false, "the cell's newest (--cell means that anyway)")
	f.StringVar(&o.format, "format", "md", "print as `md|json|dsse`; dsse is the signed envelope as stored")
	return cmd
}

func runReceiptShow(ctx context.Context, s *frame, e receiptReader, id string, o receiptShowOptions) error {
	doc, err := e.Receipt(ctx, id, o.cell, o.cell != "")
	if err != nil {
		return err
	}
	return printReceipt(s, doc, o)
}

// printReceipt prints a receipt in a format.
func printReceipt(s *frame, doc *api.ReceiptDoc, o receiptShowOptions) error {
	body := []byte(quote.Text(string(doc.Markdown)))
	switch o.format {
	case "json":
		body = document.EscapeInvisible(doc.JSON)
	case "dsse":
		body = document.EscapeInvisible(doc.Envelope) // it has none, unless a daemon lies
	}
	_, err := s.out.Write(body)
	if err != nil {
		return err
	}
	if o.format != "dsse" && (len(body) == 0 || body[len(body)-1] != '\n') {
		_, err = s.out.Write([]byte{'\n'})
	}
	return err
}

func newReceiptList(s *frame) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the receipts, newest last",
		Example: "  forkcell receipt list --cell demo",
		Args:    positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			return runReceiptList(ctx, s, e, name)
		}),
	}
	cmd.Flags().StringVar(&name, "cell", "", "only those of this `CELL`")
	return cmd
}

func runReceiptList(ctx context.Context, s *frame, e receiptReader, name string) error {
	list, err := e.ReceiptList(ctx, name)
	if err != nil {
		return err
	}
	doc := struct {
		Receipts []api.ReceiptInfo `json:"receipts"`
	}{list}
	return s.emit(doc, func(p *page) {
		rows := [][]string{{"RECEIPT", "CELL", p.paint(plain, "OUTCOME"), p.paint(plain, "DECISION"), "TIME"}}
		for _, r := range list {
			rows = append(rows, []string{
				r.ReceiptID, quote.Line(r.Cell), p.word(quote.Line(r.Outcome)), p.word(quote.Line(r.Decision)), stamp(r.CreatedAt),
			})
		}
		p.table(rows)
	})
}

func newReceiptExport(s *frame) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "export RECEIPT -o FILE",
		Short: "Write a bundle that can be verified elsewhere",
		Long: `Write a bundle that can be verified elsewhere, without a network. If the FILE is called
.html, it is a page that can be read in any browser, with the bundle in it: receipt verify
--bundle takes both.`,
		Example: `  forkcell receipt export rcpt_01J -o evidence.json
  forkcell receipt export rcpt_01J -o evidence.html`,
		Args:              positional("RECEIPT"),
		ValidArgsFunction: s.completeReceipt,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if output == "" {
				return usageError("usage: "+usageLine(cmd), "%s: missing -o", verb(cmd))
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
				return runReceiptExport(ctx, s, e, args[0], output)
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the bundle's `FILE`")
	return cmd
}

func runReceiptExport(ctx context.Context, s *frame, e receiptReader, id, output string) error {
	n, err := e.ReceiptExport(ctx, id, output)
	if err != nil {
		return err
	}
	doc := struct {
		ReceiptID string `json:"receipt_id"`
		Output    string `json:"output"`
		Bytes     int64  `json:"bytes"`
	}{id, output, n}
	return s.emit(doc, func(p *page) { p.printf("exported %s to %s: %s\n", quote.Line(id), quote.Path(output), size(n)) })
}
