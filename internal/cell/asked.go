package cell

import (
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
)

// asked is what a request amounts to.
type asked struct {
	spec   driver.Spec // but for the workspace's mounts
	policy *policy.Policy
	areas  []workspace.Area // besides the workspace and the home
	notes  []string         // what cannot be done as well as it should
}

func (e *Engine) spec(c store.Cell, req RunRequest) (a asked, err error) {
	if err := checkArgs(c, req.Args); err != nil {
		return a, err
	}
	if a.policy, err = e.policyOf(c, req); err != nil {
		return a, err
	}
	shown, err := e.shownPaths(slices.Concat(c.ReadOnly, req.ReadOnly))
	if err != nil {
		return a, err
	}
	env, err := buildEnv(a.policy, req, shown)
	if err != nil {
		return a, err
	}
	workdir := c.MountAt
	if !a.policy.Filesystem.IncludeWorkdir {
		workdir = homePath
	}
	if req.Workdir != "" {
		workdir = req.Workdir
		if !path.IsAbs(workdir) {
			workdir = path.Join(c.MountAt, workdir)
		}
	}
	a.spec = driver.Spec{
		Hostname: c.Name, ReadOnly: shown, Command: driver.Command{
			Args: req.Args, Env: env, Workdir: path.Clean(workdir), TTY: req.TTY, Size: req.Size,
		},
	}
	if a.notes, err = e.govern(&a.spec, a.policy, req); err != nil {
		return a, err
	}
	a.areas, err = e.root(&a.spec, a.policy, req)
	if req.AsRoot {
		a.notes = append(a.notes, "the command is root in the cell: lower assurance")
	}
	return a, err
}

func checkArgs(c store.Cell, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return usage("`forkcell run "+c.Name+" -- CMD ARG...`", "no command to run")
	}
	for _, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return usage("", "an argument holds a NUL byte")
		}
	}
	return nil
}
