// Package preset has the policies that come with the program: plain policy files
// with a name each. A preset allows what its file lists; one of them, dev, also
// runs the host's package tools to find out which registries they use.
//
// It returns texts, which are parsed and validated like any file. It must not know
// cells, what rules mean or the command line.
package preset

import (
	"context"
	"embed"
	"net/netip"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
)

//go:embed policies/*.yaml
var files embed.FS

// Dev is the preset that runs the host's tools.
const Dev = "dev"

// Names lists the presets, sorted.
func Names() []string {
	entries, err := files.ReadDir("policies")
	if err != nil {
		panic(err) // cannot happen: the directory is embedded
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

// Summary returns the first sentence of a known preset, which describes its
// purpose.
func Summary(name string) string {
	text, err := files.ReadFile("policies/" + name + ".yaml")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
	sentence, _, _ := strings.Cut(line, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// Registry is a host that the host's tools get packages from, and its addresses.
type Registry struct {
	Host  string
	Port  uint16
	Addrs []netip.Addr
}

// Text returns the policy file of a known preset, and the registries that it
// allows because the host's tools use them. env is the environment of these, as K=V;
// none is started from a closed directory.
func Text(ctx context.Context, name string, env []string, closed hosttool.ExcludedDirs) ([]byte, []Registry) {
	if name == Dev {
		return DevText(ctx, env, closed, false)
	}
	text, err := files.ReadFile("policies/" + name + ".yaml")
	if err != nil {
		return nil, nil
	}
	return text, nil
}

// DevText is Text of dev. With system it also has the mirrors that packages of the
// system come from.
func DevText(ctx context.Context, env []string, closed hosttool.ExcludedDirs, system bool) ([]byte, []Registry) {
	text, err := files.ReadFile("policies/" + Dev + ".yaml")
	if err != nil {
		panic(err) // cannot happen: the file is embedded
	}
	return (&tools{env: env, closed: closed}).dev(ctx, text, system)
}

// dev extends the file of dev by what the host's tools use.
func (h *tools) dev(ctx context.Context, text []byte, system bool) ([]byte, []Registry) {
	found := h.registries(ctx, system)
	var list []Registry
	for _, r := range found.registries {
		list = append(list, Registry{r.host, r.port, r.addrs})
	}
	return extend(text, found), list
}

// extend adds what the tools reported, unless the file has it. If two of them
// disagree about one host, the policy would be refused: then the file alone is
// returned.
func extend(text []byte, f foundRegistries) []byte {
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
