package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newGraph(s *frame) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Show the lineage of checkpoints over all cells",
		Example: `  forkcell graph
  forkcell graph --format dot | dot -Tsvg > lineage.svg`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			if err := oneOf(cmd, "format", format, "text", "json", "dot"); err != nil {
				return err
			}
			if format == "json" {
				s.json = true
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runGraph(ctx, s, e, format == "dot") })
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "print as `text|json|dot`")
	return cmd
}

func runGraph(ctx context.Context, s *frame, e historian, dot bool) error {
	nodes, err := e.Graph(ctx)
	if err != nil {
		return err
	}
	doc := struct {
		Nodes []api.GraphNode `json:"nodes"`
	}{nodes}
	return s.emit(doc, func(p *page) {
		if dot {
			printDot(p, nodes)
			return
		}
		printLineage(p, nodes)
	})
}

// printLineage draws the forest of checkpoints. Chains, which are most of it,
// stay in one column; only branches indent.
func printLineage(p *page, nodes []api.GraphNode) {
	children := map[string][]api.GraphNode{}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.CheckpointID] = true
	}
	for _, n := range nodes {
		parent := n.Parent
		if !known[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], n)
	}
	for _, n := range children[""] {
		drawLineage(p, children, n, "")
	}
}

func drawLineage(p *page, children map[string][]api.GraphNode, n api.GraphNode, indent string) {
	for {
		p.printf("%s* %s\n", indent, nodeText(p, n))
		next := children[n.CheckpointID]
		if len(next) == 0 {
			return
		}
		for _, branch := range next[:len(next)-1] {
			p.printf("%s|\\\n", indent)
			drawLineage(p, children, branch, indent+"| ")
		}
		n = next[len(next)-1]
	}
}

func nodeText(p *page, n api.GraphNode) string {
	parts := []string{n.CheckpointID, quote.Line(n.Cell), quote.Line(n.Kind)}
	if n.Outcome != "" {
		parts = append(parts, p.word(quote.Line(n.Outcome)))
	}
	if n.Decision != "" {
		parts = append(parts, p.word(quote.Line(n.Decision)))
	}
	if len(n.Names) > 0 {
		parts = append(parts, `"`+quote.Line(strings.Join(n.Names, `", "`))+`"`)
	}
	if n.Freed {
		parts = append(parts, "(freed)")
	}
	if len(n.Heads) > 0 {
		parts = append(parts, p.paint(cyan, "<- "+quote.Line(strings.Join(n.Heads, ", "))))
	}
	return strings.Join(parts, " ")
}

func printDot(p *page, nodes []api.GraphNode) {
	p.printf("digraph forkcell {\n  rankdir=LR;\n  node [shape=box];\n")
	for _, n := range nodes {
		label := []string{short(n.CheckpointID), n.Cell + " " + n.Kind}
		if n.Outcome != "" {
			label = append(label, n.Outcome+" "+n.Decision)
		}
		label = append(label, n.Names...)
		style := ""
		if n.Freed {
			style = ", style=dashed"
		} else if len(n.Heads) > 0 {
			label = append(label, "head of "+strings.Join(n.Heads, ", "))
			style = ", style=bold"
		}
		p.printf("  %s [label=%s%s];\n", dotString(n.CheckpointID), dotString(label...), style)
	}
	for _, n := range nodes {
		if n.Parent != "" {
			p.printf("  %s -> %s;\n", dotString(n.Parent), dotString(n.CheckpointID))
		}
	}
	p.printf("}\n")
}

// dotString quotes lines for the dot language, which knows only \" in quotes
// and \n in labels.
func dotString(lines ...string) string {
	escaped := make([]string, len(lines))
	for i, l := range lines {
		l = strings.ReplaceAll(quote.Line(l), `\`, `\\`)
		escaped[i] = strings.ReplaceAll(l, `"`, `\"`)
	}
	return fmt.Sprintf(`"%s"`, strings.Join(escaped, `\n`))
}
