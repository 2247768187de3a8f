package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// Canonical returns the canonical text of a policy. It parses to an equal
// policy with the same text. Defaults are written out, and lists whose order
// has no meaning are sorted; endpoints and rules keep their order, by which
// events name them. A section that was not given and has no values is left out,
// and so are filesystem_policy where the default lists apply, because those
// depend on the host, and landlock, because a hard requirement that is written says
// more than the default.
func (p *Policy) Canonical() []byte {
	var b bytes.Buffer
	p.tree().write(&b, 0)
	return b.Bytes()
}

// Hash returns the hash of the canonical text, with the name of its algorithm.
func (p *Policy) Hash() string {
	sum := sha256.Sum256(p.Canonical())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Digest returns the hash without the name of its algorithm, as in results and
// receipts.
func (p *Policy) Digest() string { return strings.TrimPrefix(p.Hash(), "sha256:") }

// MarshalJSON returns the canonical policy as JSON, with sizes in bytes and
// durations in microseconds.
func (p *Policy) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := p.tree().encode(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p *Policy) tree() value {
	v := mappingOf(field{"version", integer(1)})
	if fs := p.Filesystem; fs.Given {
		v.add("filesystem_policy", mappingOf(
			field{"include_workdir", boolean(fs.IncludeWorkdir)},
			field{"read_only", texts(fs.ReadOnly)},
			field{"read_write", texts(fs.ReadWrite)},
		))
	}
	v.addIf(p.Landlock != LandlockDefault, "landlock", mappingOf(field{"compatibility", text(p.Landlock.String())}))
	v.add("process", mappingOf(
		field{"run_as_user", text(p.Process.RunAsUser)},
		field{"run_as_group", text(p.Process.RunAsGroup)},
		field{"allow_syscalls", texts(p.Process.AllowSyscalls)},
	))
	v.addIf(p.Limits != Limits{}, "limits", p.Limits.tree())
	if e := p.Environment; len(e.Inherit)+len(e.Set) > 0 {
		set := mappingOf()
		for _, s := range e.Set {
			set.add(s.Name, text(s.Value))
		}
		v.add("environment", mappingOf(field{"inherit", texts(e.Inherit)}, field{"set", set}))
	}
	ceilings, credentials := value{kind: sequence}, mappingOf()
	for _, c := range p.Ceilings {
		ceilings.list = append(ceilings.list, mappingOf(field{"network_policies", networkTree(c)}))
	}
	for _, c := range p.Credentials {
		credentials.add(c.Name, c.tree())
	}
	v.addIf(len(p.Network) > 0, "network_policies", networkTree(p.Network))
	v.addIf(len(p.Network) > 0 && len(p.Ceilings) > 0, "ceilings", ceilings)
	v.addIf(len(credentials.keys) > 0, "credentials", credentials)
	return v
}

func networkTree(network []NetworkPolicy) value {
	v := mappingOf()
	for _, n := range network {
		v.add(n.Key, n.tree())
	}
	return v
}

func (l Limits) tree() value {
	v := mappingOf()
	size := func(name string, n int64) { v.addIf(n > 0, name, value{yaml: formatSize(n), json: n}) }
	size("memory", l.Memory)
	v.addIf(l.CPUs > 0, "cpus", value{yaml: formatCPUs(l.CPUs), json: json.Number(formatCPUs(l.CPUs))})
	v.addIf(l.PIDs > 0, "pids", integer(l.PIDs))
	size("disk", l.Disk)
	v.addIf(l.OpenFiles > 0, "open_files", integer(l.OpenFiles))
	v.addIf(l.WallTime > 0, "wall_time", value{yaml: formatDuration(l.WallTime), json: microseconds(l.WallTime.Microseconds())})
	size("output", l.Output)
	return v
}

func (n NetworkPolicy) tree() value {
	endpoints, binaries := value{kind: sequence}, value{kind: sequence}
	for _, e := range n.Endpoints {
		endpoints.list = append(endpoints.list, e.tree())
	}
	for _, b := range n.Binaries {
		binaries.list = append(binaries.list, mappingOf(field{"path", text(b.String())}))
	}
	return mappingOf(field{"name", text(n.Name)}, field{"endpoints", endpoints}, field{"binaries", binaries})
}

func ports(list []uint16) value {
	v := value{kind: sequence}
	for _, p := range list {
		v.list = append(v.list, integer(int64(p)))
	}
	return v
}

func (e Endpoint) tree() value {
	v := mappingOf(field{"host", text(e.Host.String())}, field{"ports", ports(e.Ports)})
	v.addIf(!e.Path.IsZero(), "path", text(e.Path.String()))
	v.add("protocol", text(e.Protocol.String()))
	v.add("enforcement", text(e.Enforcement.String()))
	v.add("tls", text(e.TLS.String()))
	v.addIf(e.Access != AccessNone, "access", text(e.Access.String()))
	allow, deny := value{kind: sequence}, value{kind: sequence}
	for _, r := range e.Rules {
		allow.list = append(allow.list, mappingOf(field{"allow", r.tree()}))
	}
	for _, r := range e.DenyRules {
		deny.list = append(deny.list, r.tree())
	}
	v.addIf(len(allow.list) > 0, "rules", allow)
	v.addIf(len(deny.list) > 0, "deny_rules", deny)
	v.addIf(len(e.AllowedIPs) > 0, "allowed_ips", patterns(e.AllowedIPs))
	v.addIf(e.AllowEncodedSlash, "allow_encoded_slash", boolean(true))
	e.settings(&v)
	v.addIf(e.Signing != SigningNone, "credential_signing", text(e.Signing.String()))
	v.addIf(e.SigningService != "", "signing_service", text(e.SigningService))
	v.addIf(e.SigningRegion != "", "signing_region", text(e.SigningRegion))
	v.addIf(e.WebsocketRewrite, "websocket_credential_rewrite", boolean(true))
	v.addIf(e.RequestBodyRewrite, "request_body_credential_rewrite", boolean(true))
	v.addIf(e.UninspectedCredentials, "allow_uninspected_credentials", boolean(true))
	return v
}

// settings adds the keys that only some protocols have.
func (e Endpoint) settings(v *value) {
	v.addIf(e.RegisteredQueries, "persisted_queries", text("allow_registered"))
	queries := mappingOf()
	for _, q := range e.PersistedQueries {
		m := mappingOf(field{"operation_type", text(q.Operation.String())})
		m.addIf(q.OperationName != "", "operation_name", text(q.OperationName))
		m.add("fields", texts(q.Fields))
		queries.add(q.ID, m)
	}
	v.addIf(len(queries.keys) > 0, "graphql_persisted_queries", queries)
	switch e.Protocol {
	case GraphQL:
		v.add("graphql_max_body_bytes", integer(e.MaxBody))
	case Websocket:
		v.addIf(e.MaxBody > 0, "graphql_max_body_bytes", integer(e.MaxBody))
	case JSONRPC:
		v.add("json_rpc", mappingOf(field{"max_body_bytes", integer(e.MaxBody)}))
	case ModelContext:
		v.add("mcp", mappingOf(
			field{"max_body_bytes", integer(e.MaxBody)},
			field{"strict_tool_names", boolean(!e.MCP.LooseToolNames)},
			field{"allow_all_known_mcp_methods", boolean(e.MCP.AllMethods)},
		))
	case TCP, REST, GRPC:
	}
}

func (r Rule) tree() value {
	v := mappingOf()
	v.addIf(!r.Service.IsZero(), "service", text(r.Service.String()))
	v.addIf(!r.Call.IsZero(), "method", text(r.Call.String()))
	v.addIf(!r.Method.IsZero(), "method", text(r.Method.String()))
	v.addIf(!r.Path.IsZero(), "path", text(r.Path.String()))
	query := mappingOf()
	for _, q := range r.Query {
		query.add(q.Key, anyOf(q.Any))
	}
	v.addIf(len(query.keys) > 0, "query", query)
	v.addIf(r.Operation != OperationNone, "operation_type", text(r.Operation.String()))
	v.addIf(!r.OperationName.IsZero(), "operation_name", text(r.OperationName.String()))
	v.addIf(len(r.Fields) > 0, "fields", patterns(r.Fields))
	v.addIf(len(r.Tools) > 0, "tool", anyOf(r.Tools))
	return v
}

// anyOf writes a single pattern as a scalar and several as alternatives.
func anyOf(list []match.Text) value {
	if len(list) == 1 {
		return text(list[0].String())
	}
	return mappingOf(field{"any", patterns(list)})
}

func (c Credential) tree() value {
	endpoints := value{kind: sequence}
	for _, e := range c.Endpoints {
		endpoints.list = append(endpoints.list, mappingOf(
			field{"host", text(e.Host.String())}, field{"ports", ports(e.Ports)}, field{"path", text(e.Path.String())},
		))
	}
	v := mappingOf(field{"endpoints", endpoints})
	v.addIf(c.Header != "", "inject", mappingOf(field{"header", text(c.Header)}, field{"format", text(c.Format)}))
	v.addIf(c.ExposeAs != "", "expose_as", text(c.ExposeAs))
	v.addIf(len(c.ReplaceInHeaders) > 0, "replace_in_headers", texts(c.ReplaceInHeaders))
	v.addIf(len(c.ReplaceInQuery) > 0, "replace_in_query", texts(c.ReplaceInQuery))
	v.add("replace_in_body", boolean(c.ReplaceInBody))
	v.addIf(c.KeepInBody, "keep_in_body", boolean(c.KeepInBody))
	return v
}
