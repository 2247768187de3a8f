package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/mount"
)

// maxHostname is the kernel's limit.
const maxHostname = 64

// newPlan checks a specification and turns it into the init's plan.
func newPlan(s Spec) (*plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	p := &plan{
		Hostname: s.Hostname, ID: callerIdentity().as(s.AsRoot),
		OwnSystem: s.System.Own, Root: []byte(s.System.Root), Guard: s.guard(),
	}
	p.ID.FullName = s.FullName
	if s.Network != nil {
		p.Capture, p.files = true, s.Network.Files
	}
	if s.AsRoot && !p.ID.Root {
		return nil, &UnenforceableError{
			Control: "--as-root", Reason: HostOverlayNeedsRoot, Remedy: HostOverlayRemedy,
		}
	}
	if p.Hostname == "" {
		p.Hostname = "cell"
	}
	if len(p.Hostname) > maxHostname {
		p.Hostname = p.Hostname[:maxHostname]
	}
	for _, b := range s.Mounts.Binds {
		p.Binds = append(p.Binds, bindPlan{
			Target: []byte(b.Target), Source: []byte(b.Source), ReadOnly: b.ReadOnly, owned: b.Owned,
		})
	}
	for _, o := range s.Mounts.Overlays {
		p.Overlays = append(p.Overlays, overlayPlan{
			Target: []byte(o.Target), Lower: toBytes(o.Lower), Upper: []byte(o.Upper), Work: []byte(o.Work),
			hostLower: o.HostLower, system: o.System, bare: o.Bare,
		})
	}
	p.Pins, p.Fixed = toBytes(s.Mounts.Pins), toBytes(s.Mounts.Fixed)
	for _, m := range s.Mounts.Masks {
		p.Masks = append(p.Masks, maskPlan{Target: []byte(m.Target), Dir: m.Dir})
	}
	return p, p.showListed(&s)
}

// showListed plans the read-only paths of a specification. Those of the system
// come with its directories. What is inside the cell's state is the state's own
// and only cannot be written. The rest are binds, each after the one that it is
// in: that may be the cell's private /tmp.
func (p *plan) showListed(s *Spec) error {
	listed := slices.Concat(s.System.Paths, s.ReadOnly)
	slices.Sort(listed)
	for _, path := range slices.Compact(listed) {
		if err := checkReadOnly(path); err != nil {
			return err
		}
		above := p.stateAbove(path)
		switch {
		case slices.Contains(s.System.Paths, path) && (ofSystem(path) || isLink(path)):
			p.System = append(p.System, []byte(path))
		case above != "" && above != tmpDir:
			p.Fixed = append(p.Fixed, []byte(path))
		default:
			p.Binds = append(p.Binds, bindPlan{Target: []byte(path), Source: []byte(path), ReadOnly: true, Dead: true})
		}
	}
	slices.SortStableFunc(p.Binds, func(a, b bindPlan) int { return bytes.Compare(a.Target, b.Target) })
	return nil
}

// tmpDir is the one directory of the cell's own in which paths of the host can
// be shown.
const tmpDir = "/tmp"

// ofSystem reports whether a path is in a directory of the system.
func ofSystem(path string) bool {
	return within(path, "/etc") || slices.ContainsFunc(systemNames(), func(name string) bool { return within(path, "/"+name) })
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// order turns a command into what the init is told.
func (c *Command) order(id int, stdin bool) (*execOrder, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, fmt.Errorf("%w: no command", ErrSpec)
	}
	for _, list := range [][]string{c.Args, c.Env} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return nil, fmt.Errorf("%w: a zero byte in %q", ErrSpec, v)
			}
		}
	}
	if err := checkPath(c.Workdir); err != nil {
		return nil, err
	}
	return &execOrder{
		ID: id, Args: toBytes(c.Args), Env: toBytes(c.Env), Workdir: []byte(c.Workdir),
		TTY: c.TTY, Size: c.Size, Stdin: stdin,
	}, nil
}

func checkPath(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%w: path %q is not absolute and clean", ErrSpec, p)
	}
	return nil
}

// check refuses what no kernel could do, before anything is made.
func (s *Spec) check() error {
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
	paths = slices.Concat(paths, s.Mounts.Pins, s.Mounts.Fixed, maskTargets(s.Mounts.Masks))
	for _, p := range paths {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	return s.checkTargets()
}

// checkTargets refuses mounts over what the cell itself is made of.
func (s *Spec) checkTargets() error {
	set := s.Mounts
	targets := make([]string, 0, len(set.Binds)+len(set.Overlays))
	for _, b := range set.Binds {
		targets = append(targets, b.Target)
	}
	for _, o := range set.Overlays {
		targets = append(targets, o.Target)
	}
	for _, t := range slices.Concat(targets, set.Pins, set.Fixed, maskTargets(set.Masks)) {
		if t == "/" || within(t, "/proc") || within(t, "/dev") {
			return fmt.Errorf("%w: nothing can be attached at %q", ErrSpec, t)
		}
	}
	return nil
}

func maskTargets(masks []mount.Mask) []string {
	out := make([]string, len(masks))
	for i, m := range masks {
		out[i] = m.Target
	}
	return out
}

// checkReadOnly refuses host paths that would bring the host's processes,
// devices or sockets into the cell, under whatever name.
func checkReadOnly(path string) error {
	step := fmt.Sprintf("read-only path %s", path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return at(step, err)
	}
	for _, p := range []string{path, real} {
		if p == "/" || p == "/var" {
			return at(step, errors.New("it holds the host's sockets; name what is needed below it"))
		}
		for _, never := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
			if within(p, never) {
				return at(step, fmt.Errorf("nothing of %s can be shown in a cell", never))
			}
		}
	}
	return nil
}

// within says whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
