package cli

import (
	"context"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newUI(s *frame) *cobra.Command {
	var o api.UIOptions
	cmd := &cobra.Command{
		Use:   "ui [--cell CELL] [--no-open]",
		Short: "Review runs in a browser: look at what changed, and decide",
		Long: `Review runs in a browser: look at what changed, and decide.

The pages are those of the daemon. If one serves the state directory, the command
prints a link to it and ends. Otherwise it serves the pages itself, until Ctrl-C. With
--url the pages are those of that daemon, with the rights of the token.

The link signs one browser in, once, within five minutes. The browser stays signed in
for 12 hours, or until the daemon ends. The pages are on this host only, under a name
below localhost that is new for each daemon.`,
		Example: `  forkcell ui
  forkcell ui --cell demo
  forkcell ui --no-open
  forkcell ui --url https://cells.example.com --token-file token`,
		DisableFlagsInUseLine: true,
		Args:                  positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			if s.programs.UI == nil {
				return s.handOver()
			}
			if err := s.checkCell(cmd.Context(), o.Cell); err != nil {
				return err
			}
			if programs := s.hostTools(); !o.NoOpen {
				o.Opener, _ = programs.Look("xdg-open") // without it the link is shown
				o.OpenerPath = programs.Path()
			}
			o.Daemon, o.CredentialsFile = s.daemon, credentialsFile()
			ctx, stop := signal.NotifyContext(cmd.Context(), endings()...)
			defer stop()
			return s.programs.UI(ctx, s.home, o, s.streams.Err, s.pagesAt)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Cell, "cell", "", "show the cell `CELL` first")
	f.BoolVar(&o.NoOpen, "no-open", false, "only print the link")
	return cmd
}

// checkCell fails if there is no cell of a name. "" is no name.
func (s *frame) checkCell(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	return s.engine(ctx, Read, func(ctx context.Context, e Engine) error {
		_, err := e.Status(ctx, name)
		return err
	})
}

// pagesAt reports the link to the pages.
func (s *frame) pagesAt(link string, serving bool) error {
	err := s.emit(struct {
		URL     string `json:"url"`
		Serving bool   `json:"serving"` // this process serves the pages until it ends
	}{link, serving}, func(p *page) {
		p.printf("%s\n", quote.Line(link))
		if serving {
			p.printf("serving until Ctrl-C\n")
		}
	})
	if err != nil {
		return err
	}
	return s.out.Flush()
}
