package policy

import (
	"cmp"
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
	o := r.object(n, path, "endpoints", "inject", "expose_as", "replace_in_body")
	c := Credential{Name: name, ReplaceInBody: o.boolean("replace_in_body", false)}
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
		o.missing("endpoints", "missing or empty; a credential goes nowhere else")
	}
	if o.has("inject") {
		c.Header, c.Format = o.inject()
	}
	if o.has("expose_as") {
		c.ExposeAs = o.exposeAs(name, &p.Environment, exposed)
	}
	switch {
	case !o.has("inject") && !o.has("expose_as"):
		o.missing("inject", "missing, and so is expose_as; without them the credential is never used")
	case c.ReplaceInBody && !o.has("expose_as"):
		o.bad("replace_in_body", "needs expose_as; without it the cell has no placeholder to put into a body")
	}
	return c
}

func (o *object) inject() (header, format string) {
	in := o.r.object(o.vals["inject"], o.at("inject"), "header", "format")
	if in.node.Kind != yaml.MappingNode {
		return "", ""
	}
	if !in.has("header") {
		in.missing("header", "missing")
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
