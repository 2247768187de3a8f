package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// member is one line of /proc/self/cgroup: where this process is in one
// hierarchy.
type member struct {
	// controllers is empty for version 2; a hierarchy without controllers has
	// its name ("name=systemd") there.
	controllers []string
	path        string
}

var errFormat = errors.New("unexpected format")

// parseMembers reads /proc/self/cgroup: "id:controllers:path" on each line.
func parseMembers(text string) ([]member, error) {
	var list []member
	v2 := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		id, rest, ok := strings.Cut(line, ":")
		names, p, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 || !strings.HasPrefix(p, "/") {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		m := member{path: p}
		switch {
		case names != "":
			m.controllers = strings.Split(names, ",")
		case n != 0 || v2:
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		default:
			v2 = true
		}
		list = append(list, m)
	}
	return list, nil
}

// mountPoint is one mounted hierarchy.
type mountPoint struct {
	v2 bool
	// root is the group that shows at dir.
	root, dir string
	readOnly  bool
	// options are the super block's: the controllers, for version 1.
	options []string
}

// parseMounts picks the control group file systems out of /proc/self/mountinfo.
func parseMounts(text string) ([]mountPoint, error) {
	var list []mountPoint
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Split(line, " ")
		// id parent major:minor root dir options [tag...] - type source options
		dash := slices.Index(fields, "-")
		if dash < 6 || len(fields) < dash+4 {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		kind := fields[dash+1]
		if kind != "cgroup" && kind != "cgroup2" {
			continue
		}
		root, err := unescape(fields[3])
		if err != nil {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		dir, err := unescape(fields[4])
		if err != nil || !path.IsAbs(dir) || !path.IsAbs(root) {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		super := strings.Split(fields[dash+3], ",")
		list = append(list, mountPoint{
			v2: kind == "cgroup2", root: root, dir: dir, options: super,
			readOnly: slices.Contains(strings.Split(fields[5], ","), "ro") || slices.Contains(super, "ro"),
		})
	}
	return list, nil
}

// unescape undoes the kernel's octal escapes of blanks and backslashes.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i+4 > len(s) {
			return "", errFormat
		}
		n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
		if err != nil {
			return "", errFormat
		}
		b.WriteByte(byte(n))
		i += 3
	}
	return b.String(), nil
}

// groupDir gives the directory in which group p of m's hierarchy shows, if it does.
// A process in a group outside its own cgroup namespace has a path that starts
// with "/..": that one shows nowhere.
func (m mountPoint) groupDir(p string) (string, bool) {
	if path.Clean(p) != p || strings.HasPrefix(p, "/..") {
		return "", false
	}
	if strings.HasPrefix(m.root, "/..") {
		return "", false
	}
	rel, ok := p, true
	if m.root != "/" {
		rel, ok = strings.CutPrefix(p, m.root)
		ok = ok && (rel == "" || rel[0] == '/')
	}
	return path.Join(m.dir, rel), ok
}

// parseKeyed reads a file of "key number" lines, such as memory.events.
func parseKeyed(text string) (map[string]int64, error) {
	values := map[string]int64{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || key == "" {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		values[key] = n
	}
	return values, nil
}

// parsePIDs reads cgroup.procs.
func parsePIDs(text string) ([]int, error) {
	var pids []int
	for line := range strings.Lines(text) {
		n, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%w: %q", errFormat, line)
		}
		// 0 is a process that this pid namespace does not show.
		if n > 0 {
			pids = append(pids, int(n))
		}
	}
	return pids, nil
}
