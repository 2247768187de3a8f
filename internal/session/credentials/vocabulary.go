package credentials

import (
	"slices"

	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
)

// file is a file of Workcell's that no placeholder can stand for. It gets in only as
// a copy that the policy asks for.
type file struct {
	key    string
	agents []string
	// target is the path below the cell's home.
	target string
}

func copied() []file {
	several := []string{"claude", "codex", "gemini"}
	return []file{
		{"claude_mcp", []string{"claude"}, ".mcp.json"},
		{"gemini_env", []string{"gemini"}, ".gemini/.env"},
		{"gemini_projects", []string{"gemini"}, ".gemini/projects.json"},
		{"gcloud_adc", []string{"gemini"}, ".config/gcloud/application_default_credentials.json"},
		{"github_hosts", several, ".config/gh/hosts.yml"},
		{"github_config", several, ".config/gh/config.yml"},
	}
}

// OnlyCopied reports whether a credential is a file that gets into a cell only as a copy.
func OnlyCopied(key string) bool {
	return slices.ContainsFunc(copied(), func(f file) bool { return f.key == key })
}

// Vocabulary returns the names that an injection policy may use, for the adapters of
// a catalogue.
func Vocabulary(adapters []*adapter.Entry) injection.Vocabulary {
	v := injection.Vocabulary{Keys: map[string][]string{}, Restricted: []string{"github_config", "github_hosts"}}
	add := func(key, name string) {
		if !slices.Contains(v.Keys[key], name) {
			v.Keys[key] = append(v.Keys[key], name)
		}
	}
	for _, a := range adapters {
		v.Agents = append(v.Agents, a.Adapter.Name)
		for _, key := range a.Adapter.Keys() {
			add(key, a.Adapter.Name)
		}
	}
	for _, f := range copied() {
		for _, name := range f.agents {
			add(f.key, name)
		}
	}
	return v
}
