package policy

import (
	"errors"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Explanation is a decision and the rule that made it.
type Explanation struct {
	Allowed bool `json:"allowed"`
	// Access is the access to a path; empty for everything else.
	Access string `json:"access,omitempty"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Needs is a flag that the operator must set, or nothing is run.
	Needs string `json:"needs,omitempty"`
	// Audited reports that the rules deny it and that it is allowed because
	// enforcement is audit.
	Audited bool `json:"audited,omitempty"`
}

// The kinds of access to a path. Programs may be executed wherever they can be
// read.
const (
	AccessAbsent    = "absent"
	AccessReadOnly  = "read-only"
	AccessReadWrite = "read-write"
)

// PathContext has the facts besides the policy that decide about paths.
type PathContext struct {
	// Workspace is where the workspace is mounted in the cell.
	Workspace string
	// Home is the cell's own home; empty means /home/sandbox.
	Home string
	// Extra are the operator's --ro paths.
	Extra []string
	// Defaults are the default paths that the host has; nil means all of
	// DefaultReadOnly.
	Defaults []string
	// Links are the host's symbolic links directly below "/", such as "/bin" to
	// "usr/bin". A cell always has them.
	Links map[string]string
	// TmpOwned reports that sandbox owns, and can write, the directories in the
	// cell's /tmp that lead to a listed path. This is so for ordinary callers.
	TmpOwned bool
}

// claim is a rule about a directory and what is below it, or about a single path.
type claim struct {
	dir, access, rule, reason string
	single                    bool
}

const ruleCell = "every cell"

// ExplainPath returns the access to a path in a cell: the rule with the longest
// path that contains it decides.
func (p *Policy) ExplainPath(name string, ctx PathContext) Explanation {
	if !strings.HasPrefix(name, "/") {
		return Explanation{Access: AccessAbsent, Rule: "none", Reason: "the path is not absolute"}
	}
	name = follow(path.Clean(name), ctx.Links)
	claims := p.claims(ctx)
	best := -1
	for i, c := range claims {
		if (name == c.dir || !c.single && isInside(name, c.dir)) && (best < 0 || len(c.dir) > len(claims[best].dir)) {
			best = i
		}
	}
	if best >= 0 && claims[best].dir == privateTmp && !ctx.TmpOwned {
		if x, ok := leading(name, claims); ok {
			return x
		}
	}
	if best >= 0 {
		c := claims[best]
		return Explanation{Allowed: c.access != AccessAbsent, Access: c.access, Rule: c.rule, Reason: c.reason}
	}
	for _, c := range claims {
		if c.access != AccessAbsent && isInside(c.dir, name) {
			return Explanation{Allowed: true, Access: AccessReadOnly, Rule: ruleCell, Reason: "an empty directory that leads to " + c.dir}
		}
	}
	return Explanation{Access: AccessAbsent, Rule: "none", Reason: "no rule lists it, and what is not listed does not exist in a cell"}
}

// privateTmp is the cell's own /tmp, in which listed paths are mounted too.
const privateTmp = "/tmp"

// leading explains a path in /tmp that is, or is in, a directory that only
// leads to a listed path: such a directory cannot be written.
func leading(name string, claims []claim) (Explanation, bool) {
	var in Explanation
	found := false
	for _, c := range claims {
		below, ok := strings.CutPrefix(c.dir, privateTmp+"/")
		if !ok || c.access == AccessAbsent {
			continue
		}
		top, _, deep := strings.Cut(below, "/")
		switch {
		case isInside(c.dir, name) && name != privateTmp:
			return Explanation{Allowed: true, Access: AccessReadOnly, Rule: ruleCell, Reason: "an empty directory that leads to " + c.dir}, true
		case deep && isInside(name, privateTmp+"/"+top):
			in, found = Explanation{Access: AccessAbsent, Rule: ruleCell, Reason: "nothing can be made in a directory that only leads to " + c.dir}, true
		}
	}
	return in, found
}

// follow resolves a link of the root directory, and a link that it leads to.
func follow(name string, links map[string]string) string {
	for range 8 {
		first, rest, _ := strings.Cut(name[1:], "/")
		target, ok := links["/"+first]
		if !ok {
			break
		}
		name = path.Clean("/" + target + "/" + rest)
	}
	return name
}

// claims lists every rule about paths. If two are about the same path, the
// earlier one decides.
func (p *Policy) claims(ctx PathContext) []claim {
	var out []claim
	add := func(dir, access, rule, reason string) {
		out = append(out, claim{dir: dir, access: access, rule: rule, reason: reason})
	}
	if ctx.Workspace != "" {
		if p.Filesystem.IncludeWorkdir {
			add(ctx.Workspace, AccessReadWrite, "filesystem_policy.include_workdir", "the workspace")
		} else if !isInside(ctx.Workspace, privateTmp) { // there the cell can make it
			add(ctx.Workspace, AccessAbsent, "filesystem_policy.include_workdir", "the policy leaves the workspace out")
		}
	}
	home := ctx.Home
	if home == "" {
		home = "/home/" + Sandbox
	}
	add(home, AccessReadWrite, ruleCell, "the cell's own home, part of its state")
	out = append(out, ownClaims()...)
	out = append(out, p.ownFiles()...)
	for _, x := range ctx.Extra {
		add(path.Clean(x), AccessReadOnly, "--ro", "added by the operator")
	}
	covered := func(x string) bool {
		return p.Filesystem.IncludeWorkdir && ctx.Workspace != "" && isInside(x, ctx.Workspace)
	}
	for _, x := range p.Filesystem.ReadWrite {
		if covered(x) {
			continue
		}
		add(x, AccessReadWrite, "filesystem_policy.read_write", "listed as "+x+"; changes stay in the cell")
	}
	for _, x := range p.Filesystem.ReadOnly {
		if covered(x) {
			continue // such a policy is refused
		}
		add(x, AccessReadOnly, "filesystem_policy.read_only", "listed as "+x)
	}
	if !p.Filesystem.Given {
		defaults := ctx.Defaults
		if defaults == nil {
			defaults = DefaultReadOnly()
		}
		for _, x := range defaults {
			add(x, AccessReadOnly, "default", "the system, which a cell sees without a filesystem_policy")
		}
	}
	return out
}

// ownClaims lists the paths that every cell has, and those that none has.
func ownClaims() []claim {
	out := []claim{
		{dir: "/tmp", access: AccessReadWrite, rule: ruleCell, reason: "a private /tmp, dropped at the end of the run"},
		{dir: "/proc", access: AccessReadOnly, rule: ruleCell, reason: "the cell's own processes"},
		{dir: "/dev", access: AccessReadOnly, rule: ruleCell, reason: "a private /dev with a few harmless devices", single: true},
	}
	for _, dir := range []string{"/dev", "/sys", "/run", "/var/run"} {
		out = append(out, claim{dir: dir, access: AccessAbsent, rule: ruleCell, reason: "nothing of the host's " + dir + " exists in a cell"})
	}
	for _, p := range builtinPaths() {
		if strings.HasPrefix(p, "/dev/") {
			out = append(out, claim{dir: p, access: AccessReadWrite, rule: ruleCell, reason: "a device of the cell's own /dev"})
		}
	}
	return out
}

// ownFiles lists the files of /etc that are the cell's own. Where a policy
// makes /etc writable, they can be changed too.
func (p *Policy) ownFiles() (out []claim) {
	access, reason := AccessReadOnly, "the cell's own file, not the host's"
	if slices.ContainsFunc(p.Filesystem.ReadWrite, func(dir string) bool { return isInside("/etc", dir) }) {
		access, reason = AccessReadWrite, reason+"; changes stay in the cell"
	}
	for _, name := range []string{"passwd", "group", "hosts", "hostname", "machine-id", "resolv.conf", "nsswitch.conf"} {
		out = append(out, claim{dir: "/etc/" + name, access: access, rule: ruleCell, reason: reason, single: true})
	}
	return out
}

// ExplainSyscall returns whether a system call is denied, and why.
func (p *Policy) ExplainSyscall(name string, known Syscalls) Explanation {
	if !known.Known(name) {
		return Explanation{Rule: "none", Reason: "no system call is called " + show(name)}
	}
	reason, denied := known.Denied(name)
	switch {
	case !denied:
		return Explanation{Allowed: true, Rule: "default", Reason: "it is not in the deny set"}
	case slices.Contains(p.Process.AllowSyscalls, name):
		return Explanation{Allowed: true, Rule: "process.allow_syscalls", Reason: "the policy takes it out of the deny set, which is recorded as a degradation"}
	}
	return Explanation{Rule: "deny set", Reason: reason}
}

// SplitHost splits HOST:PORT.
func SplitHost(text string) (host string, port uint16, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		if addr, ok := strings.CutPrefix(err.Error(), "address "+text+": "); ok {
			return "", 0, errors.New(addr)
		}
		return "", 0, err
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || number == 0 {
		return "", 0, errors.New("the port is not a number from 1 to 65535")
	}
	if host == "" {
		return "", 0, errors.New("no host")
	}
	return host, uint16(number), nil
}
