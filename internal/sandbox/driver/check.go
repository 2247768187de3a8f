package driver

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/mount"
)

// Check refuses a command that no driver can execute.
func (c *Command) Check() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return fmt.Errorf("%w: no command", ErrSpec)
	}
	for _, list := range [][]string{c.Args, c.Env} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return fmt.Errorf("%w: a zero byte in %q", ErrSpec, v)
			}
		}
	}
	return checkPath(c.Workdir)
}

// Check refuses a cell that no driver can make, before anything is made. It does
// not look at the command.
func (s *Spec) Check() error {
	if strings.ContainsRune(s.Hostname, 0) {
		return fmt.Errorf("%w: a zero byte in %q", ErrSpec, s.Hostname)
	}
	paths := slices.Concat(s.ReadOnly, s.System.Paths)
	if s.System.Root != "" {
		paths = append(paths, s.System.Root)
	}
	for _, b := range s.Mounts.Binds {
		paths = append(paths, b.Target, b.Source)
	}
	for _, o := range s.Mounts.Overlays {
		if len(o.Lower) == 0 {
			return fmt.Errorf("%w: overlay %q without a lower directory", ErrSpec, o.Target)
		}
		paths = append(append(paths, o.Target, o.Upper, o.Work), o.Lower...)
	}
	for _, a := range s.Mounts.Absent {
		paths = append(paths, a.Target, a.Upper)
		for _, p := range a.Paths {
			paths = append(paths, a.Target+"/"+p)
		}
	}
	if s.Network != nil && s.Network.Socket != "" {
		paths = append(paths, s.Network.Socket)
	}
	paths = slices.Concat(paths, s.Mounts.Pins, s.Mounts.Fixed, maskTargets(s.Mounts.Masks))
	for _, p := range paths {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	return checkTargets(s.Mounts)
}

func checkPath(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%w: path %q is not absolute and clean", ErrSpec, p)
	}
	return nil
}

// checkTargets refuses mounts over what the cell itself is made of.
func checkTargets(set mount.Set) error {
	targets := make([]string, 0, len(set.Binds)+len(set.Overlays))
	for _, b := range set.Binds {
		targets = append(targets, b.Target)
	}
	for _, o := range set.Overlays {
		targets = append(targets, o.Target)
	}
	for _, t := range slices.Concat(targets, set.Pins, set.Fixed, maskTargets(set.Masks)) {
		if t == "/" || isBelow(t, "/proc") || isBelow(t, "/dev") {
			return fmt.Errorf("%w: nothing can be attached at %q", ErrSpec, t)
		}
	}
	return nil
}

// isBelow reports whether path is dir or below it.
func isBelow(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func maskTargets(masks []mount.Mask) []string {
	out := make([]string, len(masks))
	for i, m := range masks {
		out[i] = m.Target
	}
	return out
}
