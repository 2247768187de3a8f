package policy

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// maxKey bounds the keys that a file may choose. YAML allows no key over 1024
// characters, and a canonical text may need escapes.
const maxKey = 160

// Each endpoint is compared with every other one, and each credential with the
// environment; these bounds keep that fast.
const (
	maxEndpoints   = 1024
	maxCredentials = 256
)

// ceilings reads lists of network policies that must allow too what the policy's own
// list allows.
func (r *reader) ceilings(o *object) [][]NetworkPolicy {
	var out [][]NetworkPolicy
	for i, n := range o.list("ceilings") {
		if i == maxCeilings {
			r.bad(n, "ceilings", "more than %d of them", maxCeilings)
			break
		}
		path := index("ceilings", i)
		c := r.object(n, path, "network_policies")
		if n.Kind != yaml.MappingNode {
			continue
		}
		var network []NetworkPolicy
		if list := c.vals["network_policies"]; list != nil {
			network = r.network(list, c.at("network_policies"))
			if list.Kind == yaml.MappingNode && len(list.Content) == 0 {
				c.bad("network_policies", "empty, so that nothing would be allowed; leave out network_policies of the policy instead")
			}
		} else {
			c.missingKey("network_policies", "missing; a ceiling has nothing else")
		}
		out = append(out, network)
	}
	return out
}

func (r *reader) network(n *yaml.Node, list string) []NetworkPolicy {
	keys, vals := r.entries(n, list)
	var out []NetworkPolicy
	var places []place
	for i, k := range keys {
		path := join(list, k.Value)
		if !nameOK(k.Value) {
			r.bad(k, list, "%s is not a name: letters, digits, . _ - and at most 63 of them", show(k.Value))
			continue
		}
		p, pl := r.networkPolicy(vals[i], path, k.Value)
		out, places = append(out, p), append(places, pl...)
	}
	if len(places) > maxEndpoints {
		last := places[maxEndpoints]
		r.bad(last.node, last.path, "more than %d endpoints in all", maxEndpoints)
		places = places[:maxEndpoints]
	}
	r.conflicts(places)
	slices.SortFunc(out, func(a, b NetworkPolicy) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func nameOK(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 63 && strings.Trim(s[:1], letters+"_") == "" && strings.Trim(s, letters+"._-") == ""
}

func (r *reader) networkPolicy(n *yaml.Node, path, key string) (NetworkPolicy, []place) {
	o := r.object(n, path, "name", "endpoints", "binaries")
	p := NetworkPolicy{Key: key, Name: key}
	if o.has("name") {
		p.Name = o.text("name")
		if len(p.Name) > 128 || hasControl(p.Name) || p.Name == "" {
			o.bad("name", "a name has 1 to 128 bytes and no control characters")
		}
	}
	if n.Kind != yaml.MappingNode {
		return p, nil
	}
	var places []place
	for i, e := range o.list("endpoints") {
		at := index(o.at("endpoints"), i)
		ep := r.endpoint(e, at)
		p.Endpoints = append(p.Endpoints, ep)
		places = append(places, place{node: e, path: at, ep: ep})
	}
	if len(o.list("endpoints")) == 0 && !o.wrongList("endpoints") {
		o.missingKey("endpoints", "missing or empty; without endpoints the policy allows nothing")
	}
	if len(o.list("binaries")) == 0 && !o.wrongList("binaries") {
		o.missingKey("binaries", `missing or empty; add the line "binaries: [{ path: /usr/bin/PROGRAM }]", or "binaries: [{ path: \"/**\" }]" for any binary`)
	}
	p.Binaries = r.binaries(o)
	for i := range places {
		places[i].binaries = p.Binaries
	}
	return p, places
}

// wrongList reports whether a key is present but not a list, which was already
// reported.
func (o *object) wrongList(key string) bool {
	return o.has(key) && o.vals[key].Kind != yaml.SequenceNode
}

func (r *reader) binaries(o *object) []match.Path {
	var out []match.Path
	if o.wrongList("binaries") {
		return nil
	}
	for i, b := range o.list("binaries") {
		// OpenShell ignores "harness" too.
		bo := r.object(b, index(o.at("binaries"), i), "path", "harness")
		if b.Kind != yaml.MappingNode {
			continue
		}
		bo.boolean("harness", false)
		if !bo.has("path") {
			bo.missingKey("path", "missing")
			continue
		}
		s, ok := r.text(bo.vals["path"], bo.at("path"))
		if !ok {
			continue
		}
		m, err := match.NewBinary(s)
		if err != nil {
			bo.bad("path", "%s: %v", show(s), err)
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b match.Path) int { return cmp.Compare(a.String(), b.String()) })
	return slices.CompactFunc(out, match.Path.Equal)
}

// place is an endpoint with its position, for checks across endpoints.
type place struct {
	node *yaml.Node
	path string
	ep   Endpoint
	// binaries are those of the entry.
	binaries []match.Path
}

// conflicts finds endpoints that give one connection or request two meanings.
// Decrypting TLS, the allowed addresses and the form of a path are decided
// before any path is matched, so endpoints for one host and port that one
// binary could match must agree on them. Endpoints for one path must agree on
// its protocol. Two names may be one binary through links, which a policy
// cannot know: if endpoints then disagree, the proxy applies the stricter one.
func (r *reader) conflicts(places []place) {
	for i, b := range places {
		for _, a := range places[:i] {
			if a.ep.Host.IsZero() || !a.ep.Host.Equal(b.ep.Host) || !shared(a.ep.Ports, b.ep.Ports) || !overlap(a.binaries, b.binaries) {
				continue
			}
			what := ""
			switch {
			case (a.ep.Protocol == TCP) != (b.ep.Protocol == TCP):
				what = "whether requests are inspected"
			case a.ep.TLS != b.ep.TLS:
				what = "tls"
			case !slices.Equal(a.ep.AllowedIPs, b.ep.AllowedIPs):
				what = "allowed_ips"
			case a.ep.AllowEncodedSlash != b.ep.AllowEncodedSlash:
				what = "allow_encoded_slash"
			case !a.ep.Path.Equal(b.ep.Path):
			case a.ep.Protocol != b.ep.Protocol:
				what = "protocol, for the same path"
			case a.ep.Enforcement != b.ep.Enforcement:
				what = "enforcement, for the same path"
			}
			if what != "" {
				r.bad(b.node, b.path, "does not agree with %s, the same host and port, on %s", a.path, what)
				break
			}
		}
	}
}

// overlap reports whether one binary could match both lists. Two patterns
// overlap unless their beginnings differ.
func overlap(a, b []match.Path) bool {
	return slices.ContainsFunc(a, func(x match.Path) bool {
		return slices.ContainsFunc(b, func(y match.Path) bool {
			if x.Exact() || y.Exact() {
				return x.Equal(y) || x.Exact() && y.Match(x.String()) || y.Exact() && x.Match(y.String())
			}
			left, _, _ := strings.Cut(x.String(), "*")
			right, _, _ := strings.Cut(y.String(), "*")
			return strings.HasPrefix(left, right) || strings.HasPrefix(right, left)
		})
	})
}

func shared(a, b []uint16) bool {
	return slices.ContainsFunc(a, func(p uint16) bool { return slices.Contains(b, p) })
}
