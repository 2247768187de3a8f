// Package preset has policies that come with the program: plain policy files
// with a name each. What a preset allows is what its file says; one of them,
// dev, also asks the host's package tools which registries they use.
//
// It gives texts, which are parsed and validated like any file. It must not know
// cells, what rules mean or the command line.
package preset

import (
	"context"
	"embed"
	"net/netip"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

//go:embed policies/*.yaml
var files embed.FS

// Dev is the preset that asks the host's tools.
const Dev = "dev"

// Names lists the presets, sorted.
func Names() []string {
	entries, err := files.ReadDir("policies")
	if err != nil {
		panic(err) // not reached: it is part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Known reports whether there is a preset of this name.
func Known(name string) bool { return slices.Contains(Names(), name) }

// Summary returns the first sentence of a preset that is known: what it is for.
func Summary(name string) string {
	text, err := files.ReadFile("policies/" + name + ".yaml")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
	sentence, _, _ := strings.Cut(line, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// Registry is a place that the host's tools get packages from, and its addresses.
type Registry struct {
	Host  string
	Port  uint16
	Addrs []netip.Addr
}

// Text returns the policy file of a preset that is known, and the registries that
// it lets the cell use because the host's tools do.
func Text(ctx context.Context, name string) ([]byte, []Registry) {
	text, err := files.ReadFile("policies/" + name + ".yaml")
	if err != nil || name != Dev {
		return text, nil
	}
	found := (&tools{}).registries(ctx)
	var list []Registry
	for _, r := range found.registries {
		list = append(list, Registry{r.host, r.port, r.addrs})
	}
	return extended(text, found), list
}

// extended adds what the tools said, unless the file has it. Two that disagree
// about one host would make a policy that is refused: then it is the file alone.
func extended(text []byte, f found) []byte {
	if own, err := policy.Parse(Dev, text, policy.Options{}); err == nil {
		f.registries = slices.DeleteFunc(f.registries, func(r registry) bool { return serves(own, r) })
	}
	all := slices.Concat(text, f.yaml())
	if _, err := policy.Parse(Dev, all, policy.Options{}); err != nil {
		return append(text, "# The registries of this host's tools cannot be part of one policy.\n"...)
	}
	return all
}

func serves(p *policy.Policy, r registry) bool {
	return slices.ContainsFunc(p.Network, func(n policy.NetworkPolicy) bool {
		return slices.ContainsFunc(n.Endpoints, func(e policy.Endpoint) bool { return e.Serves(r.host, r.port) })
	})
}
