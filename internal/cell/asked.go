package cell

import (
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/mount"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
)

// asked is what a request amounts to.
type asked struct {
	spec   driver.Spec // but for the workspace's mounts
	policy *policy.Policy
	areas  []workspace.Area // besides the workspace and the home
	notes  []string         // what cannot be done as well as it should
	grants *grants
	inside string     // where the workspace is in the cell; "" if it is not
	shown  []shownDir // what the operator shows of the host outside the system
	masks  []mount.Mask
}

func (e *Engine) spec(c store.Cell, req runRequest) (a asked, err error) {
	if err := checkArgs(c, req.Args); err != nil {
		return a, err
	}
	given, err := e.givenPolicy(c, req)
	if err != nil {
		return a, err
	}
	if a.grants, err = e.newGrants(given, req); err != nil {
		return a, err
	}
	if a.policy, err = e.narrowed(given, req); err != nil {
		return a, err
	}
	if a.policy.Filesystem.IncludeWorkdir {
		a.inside = c.MountAt
	}
	shown, err := e.shownPaths(slices.Concat(c.ReadOnly, req.ReadOnly))
	if err != nil {
		return a, err
	}
	cached, err := cacheOn(c, req)
	if err == nil && cached {
		err = checkCache(c, slices.Concat(shown, a.policy.Filesystem.ReadOnly, a.policy.Filesystem.ReadWrite))
	}
	if err != nil {
		return a, err
	}
	env, err := e.buildEnv(a.policy, req, shown, cached)
	if err != nil {
		return a, err
	}
	workdir := c.MountAt
	if !a.policy.Filesystem.IncludeWorkdir {
		workdir = homePath
	}
	if req.Workdir != "" {
		workdir = string(req.Workdir)
		if !path.IsAbs(workdir) {
			workdir = path.Join(c.MountAt, workdir)
		}
	}
	a.spec = driver.Spec{
		Hostname: c.Name, FullName: e.caller.git().Name, ReadOnly: shown, Command: driver.Command{
			Args: req.Args, Env: env, Workdir: path.Clean(workdir), TTY: req.TTY, Size: driver.WindowSize(req.Size),
		},
	}
	if a.notes, err = e.govern(&a, req); err != nil {
		return a, err
	}
	if a.areas, err = e.root(&a, c, req); err != nil {
		return a, err
	}
	if req.AsRoot {
		a.notes = append(a.notes, "the command is root in the cell: lower assurance")
	}
	return a, e.checkGrants(&a, c)
}

// checkGrants refuses what the policy takes from the host without a grant, and
// hides the secrets in what was granted.
func (e *Engine) checkGrants(a *asked, c store.Cell) error {
	for _, name := range a.policy.Environment.Inherit {
		if err := a.grants.env(name); err != nil {
			return err
		}
	}
	if err := a.grants.refusal(); err != nil {
		return err
	}
	for _, p := range a.spec.ReadOnly {
		real, err := realPath(p)
		if err != nil {
			return api.Usagef("", "--ro %s: %v", quote.Path(p), err)
		}
		if !inSystem(real) {
			a.shown = append(a.shown, shownDir{target: p, real: real})
		}
	}
	return a.hide(c)
}

// inWorkspace reports whether a listed path is the workspace's, which covers what
// the host has there.
func (a *asked) inWorkspace(listed string) bool { return a.inside != "" && within(listed, a.inside) }

// take notes a path of the host that the policy lists, and whether it is granted.
// With a root of the operator's own, paths that are read only come from there.
func (a *asked) take(listed string, write bool, root string) error {
	if !write && root != "" && root != rootHost && root != rootHostOverlay {
		return nil
	}
	real, err := shownReal(listed)
	if err != nil {
		return api.Refusef(api.CodePolicyPath, "take it out of the policy", "the policy lists %s: %v", quote.Path(listed), err)
	}
	needed, err := a.grants.path(listed, real, write)
	if needed && !isLink(listed) {
		a.shown = append(a.shown, shownDir{target: listed, real: real})
	}
	return err
}

// hide applies the secret rules to what is shown. An area of a backend without
// overlays is a copy, which has no secrets.
func (a *asked) hide(c store.Cell) error {
	named := a.grants.named()
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

func checkArgs(c store.Cell, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return api.Usagef("`forkcell run "+c.Name+" -- CMD ARG...`", "no command to run")
	}
	for _, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return api.Usagef("", "an argument holds a NUL byte")
		}
	}
	return nil
}
