package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// DefaultMaxBody bounds the bodies that a protocol's parser reads.
const DefaultMaxBody = 65536

const maxMaxBody = 64 << 20

func endpointKeys() []string {
	return []string{
		"host", "port", "ports", "path", "protocol", "enforcement", "tls", "access", "rules", "deny_rules",
		"allowed_ips", "allow_encoded_slash",
		"persisted_queries", "graphql_persisted_queries", "graphql_max_body_bytes", "json_rpc", "mcp",
		"credential_signing", "signing_service", "signing_region", "credential_binding",
		"websocket_credential_rewrite", "request_body_credential_rewrite", "allow_uninspected_credentials",
	}
}

func (r *reader) endpoint(n *yaml.Node, path string) Endpoint {
	o := r.object(n, path, endpointKeys()...)
	e := Endpoint{}
	if n.Kind != yaml.MappingNode {
		return e
	}
	e.Host = o.host()
	e.Ports = o.ports()
	known := o.protocol(&e)
	e.Enforcement = Enforcement(o.enum("enforcement", enforcementNames()))
	o.tls(&e)
	e.AllowEncodedSlash = o.boolean("allow_encoded_slash", false)
	e.AllowedIPs = o.addresses()
	e.Access = Access(o.enum("access", accessNames()))
	o.protocolSettings(&e)
	o.credentialSettings(&e)
	if known {
		o.inspection(&e)
	}
	return e
}

func (o *object) host() match.Host {
	if !o.has("host") {
		o.missingKey("host", "missing")
		return match.Host{}
	}
	s, ok := o.r.text(o.vals["host"], o.at("host"))
	if !ok {
		return match.Host{}
	}
	h, err := match.NewHost(s)
	if err != nil {
		o.bad("host", "%s: %v", show(s), err)
		return match.Host{}
	}
	if a, ok := h.Addr(); ok {
		if what := Unreachable(netip.PrefixFrom(a, a.BitLen())); what != "" {
			o.bad("host", "%s is %s, where no connection of a cell ever goes", h, what)
		}
	}
	if h.Match("localhost") {
		o.bad("host", "localhost is the cell itself, which needs no rule")
	}
	return h
}

