package policy

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Syscalls knows the names of system calls, and which of them a cell is denied.
type Syscalls interface {
	Known(name string) bool
	Denied(name string) (reason string, denied bool)
}

// Options holds what a policy is checked against besides itself.
type Options struct {
	// Syscalls checks the names in allow_syscalls. Without it any well-formed
	// name passes.
	Syscalls Syscalls
	// Homes are the caller's home directory under each name that it has. They
	// cannot be listed as a whole.
	Homes []string
}

// Parse reads a policy file. The error is an *Error with every problem found;
// the name of the file is for its messages only.
func Parse(file string, data []byte, opt Options) (*Policy, error) {
	r := &reader{file: file, opt: opt}
	p := Default()
	if top := r.document(data); top != nil {
		r.policy(top, p)
	}
	if len(r.problems) > 0 {
		return nil, newError(r.problems, r.dropped)
	}
	return p, nil
}

func (r *reader) policy(top *yaml.Node, p *Policy) {
	o := r.object(top, "", "version", "filesystem_policy", "landlock", "process", "limits", "environment",
		"network_policies", "ceilings", "credentials", "network_middlewares")
	if top.Kind != yaml.MappingNode {
		return
	}
	switch v := o.vals["version"]; {
	case v == nil:
		o.missingKey("version", "missing; write version: 1")
	case v.Kind != yaml.ScalarNode || !isPlain(v) || v.Value != "1":
		o.bad("version", "must be the number 1, not %s", kindAndValue(v))
	}
	if o.has("network_middlewares") {
		o.refuseKey("network_middlewares", "a policy cannot name programs that rewrite traffic on the host's side")
	}
	if n := o.vals["filesystem_policy"]; n != nil {
		p.Filesystem = r.filesystem(n)
	}
	if n := o.vals["landlock"]; n != nil {
		l := r.object(n, "landlock", "compatibility")
		p.Landlock = Landlock(l.enum("compatibility", landlockNames()))
	}
	if n := o.vals["process"]; n != nil {
		p.Process = r.process(n)
	}
	if n := o.vals["limits"]; n != nil {
		p.Limits = r.limits(n)
	}
	if n := o.vals["environment"]; n != nil {
		p.Environment = r.environment(n)
	}
	if n := o.vals["network_policies"]; n != nil {
		p.Network = r.network(n, "network_policies")
	}
	if p.Ceilings = r.ceilings(o); len(p.Ceilings) > 0 && len(p.Network) == 0 && len(r.problems) == 0 {
		o.bad("ceilings", "limit what network_policies allow, and there are none; leave them out")
	}
	if n := o.vals["credentials"]; n != nil {
		p.Credentials = r.credentials(n, p)
	}
}

// refuseKey reports a key of OpenShell that is not supported here.
func (o *object) refuseKey(key, why string) {
	n := o.keys[key]
	o.r.at(n.Line, n.Column, o.at(key), o.at(key)+": not supported: "+why)
}

func kindAndValue(n *yaml.Node) string {
	k := kind(n)
	if k == "a number" || k == "a truth value" {
		return show(n.Value)
	}
	return k
}

func (r *reader) process(n *yaml.Node) Process {
	o := r.object(n, "process", "run_as_user", "run_as_group", "allow_syscalls")
	p := Process{RunAsUser: o.identity("run_as_user", "user"), RunAsGroup: o.identity("run_as_group", "group")}
	for _, it := range o.texts("allow_syscalls") {
		switch {
		case !syscallName(it.text):
			r.bad(it.node, it.path, "%s is not the name of a system call", show(it.text))
		case r.opt.Syscalls == nil:
		case !r.opt.Syscalls.Known(it.text):
			r.bad(it.node, it.path, "no system call is called %s", show(it.text))
			continue
		default:
			if _, denied := r.opt.Syscalls.Denied(it.text); !denied {
				r.bad(it.node, it.path, "%s is allowed already; the list names what is taken out of the deny set", it.text)
			}
		}
		p.AllowSyscalls = append(p.AllowSyscalls, it.text)
	}
	p.AllowSyscalls = sortedSet(p.AllowSyscalls)
	return p
}

func syscallName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// identity reads a user or group: a name or a number of the cell's.
func (o *object) identity(key, what string) string {
	n := o.vals[key]
	if n == nil {
		return Sandbox
	}
	s, ok := o.r.word(n, o.at(key), "a name or a number")
	switch {
	case !ok:
		return Sandbox
	case s == "root" || strings.Trim(s, "+-0") == "" && s != "":
		o.bad(key, "a policy cannot make the command root")
	case strings.Trim(s, "0123456789") == "":
		if v, err := strconv.ParseUint(s, 10, 32); err != nil || v == 1<<32-1 || !decimal(s) {
			o.bad(key, "a %s number is from 1 to 4294967294, not %s", what, show(s))
		}
		return s
	case len(s) <= 32 && strings.Trim(s[:1], "abcdefghijklmnopqrstuvwxyz_") == "" &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "":
		return s
	default:
		o.bad(key, "%s is not the name of a %s", show(s), what)
	}
	return Sandbox
}

func (r *reader) environment(n *yaml.Node) Environment {
	o := r.object(n, "environment", "inherit", "set")
	var env Environment
	for _, it := range o.texts("inherit") {
		if r.variable(it.node, it.path, it.text) {
			env.Inherit = append(env.Inherit, it.text)
		}
	}
	env.Inherit = sortedSet(env.Inherit)
	if set := o.vals["set"]; set != nil {
		keys, vals := r.entries(set, "environment.set")
		for i, k := range keys {
			path := join("environment.set", k.Value)
			if !r.variable(k, "environment.set", k.Value) {
				continue
			}
			if _, both := slices.BinarySearch(env.Inherit, k.Value); both {
				r.bad(k, path, "also in environment.inherit; a variable has one source")
			}
			if s, ok := r.text(vals[i], path); ok {
				env.Set = append(env.Set, Variable{k.Value, s})
			}
		}
	}
	slices.SortFunc(env.Set, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return env
}

// variable checks the name of an environment variable.
func (r *reader) variable(n *yaml.Node, path, name string) bool {
	if variableName(name) {
		return true
	}
	r.bad(n, path, "%s is not the name of a variable: letters, digits and _, no digit first", show(name))
	return false
}

func variableName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	return s != "" && len(s) <= 256 && strings.Trim(s[:1], letters) == "" && strings.Trim(s, letters+"0123456789") == ""
}

// sortedSet returns a list as a set: sorted, without duplicates, nil if it is
// empty.
func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
