package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// settingFlags are the flags for labels and time limits of a cell.
type settingFlags struct {
	labels      []string
	ttl         timeLimit
	idleTimeout timeLimit
	onTimeout   string
}

// timeLimit is the value of a flag: a duration, or none.
type timeLimit time.Duration

func (l *timeLimit) String() string {
	d := duration(*l)
	return d.String()
}

func (l *timeLimit) Set(text string) error {
	if text == "none" {
		*l = 0
		return nil
	}
	d, err := parseDuration(text)
	if err == nil {
		*l = timeLimit(d)
	}
	return err
}

func (l *timeLimit) Type() string { return "DUR" }

func timeoutActions() []string {
	return []string{api.OnTimeoutStop, api.OnTimeoutPause, api.OnTimeoutRemove}
}

func (o *settingFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.labels, "label", nil, "give the cell the label `KEY=VALUE` (repeatable)")
	f.Var(&o.ttl, "ttl", "end the cell this long after its creation")
	f.Var(&o.idleTimeout, "idle-timeout", "end the cell this long after its last use")
	f.StringVar(&o.onTimeout, "on-timeout", "", "how a cell ends: `stop|pause|remove` (default: stop)")
}

// anyGiven reports whether one of the flags was given.
func (o *settingFlags) anyGiven(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"label", "ttl", "idle-timeout", "on-timeout"}, cmd.Flags().Changed)
}

// settings returns what the flags ask for a new cell.
func (o *settingFlags) settings(cmd *cobra.Command) (api.Settings, error) {
	labels, err := parseLabels(cmd, o.labels)
	if err == nil && cmd.Flags().Changed("on-timeout") {
		err = oneOf(cmd, "on-timeout", o.onTimeout, timeoutActions()...)
	}
	return api.Settings{Labels: labels, TTL: api.Duration(o.ttl), IdleTimeout: api.Duration(o.idleTimeout), OnTimeout: o.onTimeout}, err
}

// request returns what the flags change in a cell.
func (o *settingFlags) request(cmd *cobra.Command, name string) (api.UpdateRequest, error) {
	s, err := o.settings(cmd)
	req := api.UpdateRequest{Cell: name}
	for key, value := range s.Labels {
		if req.Labels == nil {
			req.Labels = map[string]*string{}
		}
		req.Labels[key] = &value
	}
	if cmd.Flags().Changed("ttl") {
		req.TTL = &s.TTL
	}
	if cmd.Flags().Changed("idle-timeout") {
		req.IdleTimeout = &s.IdleTimeout
	}
	if cmd.Flags().Changed("on-timeout") {
		req.OnTimeout = &s.OnTimeout
	}
	return req, err
}

// parseLabels reads labels as KEY=VALUE.
func parseLabels(cmd *cobra.Command, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no labels
	}
	labels := map[string]string{}
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usageError("give KEY=VALUE", "%s: bad value %s for --label", verb(cmd), quote.Arg(text))
		}
		if _, twice := labels[key]; twice {
			return nil, usageError("", "%s: label %s is given twice", verb(cmd), quote.Arg(key))
		}
		labels[key] = value
	}
	return labels, nil
}

func newSet(s *frame) *cobra.Command {
	var o settingFlags
	var unlabel []string
	var noLabels bool
	cmd := &cobra.Command{
		Use:   "set CELL",
		Short: "Change labels and time limits of a cell",
		Long: `Change labels and time limits of a cell, also while it is live or a run is under way.
What no flag names stays as it is.

--ttl counts from the creation of the cell, --idle-timeout from its last use: the last
request or the end of the last command. When one of them has passed, the daemon, or
the next forkcell expire, does what --on-timeout says: stop (the default) or pause a
live cell, or remove the cell. Receipts stay.`,
		Example: `  forkcell set demo --label team=web --ttl 8h --on-timeout remove
  forkcell set demo --idle-timeout none --unlabel team`,
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			req, err := o.request(cmd, args[0])
			if err != nil {
				return err
			}
			req.DropLabels = noLabels
			for _, key := range unlabel {
				if req.Labels == nil {
					req.Labels = map[string]*string{}
				}
				if _, both := req.Labels[key]; both {
					return usageError("", "%s: label %s is both set and removed", verb(cmd), quote.Arg(key))
				}
				req.Labels[key] = nil
			}
			if !o.anyGiven(cmd) && len(unlabel) == 0 && !noLabels {
				return usageError("usage: "+usageLine(cmd), "%s: nothing to change", verb(cmd))
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runSet(ctx, s, e, req) })
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().Lookup("ttl").Usage += " (none: no limit)"
	cmd.Flags().Lookup("idle-timeout").Usage += " (none: no limit)"
	cmd.Flags().StringArrayVar(&unlabel, "unlabel", nil, "remove the label `KEY` (repeatable)")
	cmd.Flags().BoolVar(&noLabels, "no-labels", false, "remove all other labels")
	return cmd
}

func runSet(ctx context.Context, s *frame, e keeper, req api.UpdateRequest) error {
	res, err := e.Update(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.printf("cell %s\n", quote.Line(res.Name))
		p.pairs(settingPairs(*res)...)
	})
}

// settingPairs describes labels and time limits.
func settingPairs(c api.CellInfo) []string {
	limits := ""
	if c.TTL != 0 || c.IdleTimeout != 0 {
		limits = c.OnTimeout
	}
	return []string{
		"labels", labelText(c.Labels), "ttl", limitText(c.TTL), "idle timeout", limitText(c.IdleTimeout), "on timeout", quote.Line(limits),
	}
}

func limitText(d api.Duration) string {
	if d == 0 {
		return ""
	}
	return time.Duration(d).String()
}

func labelText(labels map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, quote.Arg(key+"="+labels[key]))
	}
	return strings.Join(list, " ")
}
