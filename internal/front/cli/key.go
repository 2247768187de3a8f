package cli

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newKey(s *frame) *cobra.Command {
	return group("key", "Manage the identity that signs receipts",
		newKeyShow(s),
		newKeyAction(s, Create, "init", "Make the key, if there is none", runKeyInit),
		newKeyRotate(s),
		newKeyTrust(s))
}

func newKeyShow(s *frame) *cobra.Command {
	var bare bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show the public key",
		Example: "  forkcell key show\n  forkcell key show --pem > signer.pem",
		Args:    positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			return runKeyShow(ctx, s, e, bare)
		}),
	}
	cmd.Flags().BoolVar(&bare, "pem", false, "only the key itself, as --key and key trust take it")
	return cmd
}

func runKeyShow(ctx context.Context, s *frame, e keyHolder, bare bool) error {
	key, err := e.Key(ctx)
	if err != nil {
		return err
	}
	return s.emit(key, func(p *page) {
		if bare {
			printPEM(p, key)
		} else {
			printKey(p, key)
		}
	})
}

func runKeyInit(ctx context.Context, e keyHolder) (*api.KeyInfo, error) { return e.KeyInit(ctx) }

func newKeyRotate(s *frame) *cobra.Command {
	var lost bool
	cmd := newKeyAction(s, Write, "rotate", "Make a new key, signed by the old one", func(ctx context.Context, e keyHolder) (*api.KeyInfo, error) {
		if lost {
			return e.KeyLost(ctx)
		}
		return e.KeyRotate(ctx)
	})
	cmd.Long = `Make a new key. The old key signs it, so that everyone who trusts the old key can
trust the new one. If the old key is lost, --lost records the loss. The new key alone
signs that statement. Those who check later receipts must trust the new key.`
	cmd.Example += "\n  forkcell key rotate --lost"
	cmd.Flags().BoolVar(&lost, "lost", false, "the old key is gone and cannot sign the new one")
	return cmd
}

func newKeyAction(s *frame, mode Mode, use, short string, do func(context.Context, keyHolder) (*api.KeyInfo, error)) *cobra.Command {
	return &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  forkcell key " + use,
		Args:    positional(),
		RunE: s.with(mode, func(ctx context.Context, e Engine, _ []string) error {
			key, err := do(ctx, e)
			if err != nil {
				return err
			}
			return s.emit(key, func(p *page) { printKey(p, key) })
		}),
	}
}

func printKey(p *page, k *api.KeyInfo) {
	p.pairs(
		"key", quote.Line(k.KeyID),
		"algorithm", quote.Line(k.Algorithm),
		"previous", quote.Line(strings.Join(k.Previous, " ")),
		"trusted", quote.Line(strings.Join(k.Trusted, " ")),
	)
	printPEM(p, k)
}

func printPEM(p *page, k *api.KeyInfo) {
	for line := range strings.Lines(k.PublicKeyPEM) {
		p.printf("%s\n", quote.Line(strings.TrimSuffix(line, "\n")))
	}
}

func newKeyTrust(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "trust FILE",
		Short:   "Trust another home's public key, for its bundles",
		Example: "  forkcell key trust colleague.pem",
		Args:    positional("FILE"),
		RunE: s.with(Create, func(ctx context.Context, e Engine, args []string) error {
			return runKeyTrust(ctx, s, e, args[0])
		}),
	}
}

func runKeyTrust(ctx context.Context, s *frame, e keyHolder, file string) error {
	id, err := e.KeyTrust(ctx, file)
	if err != nil {
		return err
	}
	doc := struct {
		KeyID   string `json:"key_id"`
		Trusted bool   `json:"trusted"`
	}{id, true}
	return s.emit(doc, func(p *page) { p.printf("trusted %s\n", quote.Line(id)) })
}
