package driver

import "strings"

// WithVariables returns an environment with variables set, as NAME=VALUE. Of several
// values for a name the last one counts.
func WithVariables(env, set []string) []string {
	last := make(map[string]int, len(set))
	for i, kv := range set {
		last[variable(kv)] = i
	}
	out := make([]string, 0, len(env)+len(set))
	for _, kv := range env {
		if _, again := last[variable(kv)]; !again {
			out = append(out, kv)
		}
	}
	for i, kv := range set {
		if last[variable(kv)] == i {
			out = append(out, kv)
		}
	}
	return out
}

// variable returns the name of NAME=VALUE.
func variable(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}
