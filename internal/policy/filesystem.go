package policy

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const maxPaths = 256

// DefaultReadOnly returns the paths of the host that a cell sees, read-only,
// where no filesystem_policy is given. Those that the host lacks are left out;
// those that are symbolic links there stay links.
func DefaultReadOnly() []string {
	return []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sbin", "/usr"}
}

// builtinPaths returns the paths that every cell has, whether listed or not. Listing one
// is allowed and changes nothing.
func builtinPaths() []string {
	return []string{
		"/proc", "/proc/self", "/tmp",
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
		"/dev/pts", "/dev/shm", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr",
	}
}

func isOwn(p string) bool { return slices.Contains(builtinPaths(), p) }

// isInside reports whether p is dir or below it.
func isInside(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

func (r *reader) filesystem(n *yaml.Node) Filesystem {
	o := r.object(n, "filesystem_policy", "include_workdir", "read_only", "read_write")
	fs := Filesystem{Given: true, IncludeWorkdir: o.boolean("include_workdir", true)}
	fs.ReadOnly = r.pathList(o, "read_only", nil)
	fs.ReadWrite = r.pathList(o, "read_write", fs.ReadOnly)
	return fs
}

// pathList reads a list of paths, none of which may be in other.
func (r *reader) pathList(o *object, key string, other []string) []string {
	var out []string
	for _, it := range o.texts(key) {
		if r.paths++; r.paths > maxPaths {
			r.bad(it.node, it.path, "more than %d paths", maxPaths)
			break
		}
		p := it.text
		if p != "/" {
			p = strings.TrimSuffix(p, "/")
		}
		if key == "read_write" && p == "/home/"+Sandbox {
			continue // every cell has it, and can write to it
		}
		if why := r.refusePath(p); why != "" {
			r.bad(it.node, it.path, "%s %s", show(it.text), why)
			continue
		}
		if slices.Contains(other, p) {
			r.bad(it.node, it.path, "%s is also in read_only", show(it.text))
		}
		if !isOwn(p) {
			out = append(out, p)
		}
	}
	return sortedSet(out)
}

// refusePath returns why a path cannot be listed.
func (r *reader) refusePath(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
		return "is not absolute"
	case slices.Contains(strings.Split(p, "/"), ".."):
		return `holds ".."`
	case path.Clean(p) != p:
		return "is not clean; write " + show(path.Clean(p))
	case hasControl(p):
		return "holds a control character"
	case strings.ContainsAny(p, "*?["):
		return "holds a wildcard; a path here is a file or a whole directory"
	case p == "/":
		return "is too broad: it is the whole host"
	case isOwn(p):
		return ""
	case p == "/root":
		return "is root's home, which cannot be listed as a whole"
	case p == "/home/"+Sandbox:
		return "is the cell's own home"
	}
	return OffLimits(p, r.opt.Homes)
}

// OffLimits returns why no path of a policy may lead to a place of the host,
// which may have other names than the policy's; "" if it may. homes are the
// caller's.
func OffLimits(p string, homes []string) string {
	if p == "/" {
		return "is the whole host"
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if isInside(p, dir) {
			return "cannot be listed: a cell has nothing of the host's " + dir
		}
	}
	for _, home := range homes {
		if home != "" && home != "/" && isInside(path.Clean(home), p) {
			return "holds the caller's home, which cannot be listed as a whole"
		}
	}
	return ""
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 })
}
