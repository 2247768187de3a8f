package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/preset"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newPolicy(s *frame) *cobra.Command {
	return group("policy", "Check, show, compare and explain policies",
		newPolicyList(s), newPolicyValidate(s), newPolicyShow(s), newPolicyApply(s), newPolicyDiff(s), newPolicyExplain(s), newPolicySuggest(s))
}

func newPolicyValidate(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a policy file",
		Long: `Check a policy file. Every problem is one line with file, line and column; exit 2 if
there is one. Nothing is run, and no home is needed.`,
		Example: "  forkcell policy validate policy.yaml",
		Args:    positional("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			return runPolicyValidate(s, verb(cmd), args[0])
		},
	}
}

// validation is the document of policy validate --json.
type validation struct {
	File       string           `json:"file"`
	Valid      bool             `json:"valid"`
	PolicyHash string           `json:"policy_hash"`
	Problems   []policy.Problem `json:"problems"`
	Notes      []string         `json:"notes"`
}

func runPolicyValidate(s *frame, command, name string) error {
	file, err := s.readPolicy(command, name)
	if err != nil {
		return err
	}
	doc := validation{File: name}
	res, err := engine.ReadPolicy(s.caller(), *file)
	if err != nil {
		err = withHint(err, "`forkcell help policy-file` has every key")
		if bad, ok := errors.AsType[*policy.Error](err); ok && s.json {
			doc.Problems = bad.Problems
			return joinErrors(err, document.Write(s.out, doc))
		}
		return err
	}
	doc.Valid, doc.PolicyHash = true, res.PolicyHash
	return s.emit(doc, func(p *page) {
		p.printf("%s  %s is valid, hash %s\n", p.word("ok"), quote.Path(name), doc.PolicyHash)
		printNotes(p, doc.Notes)
	})
}

func newPolicyShow(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "show CELL|PRESET",
		Short: "Print a cell's policy in its canonical form, or a preset",
		Long: `Print a cell's policy in its canonical form. The SHA-256 of this text is the
policy_hash of the cell's runs, as far as their flags do not narrow it further.

A name that no cell has may be a preset's:
` + strings.Join(preset.Names(), ", ") + `. Its file is
printed as it is. It can be given wherever a policy file is asked for; a file of that
name wins.`,
		Example: `  forkcell policy show demo
  forkcell policy show claude-code > policy.yaml`,
		Args:              positional("CELL|PRESET"),
		ValidArgsFunction: s.completeCellOrPreset,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runPolicyShow(ctx, s, e, args[0])
		}),
	}
}

func runPolicyShow(ctx context.Context, s *frame, e policyKeeper, name string) error {
	res, err := e.Policy(ctx, name)
	var file *api.PolicyFile
	if err != nil && api.KindOf(err) == api.NotFound && preset.Known(name) {
		file = s.readPreset(name)
		res, err = engine.ReadPolicy(s.caller(), *file)
	}
	if err != nil {
		return err
	}
	if file != nil && !s.json {
		// With its comments, which explain its use.
		_, err = s.out.Write(file.Text)
		return err
	}
	if s.json {
		return document.Write(s.out, res)
	}
	// Byte for byte, where all of it is visible: the hash of this text is the policy's hash.
	_, err = io.WriteString(s.out, quote.Text(string(res.Text)))
	return err
}

func newPolicyApply(s *frame) *cobra.Command {
	var credentials, addresses []string
	cmd := &cobra.Command{
		Use:   "apply CELL FILE",
		Short: "Give a cell another policy",
		Long: `Give a cell another policy, from its next run on.

A live cell gets it at once, if only network_policies and credentials differ. With
any other difference the exit code is 4, and the previous policy is kept. Connections
and requests that the new policy does not allow are ended. The receipt names the
event from which the new policy applied.

Credentials that a live cell has already keep their values, unless --credential gives
new ones. Others need --credential or a line in the credentials file. If the new
policy sends a credential to other hosts, its value must be given again. Addresses that
are not public, and that the old policy does not have, need --grant-address.

A policy of a cell that is not live is kept. What it needs of the operator, each run or
start is given: policy explain names the flags.`,
		Example:           "  forkcell policy apply demo policy.yaml",
		Args:              positional("CELL", "FILE"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			file, err := s.readPolicy(verb(cmd), args[1])
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error {
				return runPolicyApply(ctx, s, e, args[0], *file, credentials, addresses)
			})
		},
	}
	cmd.Flags().StringArrayVar(&credentials, "credential", nil, "take the value of a live cell's credential from `NAME=SOURCE`, or by NAME from the credentials file (repeatable)")
	addGrantAddressFlag(cmd.Flags(), &addresses)
	return cmd
}

func runPolicyApply(ctx context.Context, s *frame, e policyKeeper, name string, file api.PolicyFile, credentials, addresses []string) error {
	res, err := e.ApplyPolicy(ctx, name, file, &api.LiveGrant{
		Credentials: credentials, CredentialsFile: credentialsFile(), Addresses: addresses, ConfigFile: api.Text(configFile("config.yaml")),
	})
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		if res.Live {
			p.printf("cell %s: policy %s applies to its run from event %d on\n", quote.Line(res.Cell), res.RulesAs, res.FromEvent)
			p.pairs("before", res.Before)
			return
		}
		if res.Before == res.PolicyHash {
			p.printf("cell %s has this policy already: %s\n", quote.Line(res.Cell), res.PolicyHash)
			return
		}
		p.printf("cell %s: policy %s from its next run on\n", quote.Line(res.Cell), res.PolicyHash)
		p.pairs("before", res.Before)
	})
}

func newPolicyDiff(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two policies key by key",
		Long: `Compare two policies key by key. Each is a file if one of that name exists, else a
cell, else a preset.`,
		Example:           "  forkcell policy diff demo policy.yaml",
		Args:              positional("A", "B"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			a, err := s.policyRef(verb(cmd), args[0])
			if err != nil {
				return err
			}
			b, err := s.policyRef(verb(cmd), args[1])
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runPolicyDiff(ctx, s, e, a, b) })
		},
	}
}

func runPolicyDiff(ctx context.Context, s *frame, e policyKeeper, a, b engine.PolicyRef) error {
	res, err := e.DiffPolicies(ctx, a, b)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		if len(res.Differences) == 0 {
			p.printf("no difference\n")
		}
		for _, d := range res.Differences {
			p.printf("%s\n", quote.Line(differenceLine(d)))
		}
	})
}

// differenceLine returns the line for one key: added, removed or changed.
func differenceLine(d api.PolicyDifference) string {
	switch {
	case d.Old == "":
		return fmt.Sprintf("+ %s: %s", d.Path, d.New)
	case d.New == "":
		return fmt.Sprintf("- %s: %s", d.Path, d.Old)
	default:
		return fmt.Sprintf("~ %s: %s, was %s", d.Path, d.New, d.Old)
	}
}
