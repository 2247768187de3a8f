package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The root file systems that a cell can have.
const (
	rootHost        = "host"
	rootHostOverlay = "host-overlay"
)

// Names of the areas besides the workspace and the home: a prefix for the kind,
// and the path on the host and in the cell.
const (
	areaPath   = "path:"
	areaSystem = "system:"
)

// systemDirs returns the directories of the host that --root host-overlay makes
// writable: programs, and the databases of package managers. The rest of /var is
// not shown; see varDir.
func systemDirs() []string {
	dirs := []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sbin", "/usr"}
	for _, lib := range []string{
		"apt", "dnf", "dpkg", "emacsen-common", "gems", "ghc", "misc", "pacman", "pam", "python", "rpm", "sgml-base", "ucf", "xml-core", "zypp",
	} {
		dirs = append(dirs, varDir+"/lib/"+lib)
	}
	for _, cache := range []string{"apt", "debconf", "dnf", "fontconfig", "man", "pacman", "zypp"} {
		dirs = append(dirs, varDir+"/cache/"+cache)
	}
	return dirs
}

// varDir is writable with --root host-overlay too. At first it has only its own
// directories and those of systemDirs.
const varDir = "/var"

// root adds the requested root file system to a specification.
func (e *Engine) root(a *resolvedRequest, c store.Cell, req runRequest) ([]workspace.Area, error) {
	spec, p := &a.spec, a.policy
	spec.AsRoot = req.AsRoot
	if req.AsRoot && req.Root != rootHostOverlay {
		return nil, api.Usagef("give --root host-overlay too", "--as-root needs a system that it can write to")
	}
	areas, err := e.writablePaths(a, c.Backend)
	if err != nil {
		return nil, err
	}
	switch req.Root {
	case "", rootHost:
	case rootHostOverlay:
		if p.Filesystem.Given {
			return nil, api.Refusef(api.CodePolicy, "leave one of them out", "a filesystem_policy and --root host-overlay exclude each other")
		}
		if os.Geteuid() != 0 {
			return nil, api.Refusef(api.CodeUnenforced, driver.HostOverlayRemedy, "--root host-overlay: %s", driver.HostOverlayNeedsRoot)
		}
		spec.System.Own = true
		areas = append(areas, systemAreas()...)
	default:
		if spec.System.Root, err = e.shownPath("--root", string(req.Root)); err != nil {
			return nil, err
		}
		if err := e.Caller.MayUsePath(spec.System.Root); err != nil {
			return nil, err
		}
		if !fsx.IsDir(spec.System.Root) {
			return nil, api.Usagef("host, host-overlay or a directory", "--root %s is not a directory", quote.Path(string(req.Root)))
		}
	}
	return areas, nil
}

func (e *Engine) writablePaths(a *resolvedRequest, backend string) ([]workspace.Area, error) {
	p := a.policy
	var areas []workspace.Area
	for _, dir := range p.Filesystem.ReadWrite {
		if a.inWorkspace(dir) {
			continue // already writable
		}
		if !fsx.IsDir(dir) && a.spec.Guard.LandlockBestEffort {
			a.notes = append(a.notes, fmt.Sprintf("%s is not shown: it is not a directory here", quote.Path(dir)))
			continue
		}
		if !fsx.IsDir(dir) {
			return nil, api.Refusef(api.CodePolicyPath, "take it out of read_write, or "+bestEffortHint,
				"the policy lists %s, which is not a directory here", quote.Path(dir))
		}
		if dir == "/etc" && !workspace.Backend(backend).Overlays() {
			return nil, api.Refusef(api.CodeBackend, overlayHint+", or list what is needed below /etc",
				"the policy makes /etc writable, and cells of the backend %s would see the host's accounts and name servers there", backend)
		}
		if err := e.mayList(dir); err != nil {
			return nil, err
		}
		if err := a.take(dir, true, ""); err != nil {
			return nil, err
		}
		areas = append(areas, workspace.Area{Name: areaPath + dir, Host: dir, Target: dir})
	}
	return areas, nil
}

// systemAreas returns the system directories that this host has, without symbolic
// links: a cell has those in any case.
func systemAreas() []workspace.Area {
	areas := []workspace.Area{{Name: areaSystem + varDir, Host: varDir, Target: varDir, System: true, Bare: true}}
	for _, dir := range systemDirs() {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			areas = append(areas, workspace.Area{Name: areaSystem + dir, Host: dir, Target: dir, System: true})
		}
	}
	return areas
}

// overlayHint is for what only cells with overlays can have.
const overlayHint = "make the cell with `forkcell init NAME --from DIR --backend overlay`"

// areaError returns the error for an area that is not possible, with a hint.
func areaError(err error) error {
	if errors.Is(err, workspace.ErrNoSystemArea) {
		return api.Refusef(api.CodeBackend, overlayHint, "--root host-overlay: %v", workspace.ErrNoSystemArea)
	}
	if errors.Is(err, workspace.ErrNoBase) {
		return api.Refusef(api.CodeBackend, overlayHint, "--cache standard: %v", workspace.ErrNoBase)
	}
	if gone, ok := errors.AsType[*workspace.HostDirError](err); ok {
		return api.Refusef(api.CodeArea, "make the directory again on the host", "%v", gone)
	}
	return err
}

// withoutMount returns a set of mounts without the one at target.
func withoutMount(set mount.Set, target string) mount.Set {
	set.Binds = slices.DeleteFunc(set.Binds, func(b mount.Bind) bool { return b.Target == target })
	set.Overlays = slices.DeleteFunc(set.Overlays, func(o mount.Overlay) bool { return o.Target == target })
	set.Pins = slices.DeleteFunc(set.Pins, func(p string) bool { return fsx.Within(p, target) })
	set.Masks = slices.DeleteFunc(set.Masks, func(m mount.Mask) bool { return fsx.Within(m.Target, target) })
	return set
}
