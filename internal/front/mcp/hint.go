package mcp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api/hint"
)

// operation returns a tool, as a caller sees it, for the words of hints: the tool that
// stands for a command, with its arguments.
func (t tool) operation(def *sdk.Tool) hint.Operation {
	fields := map[string]bool{}
	if schema, ok := def.InputSchema.(*jsonschema.Schema); ok {
		for name, p := range schema.Properties {
			fields[name] = p.Type == "boolean" || slices.Equal(p.Types, []string{"null", "boolean"})
		}
	}
	return hint.Operation{Command: t.commandLine(), Fields: fields, Text: func(values map[string]any) string {
		args, err := json.Marshal(values)
		if err != nil || len(values) == 0 {
			return def.Name
		}
		return def.Name + " " + string(args)
	}}
}

// commandLine returns the command that does the same. Without one, what a command of the
// name of the tool would be.
func (t tool) commandLine() string {
	if command := cmp.Or(t.command, t.op.Command); command != "" {
		return command
	}
	words := strings.ReplaceAll(t.name, "_", " ")
	for _, name := range []string{cellField, sessionField} {
		if t.schema.Properties[name] != nil && (name != cellField || t.needsCell) {
			words += " {" + name + "}"
		}
	}
	return words
}
