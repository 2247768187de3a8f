package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// branchTools returns the tools that use warm cells.
func branchTools() []tool {
	return []tool{
		define(tool{
			op: op.Branch, name: "branch", title: "Make live cells with the memory of a warm one",
			about: "Make one or more live cells that begin with the memory and the files of a warm template, which start with the argument warm makes. Each has its own files and network. Use it to try different ways from one prepared state.",
		}, branch),
		pass(op.Eval, tool{
			name: "eval", title: "Run code in a warm interpreter",
			about: "Run code in the warm interpreter of a live cell that branch made, and return the value of its last line. Names that the code defines stay. In a template the code runs in a branch that is dropped afterwards.",
		}, describeEval),
	}
}

type branchArgs struct {
	InCell
	api.BranchBody
}

func branch(ctx context.Context, c *call, in branchArgs) (*answer, error) {
	doc, raw, err := fetch[api.BranchResult](ctx, c, post(in.Cell, "branch", in.BranchBody))
	if err != nil {
		return nil, err
	}
	return &answer{raw, fmt.Sprintf("branched %s at %s: %s", doc.Source, doc.CheckpointID, strings.Join(doc.Names(), ", "))}, nil
}

// describeEval returns what came of code for the model.
func describeEval(r *api.EvalResult) string {
	parts := []string{}
	if r.Output != "" {
		parts = append(parts, strings.TrimSuffix(r.Output, "\n"))
	}
	switch {
	case r.Error != nil:
		parts = append(parts, "the code raised "+r.Error.Type+": "+r.Error.Message, r.Error.Traceback)
	case r.Value != nil:
		parts = append(parts, *r.Value)
	default:
		parts = append(parts, "no value")
	}
	if len(r.Truncated) > 0 {
		parts = append(parts, "not all of it is here: longer than 256 KiB: "+strings.Join(r.Truncated, ", "))
	}
	return strings.Join(parts, "\n")
}
