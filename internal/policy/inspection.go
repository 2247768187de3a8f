package policy

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// inspection reads the rules for requests of an endpoint.
func (o *object) inspection(e *Endpoint) {
	if e.Protocol == TCP {
		for _, key := range []string{"path", "access", "rules", "deny_rules", "allow_encoded_slash"} {
			if o.has(key) {
				o.bad(key, "needs a protocol that is inspected, such as protocol: rest; tcp (the default) is not")
			}
		}
		if e.Enforcement == Audit {
			o.bad("enforcement", "audit needs a protocol that is inspected; tcp (the default) is not")
		}
		if e.TLS == TLSOff {
			o.bad("tls", "off needs a protocol that is inspected; tcp (the default) forwards whatever comes")
		}
		return
	}
	switch {
	case e.TLS == TLSSkip:
		o.bad("tls", "skip leaves nothing to inspect; it goes with protocol: tcp only, not with %s", e.Protocol)
	case e.TLS == TLSOff && e.Protocol == GRPC:
		o.bad("tls", "off does not go with protocol: grpc, which needs HTTP/2, and that comes in TLS only")
	case e.TLS == TLSOff && e.Signing != SigningNone:
		o.bad("tls", "off does not go with credential_signing: credentials go over TLS only")
	}
	e.Path = o.endpointPath(e.AllowEncodedSlash)
	o.allowBase(e)
	e.Rules = o.rules("rules", e)
	e.DenyRules = o.rules("deny_rules", e)
	if e.Protocol == ModelContext {
		o.toolRules(e)
	}
}

func (o *object) endpointPath(encodedSlash bool) match.Path {
	s := "/**"
	if o.has("path") {
		if s = o.text("path"); s == "" {
			return match.Path{}
		}
	}
	p, err := match.NewURLPath(s, encodedSlash)
	if err != nil {
		o.bad("path", "%s: %v", show(s), err)
	}
	return p
}

// allowBase checks that exactly one key defines what is allowed.
func (o *object) allowBase(e *Endpoint) {
	for _, key := range []string{"rules", "deny_rules"} {
		if n := o.vals[key]; n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			o.bad(key, "empty; leave the key out")
		}
	}
	presets := e.Protocol == REST || e.Protocol == Websocket || e.Protocol == GraphQL
	switch {
	case o.has("access") && o.has("rules"):
		o.bad("access", "given besides rules; write one of them")
	case o.has("access") && !presets:
		o.bad("access", "there are no presets for protocol: %s; write rules", e.Protocol)
	case o.has("access"), o.has("rules"), e.MCP.AllMethods:
	case presets:
		o.missingKey("rules", "missing; protocol: %s needs rules or access", e.Protocol)
	default:
		o.missingKey("rules", "missing; protocol: %s needs rules", e.Protocol)
	}
}

// rules reads a list of rules. Allow rules are wrapped in "allow", deny rules
// are not.
func (o *object) rules(key string, e *Endpoint) []Rule {
	var out []Rule
	for i, n := range o.list(key) {
		path := index(o.at(key), i)
		if key == "rules" {
			w := o.r.object(n, path, "allow")
			if n.Kind != yaml.MappingNode {
				continue
			}
			if !w.has("allow") {
				w.missingKey("allow", "missing; a rule is written as allow: {...}")
				continue
			}
			n, path = w.vals["allow"], w.at("allow")
		}
		out = append(out, o.r.rule(n, path, e))
	}
	return out
}

// toolRules refuses a rule that makes others pointless: one that allows calls
// of any tool next to rules for named tools.
func (o *object) toolRules(e *Endpoint) {
	named := slices.ContainsFunc(e.Rules, func(r Rule) bool { return len(r.Tools) > 0 })
	for i, r := range e.Rules {
		if named && len(r.Tools) == 0 && r.Call.Match("tools/call") {
			o.r.bad(o.list("rules")[i], index(o.at("rules"), i), "allows every tool, next to rules that name tools")
		}
	}
	if named && e.MCP.AllMethods {
		o.bad("rules", "name tools, but allow_all_known_mcp_methods allows every tool")
	}
}

// Effective returns the rules of an inspected endpoint with its preset written
// out: a request is allowed if an allow rule matches it and no deny rule does.
func (e *Endpoint) Effective() (allow, deny []Rule) {
	allow, deny = slices.Clone(e.Rules), slices.Clone(e.DenyRules)
	if e.Access == AccessNone {
		return allow, deny
	}
	all := must(match.NewPath("/**"))
	methods := func(names ...string) {
		for _, m := range names {
			allow = append(allow, Rule{Method: must(match.NewMethod(m)), Path: all})
		}
	}
	switch {
	case e.Protocol == GraphQL && e.Access == Full:
		return append(allow, Rule{Operation: OperationAny}), deny
	case e.Protocol == GraphQL:
		allow = append(allow, Rule{Operation: OperationQuery})
		if e.Access == ReadWrite {
			allow = append(allow, Rule{Operation: OperationMutation})
		}
	case e.Access == Full:
		methods("*")
	case e.Protocol == Websocket:
		methods("GET")
		if e.Access == ReadWrite {
			methods("WEBSOCKET_TEXT")
		}
	case e.Access == ReadWrite:
		methods("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH")
	default:
		methods("GET", "HEAD", "OPTIONS")
		a, d := gitFetch()
		allow, deny = append(allow, a), append(deny, d)
	}
	return allow, deny
}

// gitFetch returns the rules for Git in "read-only": fetching uses POST, but
// only reads. The announcement of a push is a GET. It is denied too, although
// the push itself would be, so that Git fails with the first request.
func gitFetch() (allow, deny Rule) {
	allow = Rule{Method: must(match.NewMethod("POST")), Path: must(match.NewPath("/**/git-upload-pack"))}
	deny = Rule{
		Method: must(match.NewMethod("GET")), Path: must(match.NewPath("/**/info/refs")),
		Query: []QueryMatch{{Key: "service", Any: []match.Text{must(match.NewText("git-receive-pack"))}}},
	}
	return allow, deny
}

// must panics on an error in a pattern of this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func sortQuery(q []QueryMatch) {
	slices.SortFunc(q, func(a, b QueryMatch) int { return cmp.Compare(a.Key, b.Key) })
}
