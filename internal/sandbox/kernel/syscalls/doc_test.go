package syscalls

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "rewrite the deny set in docs/internals/seccomp.md")

// TestDocument checks that the page for people has the deny set as it is.
func TestDocument(t *testing.T) {
	t.Parallel()
	golden.Part(t, *update, "../../../../docs/internals/seccomp.md", "deny set", markdown())
}

// markdown lists the rules by group, groups in the order of their first rule.
func markdown() string {
	var groups []string
	members := map[string][]Rule{}
	for _, r := range slices.Concat(Rules(), LiveRules(), HeldRules()) {
		if members[r.Group] == nil {
			groups = append(groups, r.Group)
		}
		members[r.Group] = append(members[r.Group], r)
	}
	var b strings.Builder
	b.WriteString("\n| group | call | what is denied | answer | event | reason |\n|---|---|---|---|---|---|\n")
	for _, g := range groups {
		for _, r := range members[g] {
			what, event := "all", ""
			if r.Args != "" {
				what = r.Args
			}
			if r.Rare {
				event = "yes"
			}
			fmt.Fprintf(&b, "| %s | `%s`%s | %s | %s | %s | %s |\n", g, r.Name, only(r.Name), what, r.Action, event, r.Reason)
		}
	}
	b.WriteString("\n")
	return b.String()
}

func only(name string) string {
	for _, arch := range Arches() {
		if _, ok := Number(arch, name); !ok {
			if arch == ARM64 {
				return " (amd64)"
			}
			return " (arm64)"
		}
	}
	return ""
}
