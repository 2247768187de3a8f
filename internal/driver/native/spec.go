package native

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/driver"
)

// maxHostname is the kernel's limit.
const maxHostname = 64

// newPlan checks a specification and turns it into the init's plan.
func newPlan(s driver.Spec) (*plan, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	p := &plan{
		Hostname: s.Hostname, ID: callerIdentity().as(s.AsRoot),
		OwnSystem: s.System.Own, Root: []byte(s.System.Root), Guard: newGuardPlan(&s),
	}
	p.ID.FullName = s.FullName
	if s.Network != nil {
		p.Capture, p.files = true, s.Network.Files
	}
	if s.AsRoot && !p.ID.Root {
		return nil, &driver.UnenforceableError{
			Control: "--as-root", Reason: driver.HostOverlayNeedsRoot, Remedy: driver.HostOverlayRemedy,
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
func (p *plan) showListed(s *driver.Spec) error {
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

// newOrder turns a command into what the init is told.
func newOrder(c *driver.Command, id int, stdin bool) (*execOrder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &execOrder{
		ID: id, Args: toBytes(c.Args), Env: toBytes(c.Env), Workdir: []byte(c.Workdir),
		TTY: c.TTY, Size: c.Size, Stdin: stdin,
	}, nil
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

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// at marks err as the failure of a step; nil stays nil.
func at(step string, err error) error { return failAt(step, driver.CauseCell, err) }

// failAt is at for failures that callers treat apart.
func failAt(step string, cause driver.Cause, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*driver.StartError](err); known {
		return err
	}
	return &driver.StartError{Step: step, Cause: cause, Err: err}
}
