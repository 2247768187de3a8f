package engine

import (
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// resolvedRequest is a request checked against the cell and the policy.
type resolvedRequest struct {
	runtime string
	driver  driver.Driver // of the runtime
	spec    driver.Spec   // without the workspace's mounts
	policy  *policy.Policy
	areas   []workspace.Area // besides the workspace and the home
	notes   []string         // controls that are weaker than requested
	grants  *grants
	// ceiling is the hash of the caller's ceiling, or "".
	ceiling string
	inside  string     // path of the workspace in the cell, or ""
	shown   []shownDir // paths of the host outside the system that the operator shows
	masks   []mount.Mask
}

// inWorkspace reports whether a listed path is in the workspace, which covers the
// path of the host.
func (a *resolvedRequest) inWorkspace(listed string) bool {
	return a.inside != "" && fsx.Within(listed, a.inside)
}

// take adds a path of the host that the policy lists, and checks its grant. With
// the operator's root file system, read-only paths come from there.
func (a *resolvedRequest) take(listed string, write bool, root string) error {
	if !write && root != "" && root != rootHost && root != rootHostOverlay {
		return nil
	}
	real, err := shownReal(listed)
	if err != nil {
		return api.Refusef(api.CodePolicyPath, "take it out of the policy", "the policy lists %s: %v", quote.Path(listed), err)
	}
	needed, err := a.grants.path(listed, real, write)
	if needed && !fsx.IsLink(listed) {
		a.shown = append(a.shown, shownDir{target: listed, real: real})
	}
	return err
}

// hide applies the secret rules to the shown paths. An area of a backend without
// overlays is a copy without secrets.
func (a *resolvedRequest) hide(c store.Cell) error {
	named := a.grants.namedPaths()
	for _, dir := range a.shown {
		named = append(named, dir.real)
	}
	copied := func(dir shownDir) bool {
		return !workspace.Backend(c.Backend).Overlays() && slices.Contains(a.policy.Filesystem.ReadWrite, dir.target)
	}
	for i := range a.areas {
		for _, dir := range a.shown {
			if a.areas[i].Target != dir.target {
				continue
			}
			rules, err := secretsOf(dir, named)
			if err != nil {
				return err
			}
			a.areas[i].Rules = rules
		}
	}
	masks, notes, err := hideSecrets(slices.DeleteFunc(slices.Clone(a.shown), copied), named)
	a.masks, a.notes = masks, append(a.notes, notes...)
	return err
}
