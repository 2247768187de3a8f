package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type setupOptions struct {
	user   string
	dryRun bool
}

func newSetup(s *frame) *cobra.Command {
	var o setupOptions
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Take the steps that need root once on restricted hosts",
		Long: `Print the steps that need root once on restricted hosts, and take them when called as
root: an AppArmor profile where the kernel denies user namespaces to programs without
one, subordinate ids for the user, and control groups for limits. Most hosts need none
of them.`,
		Example: `  forkcell setup          # prints what is needed
  sudo forkcell setup     # prints it and does it`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			h := thisHost()
			h.written = s.writtenInHome
			return runSetup(ctx, s, h, o)
		},
	}
	cmd.Flags().StringVar(&o.user, "user", "", "the `USER` who needs subordinate ids and control groups (default: the caller, or sudo's)")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the steps, take none")
	return cmd
}

// setupStep is one change that root must make once.
type setupStep struct {
	Name     string   `json:"name"`
	Why      string   `json:"why"`
	File     string   `json:"file"`    // written, with this content, before the commands run
	Content  string   `json:"content"` //
	Commands []string `json:"commands"`
	Status   string   `json:"status"` // needed, done, failed

	argv [][]string
}

func runSetup(ctx context.Context, s *frame, h host, o setupOptions) error {
	steps, err := h.steps(o.user)
	if err != nil {
		return err
	}
	if !s.json {
		if err := s.emit(nil, func(p *page) { printSteps(p, steps, h.root) }); err != nil {
			return err
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
	}
	var failure error
	for i := range steps {
		if !h.root || o.dryRun || failure != nil {
			break
		}
		steps[i].Status = "done"
		if failure = h.take(ctx, steps[i]); failure != nil {
			steps[i].Status = "failed"
		}
	}
	doc := struct {
		Steps []setupStep `json:"steps"`
	}{steps}
	return joinErrors(failure, s.emit(doc, func(p *page) {
		for _, step := range steps {
			if step.Status != "needed" {
				p.printf("%s: %s\n", step.Name, p.word(step.Status))
			}
		}
	}))
}

func printSteps(p *page, steps []setupStep, root bool) {
	if len(steps) == 0 {
		p.printf("nothing to do\n")
		return
	}
	for i, step := range steps {
		p.printf("%d. %s: %s\n", i+1, step.Name, quote.Line(step.Why))
		if step.File != "" {
			p.printf("   write %s:\n", quote.Path(step.File))
			for line := range strings.Lines(step.Content) {
				p.printf("     %s\n", quote.Line(strings.TrimSuffix(line, "\n")))
			}
		}
		for _, c := range step.Commands {
			p.printf("   run: %s\n", c)
		}
	}
	if !root {
		p.printf("These steps need root: sudo forkcell setup\n")
	}
}
