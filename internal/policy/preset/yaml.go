package preset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

// yaml returns the rest of the file of dev: entries of network_policies, and the
// environment.
func (f foundRegistries) yaml() []byte {
	var b strings.Builder
	for _, tool := range []string{"go", "npm", "pip", "cargo", "apt"} {
		if !slices.ContainsFunc(f.registries, func(r registry) bool { return r.tool == tool }) {
			continue
		}
		fmt.Fprintf(&b, "  %s_registry:\n    endpoints:\n", tool)
		for _, r := range f.registries {
			if r.tool == tool {
				b.WriteString("      - " + r.endpoint() + "\n")
			}
		}
		b.WriteString("    binaries: [{ path: \"/**\" }]\n")
	}
	if len(f.vars) > 0 {
		b.WriteString("environment:\n  set:\n")
	}
	for _, v := range f.vars {
		fmt.Fprintf(&b, "    %s: %s\n", v[0], strconv.QuoteToASCII(v[1]))
	}
	return []byte(b.String())
}

func (r registry) endpoint() string {
	more := ""
	if r.clear {
		more = ", tls: off"
	}
	if r.slashes {
		more += ", allow_encoded_slash: true"
	}
	return fmt.Sprintf("{ host: %s, port: %d, protocol: rest, access: read-only%s }", strconv.Quote(r.host), r.port, more)
}

// valid reports whether a policy can allow the registry. It cannot allow a mirror
// on this host itself, which the operator can grant with --resolve, or a name that
// is not valid.
func (r registry) valid() bool {
	text := "version: 1\nnetwork_policies: { a: { endpoints: [" + r.endpoint() + "], binaries: [{ path: \"/**\" }] } }\n"
	_, err := policy.Parse("registry", []byte(text), policy.Options{})
	return err == nil
}
