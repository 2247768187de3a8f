package cli

import (
	"context"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// shownBefore is the number of earlier events that tail begins with.
const shownBefore = 10

func newEvents(s *frame) *cobra.Command {
	return group("events", "Query and follow what happened in runs", newEventsQuery(s), newEventsTail(s))
}

type eventsOptions struct {
	cell   string
	run    string
	class  string
	action string
	since  string
	limit  int
}

func newEventsQuery(s *frame) *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "query",
		Short: "List the events of runs, newest last",
		Long: `List the events of runs, newest last. With --json: one OCSF object per line, as it
is in the run's journal.`,
		Example: `  forkcell events query --cell demo --action denied
  forkcell events query --class detection_finding --since 24h --json`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			q, err := o.query(cmd, s.now())
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runEventsQuery(ctx, s, e, q) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.cell, "cell", "", "only those of this `CELL`")
	f.StringVar(&o.run, "run", "", "only those of this `RUN`")
	f.StringVar(&o.class, "class", "", "only this class: its `UID|NAME`, such as 2004 or detection_finding")
	f.StringVar(&o.action, "action", "", "only what was `allowed|denied`")
	f.StringVar(&o.since, "since", "", "only since this `TIME`, RFC 3339 or a duration such as 2h")
	f.IntVar(&o.limit, "limit", 0, "only the newest `N`")
	return cmd
}

// query checks the values of the flags and returns the query.
func (o eventsOptions) query(cmd *cobra.Command, now time.Time) (q api.EventQuery, err error) {
	q = api.EventQuery{Cell: o.cell, Run: o.run, Limit: o.limit}
	if o.class != "" {
		class, err := event.ParseClass(o.class)
		if err != nil {
			return q, oneOf(cmd, "class", o.class, classNames()...)
		}
		q.Class = int(class)
	}
	if o.action != "" {
		action, err := event.ParseAction(o.action)
		if err != nil {
			return q, oneOf(cmd, "action", o.action, string(event.ActionAllowed), string(event.ActionDenied))
		}
		q.Action = string(action)
	}
	if o.since != "" {
		if q.Since, err = parseSince(o.since, now); err != nil {
			return q, usageError("write it as 2026-01-31T12:00:00Z or 2h", "%s: bad value for --since: %v", verb(cmd), err)
		}
	}
	if o.limit < 0 || o.limit == 0 && cmd.Flags().Changed("limit") {
		return q, usageError("leave it out for all", "%s: --limit must be at least 1", verb(cmd))
	}
	return q, nil
}

func classNames() []string {
	var names []string
	for _, c := range event.Classes() {
		names = append(names, c.String())
	}
	return names
}

// parseSince parses a time, or the duration since then.
func parseSince(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return time.Time{}, errors.New("neither a time nor a duration")
	}
	return now.Add(-d), nil
}

func runEventsQuery(ctx context.Context, s *frame, e eventReader, q api.EventQuery) error {
	return e.Events(ctx, q, s.eventPrinter())
}

func newEventsTail(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "tail [CELL]",
		Short: "Follow the events of runs as they happen",
		Long: `Follow the events of runs as they happen, of one cell or of all cells. It begins with
the last few events. Ctrl-C ends it. With --json: one object per line.`,
		Example:           "  forkcell events tail demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			err := s.rawEngine(Read, func(e Engine) error { return runEventsTail(ctx, s, e, argument(args, 0)) })
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // what was asked for is over
			}
			return err
		},
	}
}

func runEventsTail(ctx context.Context, s *frame, e eventReader, name string) error {
	show := s.eventPrinter()
	return e.FollowEvents(ctx, name, shownBefore, func(rec event.Record) error {
		if err := show(rec); err != nil {
			return err
		}
		return s.out.Flush()
	})
}

// eventPrinter returns a function that writes an event: the line of the journal, or
// a line for people.
func (s *frame) eventPrinter() func(event.Record) error {
	if s.json {
		return func(rec event.Record) error {
			_, err := s.out.Write(append(document.EscapeInvisible(rec.Raw), '\n'))
			return err
		}
	}
	p := newPage(s.out, s.colours(s.streams.Out))
	return func(rec event.Record) error {
		printEvent(p, rec)
		return p.err
	}
}
