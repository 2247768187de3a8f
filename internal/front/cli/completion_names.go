package cli

import (
	"context"
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"

	"github.com/spf13/cobra"
)

// addCompletions adds completion for the values of flags that name something, by
// the name of the flag, to every command.
func (s *frame) addCompletions(cmd *cobra.Command) {
	for flag, known := range map[string]func(api.KnownNames) []string{
		"cell":       func(k api.KnownNames) []string { return k.Cells },
		"run":        func(k api.KnownNames) []string { return k.Runs },
		"checkpoint": func(k api.KnownNames) []string { return k.Checkpoints },
	} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		// It fails for a flag that does not exist, or that already has a completion.
		_ = cmd.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return startingWith(known(s.knownNames(c.Context(), first(args))), prefix), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if cmd.Flags().Lookup("grant-syscall") != nil {
		_ = cmd.RegisterFlagCompletionFunc("grant-syscall", func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return startingWith(caller.DenySet{}.Names(), prefix), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if cmd.Flags().Lookup("grant-address") != nil {
		_ = cmd.RegisterFlagCompletionFunc("grant-address", cobra.NoFileCompletions) // no file is an address
	}
	if cmd.Flags().Lookup("policy") != nil {
		_ = cmd.RegisterFlagCompletionFunc("policy", func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return presetNames(prefix), cobra.ShellCompDirectiveDefault // a file, too
		})
	}
	if cmd.Flags().Lookup("cache") != nil {
		_ = cmd.RegisterFlagCompletionFunc("cache", func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return startingWith(caches(), prefix), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if cmd.Flags().Lookup("best") != nil {
		_ = cmd.RegisterFlagCompletionFunc("best", func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return startingWith(engine.Bests(), prefix), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if cmd.Flags().Lookup("runtime") != nil {
		_ = cmd.RegisterFlagCompletionFunc("runtime", func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return startingWith(engine.Runtimes(), prefix), cobra.ShellCompDirectiveNoFileComp
		})
	}
	for _, sub := range cmd.Commands() {
		s.addCompletions(sub)
	}
}

// completeStates completes a cell, then its checkpoints.
func (s *frame) completeStates(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	known := s.knownNames(cmd.Context(), first(args))
	if len(args) == 0 {
		return startingWith(known.Cells, prefix), cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(known.Checkpoints, prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeDiff completes a cell, then its checkpoints and other cells.
func (s *frame) completeDiff(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	names, directive := s.completeStates(cmd, args, prefix)
	if len(args) > 0 {
		names = append(names, s.cellNames(cmd.Context(), prefix)...)
	}
	return names, directive
}

// completeReceipt completes the id of a receipt.
func (s *frame) completeReceipt(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(s.knownNames(cmd.Context(), "").Receipts, prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeCaches completes the names of shared caches.
func (s *frame) completeCaches(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return startingWith(s.knownNames(cmd.Context(), "").Caches, prefix), cobra.ShellCompDirectiveNoFileComp
}

// knownNames returns the names that can be typed, by default of the cell of the working
// directory. A home that cannot be read has none.
func (s *frame) knownNames(ctx context.Context, name string) (known api.KnownNames) {
	if ctx == nil {
		ctx = context.Background()
	}
	name, _, _ = strings.Cut(name, "~")
	_ = s.rawEngine(Read, func(e Engine) error {
		if dir, err := os.Getwd(); name == "" && err == nil {
			name, _, _ = e.CellAt(ctx, dir)
		}
		known = e.KnownNames(ctx, name)
		return nil
	})
	return known
}

// startingWith returns the names with a prefix. A description may follow a name
// after a tab.
func startingWith(names []string, prefix string) (out []string) {
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			out = append(out, n)
		}
	}
	return out
}
