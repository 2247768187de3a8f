package egress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

// connectionHint returns the smallest addition to a policy that lists a host
// with a program. A person decides which requests it should allow.
func connectionHint(to place, proc Process) string {
	binary := proc.Binary
	if proc.Untrusted || binary == "" {
		binary = anyBinary
	}
	return fmt.Sprintf("network_policies: {NAME: {endpoints: [{host: %s, port: %d, protocol: rest, access: read-only}], binaries: [{path: %s}]}}",
		scalar(to.host), to.port, scalar(binary))
}

// requestHint returns the smallest rule that would have allowed a request. If a
// deny rule matched, only removing it helps.
func requestHint(f *flight) string {
	e := f.endpoint
	switch {
	case strings.Contains(f.decision.Rule, ".deny_rules["):
		return "remove " + f.decision.Rule
	case e == nil:
		return fmt.Sprintf("endpoints: [{host: %s, port: %d, path: %s, protocol: rest, rules: [{allow: %s}]}]",
			scalar(f.to.host), f.to.port, scalar(f.q.Path), httpRule(f.q))
	case f.q.Facts == nil && e.Access != policy.AccessNone:
		return "access: " + smallestAccess(f.q.Method)
	}
	if f.q.Facts != nil {
		return factHint(f.q.Facts)
	}
	return "rules: [{allow: " + httpRule(f.q) + "}]"
}

// factHint proposes a rule for each operation in a request.
func factHint(facts *policy.Facts) string {
	rules := factRules(facts)
	for i, r := range rules {
		rules[i] = "{allow: " + r + "}"
	}
	return "rules: [" + strings.Join(slices.Compact(rules), ", ") + "]"
}

func smallestAccess(method string) string {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return "read-only"
	case "POST", "PUT", "PATCH":
		return "read-write"
	}
	return "full"
}

func httpRule(q policy.Request) string {
	return fmt.Sprintf("{method: %s, path: %s}", scalar(q.Method), scalar(q.Path))
}

// maxRules bounds the rules that are proposed for a batch.
const maxRules = 16

func factRules(facts *policy.Facts) []string {
	var out []string
	for _, op := range facts.Operations[:min(len(facts.Operations), maxRules)] {
		if op.Type == policy.OperationNone {
			return []string{"{operation_type: query}"}
		}
		r := "{operation_type: " + op.Type.String()
		if len(op.Fields) > 0 {
			fields := make([]string, 0, len(op.Fields))
			for _, f := range op.Fields[:min(len(op.Fields), maxRules)] {
				fields = append(fields, scalar(f))
			}
			r += ", fields: [" + strings.Join(fields, ", ") + "]"
		}
		out = append(out, r+"}")
	}
	for _, c := range facts.Calls[:min(len(facts.Calls), maxRules)] {
		r := "{method: " + scalar(c.Method)
		if c.Service != "" {
			r = "{service: " + scalar(c.Service) + ", method: " + scalar(c.Method)
		}
		if c.Tool != "" {
			r += ", tool: " + scalar(c.Tool)
		}
		out = append(out, r+"}")
	}
	return out
}

// scalar writes a text for YAML: plain if it is unambiguous, in quotes
// otherwise.
func scalar(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if s != "" && strings.Trim(s, plain) == "" && len(s) < 64 {
		switch strings.ToLower(s) {
		case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		default:
			return s
		}
	}
	return strconv.QuoteToASCII(s)
}
