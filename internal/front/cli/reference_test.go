package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "rewrite docs/reference/commands.md and the golden output of the scripts")

const referenceFile = "../../../docs/reference/commands.md"

// TestReference keeps docs/reference/commands.md in step with the commands.
func TestReference(t *testing.T) {
	t.Parallel()
	want := reference(New(nil, Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "v"))
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), want); diff != "" {
		t.Errorf("docs/reference/commands.md is out of date; run go test ./internal/front/cli -run TestReference -update\n%s", diff)
	}
}

// TestCommandsOfTheAPI: the commands that routes of the API name as theirs exist.
func TestCommandsOfTheAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^ +x-command: (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(named) == 0 {
		t.Fatal("no route names a command")
	}
	root := New(nil, Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "v")
	for _, m := range named {
		words, _, _ := strings.Cut(m[1], " {")
		found, left, err := root.Find(strings.Fields(words))
		if err != nil || len(left) > 0 || found.HasSubCommands() {
			t.Errorf("%s: %v, %v is left", m[1], err, left)
		}
	}
}

// TestEveryCommandIsDescribed holds the help texts to one form.
func TestEveryCommandIsDescribed(t *testing.T) {
	t.Parallel()
	root := New(nil, Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "v")
	walk(root, func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q", c.CommandPath(), c.Short)
		}
		if c.Example == "" && !c.HasSubCommands() {
			t.Errorf("%s: no example", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}

func walk(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			walk(sub, fn)
		}
	}
}

func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command reference\n\n")
	b.WriteString("Generated from the commands by `go test ./internal/front/cli -run TestReference -update`; do not edit.\n\n")
	b.WriteString(root.Long + "\n\n")
	b.WriteString("```\nforkcell [--home DIR] [--json] [--quiet] [--no-color] COMMAND ...\n```\n\n")
	b.WriteString("Flags of every command, anywhere before `--`:\n\n")
	flagTable(&b, root.PersistentFlags())
	b.WriteString(exitCodes)
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID != g.ID || c.Name() == "help" {
				continue
			}
			walk(c, func(c *cobra.Command) { commandText(&b, c) })
		}
	}
	b.WriteString(compatibility)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

const compatibility = "## Compatibility\n\n" +
	"Command lines of ForkCell 0.1 are accepted, and rewritten before they are parsed:\n\n" +
	"| ForkCell 0.1 | here |\n|---|---|\n" +
	"| `overlay VERB`, `native VERB`, `volume VERB` | `VERB`, refused unless the cell's backend is overlay; overlay or clone; delta |\n" +
	"| `overlay delete`, `native run-layer` | `rm`, `run` |\n" +
	"| `run --backend NAME` | `run`, refused unless that is the cell's backend: native-overlay, local-overlay, layer-clone, volume-delta, or auto for any |\n" +
	"| `run --exit-with-command --sync-logs --logs-since DUR` | `run` |\n\n" +
	"The verbs are accept, checkpoint, delete, doctor, fork, gc, init, restore, run, status and verify.\n"

const exitCodes = "Exit codes:\n\n" + `| code | meaning |
|---|---|
| 0 | done |
| 1 | it was tried and failed |
| 2 | wrong usage: unknown flag, bad value, missing argument |
| 3 | no such cell, checkpoint, run, receipt or decision |
| 4 | refused: a conflict, a busy cell, a failed verification, a control that cannot be enforced |
| 130, 143, 129 | stopped by Ctrl-C, by SIGTERM, by a hangup |

` + "`run` exits with the command's own code, and with 124 when it ran past `--timeout`, 125 when forkcell itself failed,\n" +
	"126 or 127 when the command could not be executed or was not found, 128+N when signal N killed it. A reader of\n" +
	"stdout that goes away changes no exit code.\n\n"

func commandText(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "### %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n\n", text)
	if c.HasSubCommands() {
		return
	}
	fmt.Fprintf(b, "```\n%s\n```\n\n", usageLine(c))
	flagTable(b, c.LocalNonPersistentFlags())
	if c.Example != "" {
		lines := strings.Split(c.Example, "\n")
		for i := range lines {
			lines[i] = strings.TrimPrefix(lines[i], "  ")
		}
		fmt.Fprintf(b, "Example:\n\n```\n%s\n```\n\n", strings.Join(lines, "\n"))
	}
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	rows := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if rows == 0 {
			b.WriteString("| flag | meaning |\n|---|---|\n")
		}
		rows++
		name, usage := pflag.UnquoteUsage(f)
		word := "--" + f.Name
		if f.Shorthand != "" {
			word = "-" + f.Shorthand + ", " + word
		}
		if f.NoOptDefVal != "" && f.Value.Type() != "bool" {
			word += "[=" + name + "]"
		} else if name != "" {
			word += " " + name
		}
		if !zeroDefault(f) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(word, "|", `\|`), strings.ReplaceAll(usage, "|", `\|`))
	})
	if rows > 0 {
		b.WriteString("\n")
	}
}

func zeroDefault(f *pflag.Flag) bool {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return true
	}
	return false
}

// TestErrorCodes keeps the table of error codes in step with package api.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n| code | meaning |\n|---|---|\n")
	for _, c := range api.Codes() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", c.Code, c.Meaning)
	}
	golden.Part(t, *update, "../../../docs/reference/exit-codes.md", "table of codes", table.String()+"\n")
}

// TestReferenceAtHome: the page of the API names every command that no daemon carries out.
func TestReferenceAtHome(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The command line through a daemon\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, command := range atHome() {
		if !strings.Contains(section, "`"+command+"`") {
			t.Errorf("docs/reference/api.md does not name %s", command)
		}
	}
}
