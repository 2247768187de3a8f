package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/policy/preset"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newCompletion(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a completion script for a shell",
		Example: `  source <(forkcell completion bash)
  forkcell completion fish > ~/.config/fish/completions/forkcell.fish`,
		Args:      positional("SHELL"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			root := cmd.Root()
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(s.out, true); err != nil {
					return err
				}
				_, err := io.WriteString(s.out, bashAlone)
				return err
			case "zsh":
				return root.GenZshCompletion(s.out)
			case "fish":
				return root.GenFishCompletion(s.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(s.out)
			default:
				return usageError("one of: bash, zsh, fish, powershell", "completion: unknown shell %s", quote.Arg(args[0]))
			}
		},
	}
}

// bashAlone makes the script for bash work without the package bash-completion,
// which cobra's script uses to split the line. Words are taken as they were typed,
// up to the cursor: bash itself would split them at = and :.
const bashAlone = `
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
    __forkcell_init_completion()
    {
        local line=${COMP_LINE:0:COMP_POINT}
        COMPREPLY=()
        read -r -a words <<<"$line"
        [[ $line == *[[:space:]] ]] && words+=("")
        cword=$((${#words[@]} - 1))
        cur=${words[cword]}
        prev=${words[cword - 1]}
    }
fi
`

// completeCell completes the first argument of a command with the names of the
// cells. A home that cannot be opened completes nothing.
func (s *frame) completeCell(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return s.cellNames(cmd.Context(), prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeCells completes every argument with the names of the cells.
func (s *frame) completeCells(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.cellNames(cmd.Context(), prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeCellOrPreset completes the first argument with the names of the cells and
// the presets.
func (s *frame) completeCellOrPreset(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	names, directive := s.completeCell(cmd, args, prefix)
	if len(args) == 0 {
		names = append(names, presetNames(prefix)...)
	}
	return names, directive
}

func presetNames(prefix string) []string { return startingWith(preset.Names(), prefix) }

func (s *frame) cellNames(ctx context.Context, prefix string) []string {
	return startingWith(s.knownNames(ctx, "").Cells, prefix)
}
