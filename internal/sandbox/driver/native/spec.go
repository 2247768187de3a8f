package native

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// maxHostname is the kernel's limit.
const maxHostname = 64

// hostPlan is the init's plan with what only its parent needs to know.
type hostPlan struct {
	protocol.Plan
	// binds and overlays are those of the plan, in the same order.
	binds    []hostBind
	overlays []mount.Overlay
	// files are those of the plan with their contents.
	files []driver.File
}

// hostBind is a bind as the parent makes it.
type hostBind struct {
	protocol.Bind
	owned bool // see mount.Bind
}

// hasSystem reports whether a part of the host's system is among the overlays.
func (p *hostPlan) hasSystem() bool {
	return slices.ContainsFunc(p.overlays, func(o mount.Overlay) bool { return o.System })
}

// hasHostLower reports whether a directory of the host is a layer of the overlays.
func (p *hostPlan) hasHostLower() bool {
	return slices.ContainsFunc(p.overlays, func(o mount.Overlay) bool { return o.HostLower })
}

// newPlan checks a specification and turns it into the init's plan.
func newPlan(s driver.Spec) (*hostPlan, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	p := &hostPlan{overlays: s.Mounts.Overlays, Plan: protocol.Plan{
		Hostname: s.Hostname, ID: callerIdentity(),
		OwnSystem: s.System.Own, Root: []byte(s.System.Root), Guard: newGuardPlan(&s),
	}}
	p.ID.Super, p.ID.FullName = s.AsRoot, s.FullName
	if s.Network != nil {
		p.Capture, p.files, p.Socket = true, s.Network.Files, []byte(s.Network.Socket)
	}
	if s.AsRoot && !p.ID.Root {
		return nil, &driver.UnenforceableError{
			Control: "--as-root", Reason: driver.HostOverlayNeedsRoot, Remedy: driver.HostOverlayRemedy,
		}
	}
	if err := p.offerPackages(&s); err != nil {
		return nil, err
	}
	if p.Hostname == "" {
		p.Hostname = "cell"
	}
	if len(p.Hostname) > maxHostname {
		p.Hostname = p.Hostname[:maxHostname]
	}
	for _, b := range s.Mounts.Binds {
		p.addBind(protocol.Bind{Target: []byte(b.Target), Source: []byte(b.Source), ReadOnly: b.ReadOnly}, b.Owned)
	}
	for _, o := range s.Mounts.Overlays {
		p.Overlays = append(p.Overlays, protocol.Overlay{
			Target: []byte(o.Target), Lower: protocol.Bytes(o.Lower), Upper: []byte(o.Upper), Work: []byte(o.Work),
		})
	}
	p.Pins, p.Fixed = protocol.Bytes(s.Mounts.Pins), protocol.Bytes(s.Mounts.Fixed)
	for _, m := range s.Mounts.Masks {
		p.Masks = append(p.Masks, protocol.Mask{Target: []byte(m.Target), Dir: m.Dir})
	}
	p.keepAbsent(s.Mounts.Absent)
	if err := p.showListed(&s); err != nil {
		return nil, err
	}
	p.sortBinds()
	return p, nil
}

// keepAbsent plans absent paths. The kernel replaces no file that is a mount point
// of the namespace of the caller, also if the caller uses it through an overlay: so
// the whiteouts become mount points in the overlay's upper directory, which is
// attached where the overlay will cover it.
func (p *hostPlan) keepAbsent(absent []mount.Absence) {
	for _, a := range absent {
		p.addBind(protocol.Bind{Target: []byte(a.Target), Source: []byte(a.Upper), ReadOnly: true}, true)
		for _, path := range a.Paths {
			p.Absent = append(p.Absent, []byte(a.Target+"/"+path))
		}
	}
}

func (p *hostPlan) addBind(b protocol.Bind, owned bool) {
	p.Binds, p.binds = append(p.Binds, b), append(p.binds, hostBind{b, owned})
}

// sortBinds puts each bind after the one that it is in.
func (p *hostPlan) sortBinds() {
	slices.SortStableFunc(p.binds, func(a, b hostBind) int { return bytes.Compare(a.Target, b.Target) })
	for i, b := range p.binds {
		p.Binds[i] = b.Bind
	}
}

// showListed plans the read-only paths of a specification. Those of the system
// come with its directories. What is inside the cell's state is the state's own
// and only cannot be written. The rest are binds, which may be in the cell's private
// /tmp.
func (p *hostPlan) showListed(s *driver.Spec) error {
	listed := slices.Concat(s.System.Paths, s.ReadOnly)
	slices.Sort(listed)
	for _, path := range slices.Compact(listed) {
		if err := checkReadOnly(path); err != nil {
			return err
		}
		above := p.StateAbove(path)
		switch {
		case slices.Contains(s.System.Paths, path) && (ofSystem(path) || isLink(path)):
			p.System = append(p.System, []byte(path))
		case above != "" && above != tmpDir:
			p.Fixed = append(p.Fixed, []byte(path))
		default:
			p.addBind(protocol.Bind{Target: []byte(path), Source: []byte(path), ReadOnly: true, Dead: true}, false)
		}
	}
	return nil
}

// tmpDir is the one directory of the cell's own in which paths of the host can
// be shown.
const tmpDir = "/tmp"

// ofSystem reports whether a path is in a directory of the system.
func ofSystem(path string) bool {
	return protocol.Within(path, "/etc") || slices.ContainsFunc(cellinit.SystemNames(), func(name string) bool { return protocol.Within(path, "/"+name) })
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// newOrder turns a command into what the init is told.
func newOrder(c *driver.Command, stdin bool) (*protocol.ExecOrder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &protocol.ExecOrder{
		Args: protocol.Bytes(c.Args), Env: protocol.Bytes(c.Env), Workdir: []byte(c.Workdir),
		TTY: c.TTY, Rows: c.Size.Rows, Cols: c.Size.Cols, Stdin: stdin, Warm: c.Warm,
	}, nil
}

// checkReadOnly refuses host paths that would bring the host's processes,
// devices or sockets into the cell, under whatever name.
func checkReadOnly(path string) error {
	step := fmt.Sprintf("read-only path %s", path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fault.At(step, err)
	}
	for _, p := range []string{path, real} {
		if p == "/" || p == "/var" {
			return fault.At(step, errors.New("it holds the host's sockets; name what is needed below it"))
		}
		for _, never := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
			if protocol.Within(p, never) {
				return fault.At(step, fmt.Errorf("nothing of %s can be shown in a cell", never))
			}
		}
	}
	return nil
}
