package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newPolicySuggest(s *frame) *cobra.Command {
	run := ""
	cmd := &cobra.Command{
		Use:   "suggest [CELL]",
		Short: "Print the smallest policy that would have allowed what a run was denied",
		Long: `Print the policy of a run with the smallest additions that would have allowed what
the run was denied: connections, requests and names, as its events show them. Review
it before you use it. Nothing is changed.

Denials that no addition should or can allow are named in comments. What a run without
any network tried is seen as well, on the native runtime. If nothing was seen, the
additions are the hosts that its command lines name.`,
		Example: `  forkcell policy suggest demo > policy.yaml
  forkcell policy diff demo policy.yaml
  forkcell run --policy policy.yaml demo -- make`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runPolicySuggest(ctx, s, e, args[0], run)
		}),
	}
	cmd.Flags().StringVar(&run, "run", "", "what this `RUN` was denied (default: the last one)")
	return s.ofDirectory(cmd)
}

func runPolicySuggest(ctx context.Context, s *frame, e policyKeeper, name, run string) error {
	res, err := e.SuggestPolicy(ctx, name, run)
	if err != nil {
		return err
	}
	if s.json {
		return document.Write(s.out, res)
	}
	_, err = io.WriteString(s.out, quote.Text(string(res.Text)))
	return err
}
