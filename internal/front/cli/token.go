package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newToken(s *frame) *cobra.Command {
	return group("token", "Manage who may use the API of a daemon",
		newTokenCreate(s), newTokenList(s), newTokenRevoke(s))
}

// tokenFlags are the flags of token create.
type tokenFlags struct {
	request    api.TokenRequest
	quota      string
	policy     string
	expires    duration
	printEntry bool
}

func newTokenCreate(s *frame) *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE...",
		Short: "Make a token, and show its secret once",
		Long: `Make a token and print its secret. The secret is shown only here: the home keeps its
hash. A running daemon takes the token at once.

Scopes: read sees; run makes and runs cells; run with decide accepts, rejects, applies;
admin does the rest. Each includes read, and admin includes all.

A quota file is a JSON object with any of live_cells, runs, memory, cpus, disk and
requests_per_second. The policy of a token is a ceiling: what a run may do, both its
own policy and the ceiling must allow.

With --allow-control, apply takes --allow-control for files that match both, and --to;
with the pattern ** also --allow-setuid.`,
		Example: `  forkcell token create --name ci --scope run --cells ci- --expires 30d
  forkcell token create --name lead --scope run --scope decide --quota quota.json`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			return runTokenCreate(cmd.Context(), s, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request.Name, "name", "", "`NAME` of the token: the actor in receipts and decisions")
	flags.StringArrayVar(&f.request.Scopes, "scope", nil, "`SCOPE`: read, run, decide or admin (repeatable)")
	flags.StringVar(&f.request.Cells, "cells", "", "only cells whose names begin with `PREFIX`")
	flags.StringVar(&f.quota, "quota", "", "`FILE` with the quota (JSON)")
	flags.Var(&f.expires, "expires", "refuse the token after this time")
	flags.StringArrayVar(&f.request.Credentials, "credential", nil, "`NAME` in the operator's credentials file that requests may use (repeatable)")
	flags.StringArrayVar(&f.request.AllowControl, "allow-control", nil, "requests may have control files that match `PATTERN` written (repeatable)")
	flags.StringVar(&f.policy, "policy", "", "policy `FILE` or preset that every run must keep to as well")
	flags.BoolVar(&f.printEntry, "print-entry", false, "print a file for serve --tokens instead of keeping the token in the home")
	return cmd
}

func runTokenCreate(ctx context.Context, s *frame, f tokenFlags) error {
	r, err := f.read(s)
	if err != nil {
		return err
	}
	mode, do := Create, tokenKeeper.TokenCreate
	if f.printEntry {
		mode, do = Read, tokenKeeper.TokenEntry
	}
	return s.engine(ctx, mode, func(ctx context.Context, e Engine) error {
		made, err := do(e, ctx, r)
		if err != nil {
			return err
		}
		if s.json {
			return s.emit(made, nil)
		}
		return printToken(s, made)
	})
}

// printToken prints the secret, or the entry with the secret on stderr, where it is
// shown even with --quiet: nothing else has it.
func printToken(s *frame, made *api.TokenCreated) error {
	if made.Entry != "" {
		if _, err := fmt.Fprintf(s.streams.Err, "forkcell: the secret of token %s, shown only here: %s\n", quote.Line(made.Name), quote.Line(made.Token)); err != nil {
			return err
		}
		return s.emit(made, func(p *page) { p.lines(made.Entry) })
	}
	s.note("made token " + quote.Line(made.Name) + " (" + made.ID + "); its secret is shown only here")
	return s.emit(made, func(p *page) { p.printf("%s\n", made.Token) })
}

// read reads the files that the flags name.
func (f tokenFlags) read(s *frame) (api.TokenRequest, error) {
	const command = "token create"
	r := f.request
	if r.Name == "" || len(r.Scopes) == 0 {
		return r, usageError("forkcell token create --help has examples", "%s: --name and --scope are needed", command)
	}
	r.Expires = time.Duration(f.expires)
	if f.quota != "" {
		data, err := readBounded(f.quota, 64<<10)
		if err != nil {
			return r, usageError("", "%s: quota %s: %v", command, quote.Path(f.quota), err)
		}
		quota, err := token.ParseQuota(data)
		if err != nil {
			return r, usageError(`as in {"runs": 4, "memory": "8GiB"}`, "%s: %s: %v", command, quote.Path(f.quota), err)
		}
		r.Quota = &quota
	}
	if f.policy != "" {
		file, err := s.readPolicy(command, f.policy)
		if err != nil {
			return r, err
		}
		r.Policy = file
	}
	return r, nil
}

func newTokenList(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tokens, also those that have ended",
		Example: "  forkcell token list",
		Args:    positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			return runTokenList(ctx, s, e)
		}),
	}
}

func runTokenList(ctx context.Context, s *frame, e tokenKeeper) error {
	list, err := e.TokenList(ctx)
	if err != nil {
		return err
	}
	doc := struct {
		Tokens []api.TokenInfo `json:"tokens"`
	}{list}
	return s.emit(doc, func(p *page) {
		if len(list) == 0 {
			p.printf("no tokens; make one: forkcell token create --name NAME --scope SCOPE\n")
			return
		}
		rows := [][]string{{"NAME", p.paint(plain, "STATE"), "SCOPES", "CELLS", "AGE", "EXPIRES", "BY", "ID"}}
		for _, t := range list {
			rows = append(rows, []string{
				quote.Line(t.Name), p.word(quote.Line(t.State)), quote.Line(strings.Join(t.Scopes, ",")), dash(quote.Line(t.Cells)), age(s.now(), t.CreatedAt),
				expiry(t.ExpiresAt), quote.Line(t.CreatedBy), quote.Line(t.ID),
			})
		}
		p.table(rows)
	})
}

func expiry(at *time.Time) string {
	if at == nil {
		return "never"
	}
	return at.UTC().Format(time.RFC3339)
}

func newTokenRevoke(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME|ID",
		Short: "End a token",
		Long: `End a token. A running daemon refuses it at once, and ends the streams of its holder.
The token stays in the list, with the one who revoked it. Revoking it again changes
nothing. A token of a file that was given to serve --tokens cannot be revoked.`,
		Example: "  forkcell token revoke ci",
		Args:    positional("NAME|ID"),
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			return runTokenRevoke(ctx, s, e, args[0])
		}),
	}
}

func runTokenRevoke(ctx context.Context, s *frame, e tokenKeeper, ref string) error {
	info, err := e.TokenRevoke(ctx, ref)
	if err != nil {
		return err
	}
	return s.emit(info, func(p *page) { p.printf("revoked %s (%s)\n", quote.Line(info.Name), quote.Line(info.ID)) })
}
