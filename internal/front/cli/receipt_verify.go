package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type receiptVerifyOptions struct {
	receipt string
	cell    string
	all     bool
	bundle  string
	key     string
	verbose bool
}

func newReceiptVerify(s *frame) *cobra.Command {
	var o receiptVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify RECEIPT | --cell CELL | --all | --bundle FILE",
		Short: "Check signatures, chains and every bound hash",
		Long: `Check signatures, chains and every bound hash. If something does not hold, it is
listed and the exit code is 4. --all and --cell print one line for each receipt.

A bundle needs a trusted key: the home's own, one given with --key, or one trusted by
key trust. The key inside a bundle is never enough. If one signed it, the first four lines
say what ran, from what, who decided, and why. The FILE may be a page of receipt export.
The evidence of a removed cell is found by the name that it had.`,
		Example: `  forkcell receipt verify --all
  forkcell receipt verify --bundle evidence.json --key signer.pem`,
		Args:              positional("[RECEIPT]"),
		ValidArgsFunction: s.completeReceipt,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			o.receipt = argument(args, 0)
			if o.selectors() != 1 {
				return usageError("usage: "+usageLine(cmd), "%s: name one thing to verify", verb(cmd))
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runReceiptVerify(ctx, s, e, o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.cell, "cell", "", "every receipt of this `CELL`")
	f.BoolVar(&o.all, "all", false, "every receipt of the home")
	f.StringVar(&o.bundle, "bundle", "", "the bundle in this `FILE`")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "with --all and --cell, also a line for each bound hash")
	f.StringVar(&o.key, "key", "", "trust the public key in the PEM file `PUB`")
	return cmd
}

func (o receiptVerifyOptions) selectors() int {
	n := 0
	for _, given := range []bool{o.receipt != "", o.cell != "", o.all, o.bundle != ""} {
		if given {
			n++
		}
	}
	return n
}

func runReceiptVerify(ctx context.Context, s *frame, e receiptVerifier, o receiptVerifyOptions) error {
	var (
		res *api.ReceiptVerifyResult
		err error
	)
	if o.bundle != "" {
		res, err = e.BundleVerify(ctx, o.bundle, o.key)
	} else {
		res, err = e.ReceiptVerify(ctx, o.receipt, o.cell, o.all, o.key)
	}
	if res == nil {
		return err
	}
	if !s.json {
		err = withoutDetails(err)
	}
	return joinErrors(err, s.emit(res, func(p *page) { printReceiptVerify(p, res, o) }))
}

func printReceiptVerify(p *page, r *api.ReceiptVerifyResult, o receiptVerifyOptions) {
	if w := r.Words; w != nil {
		p.pairs("what ran", w.Ran, "from what", w.From, "decided", w.Decided, "why", w.Why)
	}
	word := "ok"
	if !r.OK {
		word = "mismatch"
	}
	p.printf("%s  %s checked%s\n", p.word(word), count(int64(r.Checked), "statement", "statements"), keyNote(r.KeyID))
	for _, x := range r.Problems {
		p.printf("  %s: %s\n", quote.Line(x.ID), quote.Line(x.What))
	}
	for _, n := range r.Notes {
		p.printf("  %s\n", quote.Line(n))
	}
	if !o.all && o.cell == "" {
		p.table(boundRows(p, "  ", r.Bound))
		return
	}
	printEachBound(p, r, o.verbose)
}

// printEachBound prints a line for each statement that binds hashes, and all of its hashes
// if details are asked for.
func printEachBound(p *page, r *api.ReceiptVerifyResult, verbose bool) {
	var ids []string
	bound := map[string][]api.BoundHash{}
	for _, b := range r.Bound {
		if bound[b.ID] == nil {
			ids = append(ids, b.ID)
		}
		bound[b.ID] = append(bound[b.ID], b)
	}
	rows := [][]string{}
	for _, id := range ids {
		word := "ok"
		if slices.ContainsFunc(r.Problems, func(x api.ReceiptProblem) bool { return x.ID == id }) {
			word = "mismatch"
		}
		rows = append(rows, []string{"  " + quote.Line(id), p.word(word), quote.Line(boundSummary(bound[id]))})
		if verbose {
			rows = append(rows, boundRows(p, "    ", bound[id])...)
		}
	}
	p.table(rows)
}

// boundRows returns a line for each hash.
func boundRows(p *page, indent string, bound []api.BoundHash) [][]string {
	rows := [][]string{}
	for _, b := range bound {
		rows = append(rows, []string{indent + quote.Line(b.What), short(quote.Line(b.SHA256)), p.word(quote.Line(b.Status))})
	}
	return rows
}

// boundSummary counts bound hashes by what became of them.
func boundSummary(bound []api.BoundHash) string {
	counts := map[string]int64{}
	for _, b := range bound {
		counts[b.Status]++
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, number(counts[status])+" "+status)
	}
	return strings.Join(parts, ", ")
}

func keyNote(id string) string {
	if id == "" {
		return ""
	}
	return ", signed by " + quote.Line(id)
}
