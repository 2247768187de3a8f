package policy

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const valueMark = "{value}"

func (r *reader) credentials(n *yaml.Node, p *Policy) []Credential {
	keys, vals := r.entries(n, "credentials")
	var out []Credential
	exposed := map[string]string{}
	for i, k := range keys {
		if i == maxCredentials {
			r.bad(k, "credentials", "more than %d of them", maxCredentials)
			break
		}
		if !nameOK(k.Value) {
			r.bad(k, "credentials", "%s is not a name: letters, digits, . _ - and at most 63 of them", show(k.Value))
			continue
		}
		out = append(out, r.credential(vals[i], k.Value, p, exposed))
	}
	slices.SortFunc(out, func(a, b Credential) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (r *reader) credential(n *yaml.Node, name string, p *Policy, exposed map[string]string) Credential {
	path := join("credentials", name)
	o := r.object(n, path, "endpoints", "inject", "expose_as", "replace_in_headers", "replace_in_query", "replace_in_body", "keep_in_body")
	c := Credential{Name: name}
	if n.Kind != yaml.MappingNode {
		return c
	}
	for i, e := range o.list("endpoints") {
		eo := r.object(e, index(o.at("endpoints"), i), "host", "port", "ports", "path")
		if e.Kind == yaml.MappingNode {
			ce := CredentialEndpoint{eo.host(), eo.ports(), eo.endpointPath(false)}
			c.Endpoints = append(c.Endpoints, ce)
			if why := ce.clearText(p.Network); why != "" {
				r.bad(e, eo.path, "%s, and credentials go over TLS only", why)
			}
		}
	}
	if len(o.list("endpoints")) == 0 && !o.wrongList("endpoints") {
		o.missingKey("endpoints", "missing or empty; a credential goes nowhere else")
	}
	if o.has("inject") {
		c.Header, c.Format = o.inject()
	}
	if o.has("expose_as") {
		c.ExposeAs = o.exposeAs(name, &p.Environment, exposed)
	}
	c.ReplaceInHeaders, c.ReplaceInQuery = o.headerNames("replace_in_headers"), o.parameterNames("replace_in_query")
	c.ReplaceInBody, c.KeepInBody = o.boolean("replace_in_body", false), o.boolean("keep_in_body", false)
	if !o.has("inject") && !o.has("expose_as") {
		o.missingKey("inject", "missing, and so is expose_as; without them the credential is never used")
		return c
	}
	o.places(c, p)
	return c
}

// places checks where a placeholder is replaced.
func (o *object) places(c Credential, p *Policy) {
	given := false
	for _, key := range [...]string{"replace_in_headers", "replace_in_query", "replace_in_body", "keep_in_body"} {
		given = given || o.has(key)
		if o.has(key) && !o.has("expose_as") && !o.isFalse(key) {
			o.bad(key, "needs expose_as; without it the cell has no placeholder to put there")
		}
	}
	if o.has("expose_as") && !o.has("inject") && !given && !signsAnywhere(p.Network) {
		o.bad("expose_as", "needs replace_in_headers, replace_in_query or replace_in_body, such as replace_in_headers: [Authorization]; without them the placeholder is replaced nowhere")
	}
	if c.ReplaceInBody && c.KeepInBody {
		o.bad("keep_in_body", "is true, and so is replace_in_body; a placeholder in a body is replaced, or it is kept")
	}
}

// isFalse reports whether a key is false.
func (o *object) isFalse(key string) bool { return o.vals[key].Value == "false" }

// signsAnywhere reports whether requests are signed with credentials, whose placeholders
// need no place.
func signsAnywhere(network []NetworkPolicy) bool {
	return slices.ContainsFunc(network, func(n NetworkPolicy) bool {
		return slices.ContainsFunc(n.Endpoints, func(e Endpoint) bool { return e.Signing != SigningNone })
	})
}

// maxPlaces bounds the headers, and the parameters, that a credential names.
const maxPlaces = 32

// headerNames returns names of headers in canonical form, sorted.
func (o *object) headerNames(key string) []string {
	return o.placeNames(key, refuseHeader, textproto.CanonicalMIMEHeaderKey)
}

// parameterNames returns names of parameters of a query, sorted.
func (o *object) parameterNames(key string) []string {
	refuse := func(s string) string {
		if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '&' || r == '=' || r == ';' }) {
			return "is not the name of a parameter"
		}
		return ""
	}
	return o.placeNames(key, refuse, func(s string) string { return s })
}

func (o *object) placeNames(key string, refuse func(string) string, form func(string) string) []string {
	var out []string
	for i, it := range o.texts(key) {
		switch why := refuse(it.text); {
		case i == maxPlaces:
			o.r.bad(it.node, it.path, "more than %d of them", maxPlaces)
			return out
		case why != "":
			o.r.bad(it.node, it.path, "%s %s", show(it.text), why)
		default:
			out = append(out, form(it.text))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (o *object) inject() (header, format string) {
	in := o.r.object(o.vals["inject"], o.at("inject"), "header", "format")
	if in.node.Kind != yaml.MappingNode {
		return "", ""
	}
	if !in.has("header") {
		in.missingKey("header", "missing")
	} else if header = in.text("header"); header != "" {
		if why := refuseHeader(header); why != "" {
			in.bad("header", "%s %s", show(header), why)
		}
	}
	if !in.has("format") {
		return header, valueMark
	}
	if format = in.text("format"); format == "" {
		return header, format
	}
	for i := range len(format) {
		if format[i] < ' ' || format[i] >= 0x7f {
			in.bad("format", "holds a character that no header has")
			return header, format
		}
	}
	if strings.Count(format, valueMark) != 1 || strings.ContainsAny(strings.Replace(format, valueMark, "", 1), "{}") {
		in.bad("format", "must hold %s once, and no other braces, as in \"Bearer %s\"", valueMark, valueMark)
	}
	return header, format
}

// refuseHeader returns why a header cannot carry a credential: headers that
// decide where a message goes or ends would give one request two meanings.
func refuseHeader(h string) string {
	for i := range len(h) {
		c := h[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return "is not the name of a header"
		}
	}
	switch low := strings.ToLower(h); {
	case h == "":
		return "is not the name of a header"
	case len(h) > 128:
		return "is too long"
	case low == "host", low == "connection", low == "upgrade", low == "te", low == "trailer", low == "expect",
		low == "keep-alive", strings.HasPrefix(low, "content-"), strings.HasPrefix(low, "transfer-"),
		strings.HasPrefix(low, "proxy-"), strings.HasPrefix(low, "sec-"):
		return "says how the message is sent, and cannot carry a credential"
	}
	return ""
}

func (o *object) exposeAs(name string, env *Environment, exposed map[string]string) string {
	v := o.text("expose_as")
	if v == "" && o.vals["expose_as"].Kind != yaml.ScalarNode {
		return ""
	}
	if !o.r.variable(o.vals["expose_as"], o.at("expose_as"), v) {
		return ""
	}
	_, inherited := slices.BinarySearch(env.Inherit, v)
	switch {
	case exposed[v] != "":
		o.bad("expose_as", "%s is the placeholder of %s already", v, exposed[v])
	case inherited, slices.ContainsFunc(env.Set, func(s Variable) bool { return s.Name == v }):
		o.bad("expose_as", "%s is in environment too; a variable has one source", v)
	}
	exposed[v] = name
	return v
}
