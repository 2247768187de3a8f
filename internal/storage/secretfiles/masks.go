package secretfiles

import (
	"slices"
	"strings"
	"sync"
)

// instructions are the files in the root of a workspace whose text an agent follows.
// They are not control files: what a session writes there is an ordinary change.
func instructions() []string {
	return []string{
		"AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", "CRUSH.md",
		".github/copilot-instructions.md",
	}
}

// Instructions returns the instruction files of agents, as paths below the root of
// a workspace.
func Instructions() []string { return instructions() }

func isInstruction(path string) bool { return slices.Contains(instructions(), path) }

// IsGit reports whether path, or a directory above it, is a setting or a hook of git.
func IsGit(path string, dir bool) bool {
	what, _, _ := isControl(path, dir)
	return what == gitSetting
}

// IsMCP reports whether path, or a directory above it, names servers that an agent
// starts.
func IsMCP(path string, dir bool) bool { return mcpList().covers(path, dir) }

var mcpList = sync.OnceValue(func() *list {
	l, err := newList(mcpFiles(), true)
	if err != nil {
		panic(err) // the list is fixed, and a test parses it
	}
	return l
})

// MaskedNames returns the paths without wildcards that a cell with masks shows
// other than they are, each with its mask: names, and names in a directory of a
// fixed name.
func MaskedNames() map[string]Mask {
	m := map[string]Mask{}
	for _, g := range controlGroups() {
		for _, p := range g.patterns {
			p = strings.TrimPrefix(p, "**/")
			if g.mask != Shown && !strings.ContainsAny(p, `*?[`) {
				m[p] = g.mask
			}
		}
	}
	return m
}
