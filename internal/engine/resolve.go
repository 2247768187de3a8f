package engine

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func (e *Engine) spec(c store.Cell, req runRequest) (a resolvedRequest, err error) {
	if err := checkArgs(c, req.Args); err != nil {
		return a, err
	}
	a.runtime = cmp.Or(req.Runtime, c.Runtime)
	if a.driver, err = e.runtime(a.runtime); err != nil {
		return a, err
	}
	given, err := e.givenPolicy(c, req)
	if err != nil {
		return a, err
	}
	if a.grants, err = e.newGrants(given, req); err != nil {
		return a, err
	}
	if given, err = e.applyCeiling(&a, given); err != nil {
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
		workdir = home.CellHome
	}
	if req.Workdir != "" {
		workdir = string(req.Workdir)
		if !path.IsAbs(workdir) {
			workdir = path.Join(c.MountAt, workdir)
		}
	}
	a.spec = driver.Spec{
		Hostname: c.Name, FullName: e.Caller.GitUser().Name, ReadOnly: shown, Command: driver.Command{
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

// checkGrants refuses what the policy needs without a grant, of the host or of a control
// that it loosens, and hides the secrets in granted paths.
func (e *Engine) checkGrants(a *resolvedRequest, c store.Cell) error {
	for _, name := range a.policy.Environment.Inherit {
		if err := a.grants.env(name); err != nil {
			return err
		}
	}
	if err := a.grants.addLoosened(a.policy); err != nil {
		return err
	}
	if err := a.grants.refusal(); err != nil {
		return err
	}
	for _, p := range a.spec.ReadOnly {
		real, err := fsx.RealPath(p)
		if err != nil {
			return api.Usagef("", "--ro %s: %v", quote.Path(p), err)
		}
		if !inSystem(real) {
			a.shown = append(a.shown, shownDir{target: p, real: real})
		}
	}
	return a.hide(c)
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