func (o *object) ports() []uint16 {
	switch {
	case o.has("port") && o.has("ports"):
		o.bad("ports", "given besides port; write one of them")
		return nil
	case o.has("port"):
		return []uint16{uint16(o.integer("port", 1, 65535))}
	}
	var out []uint16
	for i, n := range o.list("ports") {
		out = append(out, uint16(o.r.integer(n, index(o.at("ports"), i), 1, 65535)))
	}
	if len(out) == 0 && !o.wrongList("ports") {
		o.missingKey("port", "missing; write the port, as in port: 443")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// protocol reports whether the protocol is one whose other keys can be checked.
func (o *object) protocol(e *Endpoint) bool {
	if n := o.vals["protocol"]; n != nil && n.Kind == yaml.ScalarNode && n.Value == "sql" {
		o.bad("protocol", "sql is not supported: its messages cannot be read, so its rules could not be enforced")
		return false
	}
	before := len(o.r.problems)
	e.Protocol = Protocol(o.enum("protocol", protocolNames()))
	return len(o.r.problems) == before
}

func (o *object) tls(e *Endpoint) {
	switch n := o.vals["tls"]; {
	case n != nil && n.Kind == yaml.ScalarNode && n.Value == "terminate":
		// OpenShell's older name for auto.
	case n != nil && n.Kind == yaml.ScalarNode && n.Value == "passthrough":
		o.bad("tls", "passthrough is ambiguous; write skip for traffic that is not opened, auto for traffic that is")
	default:
		e.TLS = TLS(o.enum("tls", tlsNames()))
	}
}

func (o *object) addresses() []netip.Prefix {
	var out []netip.Prefix
	for _, it := range o.texts("allowed_ips") {
		p, err := parsePrefix(it.text)
		if err != nil {
			o.r.bad(it.node, it.path, "%v", err)
			continue
		}
		if what := Unreachable(p); what != "" {
			o.r.bad(it.node, it.path, "%s holds addresses that are %s, where no connection of a cell ever goes", p, what)
			continue
		}
		out = append(out, p)
	}
	if n := o.vals["allowed_ips"]; n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		o.bad("allowed_ips", "empty; it would allow no address at all")
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s is not an address or a range such as 10.0.5.0/24", show(s))
	}
	if m := p.Masked(); m != p {
		return p, fmt.Errorf("%s has bits beyond its length; write %s", show(s), m)
	}
	return p, nil
}

// Unreachable returns which addresses of a range no connection of a cell may go
// to, whatever a policy allows; "" if there are none. A range that is much
// wider than a metadata service's, such as all unique-local addresses, counts
// as reachable: the dialler refuses the metadata service in it.
func Unreachable(p netip.Prefix) string {
	for _, u := range []struct{ prefix, what string }{
		{"127.0.0.0/8", "loopback"},
		{"::1/128", "loopback"},
		{"169.254.0.0/16", "link-local"},
		{"fe80::/10", "link-local"},
		{"0.0.0.0/8", "unspecified"},
		{"::/128", "unspecified"},
		{"224.0.0.0/4", "multicast"},
		{"ff00::/8", "multicast"},
		{"255.255.255.255/32", "broadcast"},
		{"::ffff:0:0/96", "IPv4 addresses in IPv6 form"},
		{"64:ff9b::/96", "IPv4 addresses in NAT64 form"},
		{"64:ff9b:1::/48", "IPv4 addresses in NAT64 form"},
	} {
		if netip.MustParsePrefix(u.prefix).Overlaps(p) {
			return u.what
		}
	}
	if metadata := netip.MustParsePrefix("fd00:ec2::/32"); metadata.Overlaps(p) && p.Bits() >= metadata.Bits() {
		return "a metadata service"
	}
	return ""
}

func (o *object) protocolSettings(e *Endpoint) {
	only := func(key string, p Protocol) bool {
		if o.has(key) && e.Protocol != p && !(p == GraphQL && e.Protocol == Websocket) {
			o.bad(key, "only for protocol: %s", p)
			return false
		}
		return o.has(key)
	}
	switch e.Protocol {
	case GraphQL, ModelContext, JSONRPC:
		e.MaxBody = DefaultMaxBody
	case TCP, REST, Websocket, GRPC:
	}
	if only("graphql_max_body_bytes", GraphQL) {
		e.MaxBody = o.integer("graphql_max_body_bytes", 1, maxMaxBody)
	}
	if only("json_rpc", JSONRPC) {
		s := o.r.object(o.vals["json_rpc"], o.at("json_rpc"), "max_body_bytes")
		if s.has("max_body_bytes") {
			e.MaxBody = s.integer("max_body_bytes", 1, maxMaxBody)
		}
	}
	if only("mcp", ModelContext) {
		s := o.r.object(o.vals["mcp"], o.at("mcp"), "max_body_bytes", "strict_tool_names", "allow_all_known_mcp_methods")
		if s.has("max_body_bytes") {
			e.MaxBody = s.integer("max_body_bytes", 1, maxMaxBody)
		}
		e.MCP = MCP{LooseToolNames: !s.boolean("strict_tool_names", true), AllMethods: s.boolean("allow_all_known_mcp_methods", false)}
	}
	if only("persisted_queries", GraphQL) {
		e.RegisteredQueries = o.enum("persisted_queries", []string{"deny", "allow_registered"}) == 1
	}
	if only("graphql_persisted_queries", GraphQL) {
		e.PersistedQueries = o.persisted()
		if !e.RegisteredQueries {
			o.bad("graphql_persisted_queries", "needs persisted_queries: allow_registered; without it all of them are denied")
		}
	}
}

func (o *object) credentialSettings(e *Endpoint) {
	if o.has("credential_binding") {
		o.refuseKey("credential_binding", "there are no providers here; name the credential and its endpoints under credentials")
	}
	e.WebsocketRewrite = o.boolean("websocket_credential_rewrite", false)
	e.RequestBodyRewrite = o.boolean("request_body_credential_rewrite", false)
	e.UninspectedCredentials = o.boolean("allow_uninspected_credentials", false)
	e.Signing = Signing(o.enum("credential_signing", signingNames()))
	for _, s := range []struct {
		key string
		to  *string
	}{{"signing_service", &e.SigningService}, {"signing_region", &e.SigningRegion}} {
		*s.to = o.text(s.key)
		switch {
		case o.has(s.key) && !o.has("credential_signing"):
			o.bad(s.key, "needs credential_signing")
		case o.has(s.key) && !nameOK(*s.to):
			o.bad(s.key, "%s is not a name", show(*s.to))
		}
	}
	switch {
	case e.Signing == SigningNone:
	case e.SigningService == "":
		o.bad("credential_signing", "needs signing_service")
	case e.RequestBodyRewrite:
		o.bad("credential_signing", "cannot be combined with request_body_credential_rewrite: the signature is over the body")
	case e.Protocol == TCP:
		o.bad("credential_signing", "needs a protocol that is inspected")
	}
}
