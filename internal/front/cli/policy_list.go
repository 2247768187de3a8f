package cli

import (
	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/policy/preset"
)

// presetEntry is one line of policy list.
type presetEntry struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

func newPolicyList(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the presets",
		Long: `List the presets: policies that come with the program. A preset's name can be used
instead of a policy file. policy show prints its text.`,
		Example: "  forkcell policy list",
		Args:    positional(),
		RunE: func(*cobra.Command, []string) error {
			s.started = true
			list := []presetEntry{}
			for _, name := range preset.Names() {
				list = append(list, presetEntry{name, preset.Summary(name)})
			}
			return s.emit(map[string]any{"presets": list}, func(p *page) {
				rows := [][]string{{"PRESET", "WHAT IT ALLOWS"}}
				for _, e := range list {
					rows = append(rows, []string{e.Name, e.Summary})
				}
				p.table(rows)
			})
		},
	}
}

// completePolicy completes the value of --policy with the names of the presets;
// without a match the shell offers files.
func completePolicy(cmd *cobra.Command) {
	if cmd.Flags().Lookup("policy") != nil {
		// The only failure is a second registration.
		_ = cmd.RegisterFlagCompletionFunc("policy", func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return presetNames(prefix), cobra.ShellCompDirectiveDefault
		})
	}
	for _, sub := range cmd.Commands() {
		completePolicy(sub)
	}
}
