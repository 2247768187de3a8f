package cli

import (
	"context"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func runPlan(ctx context.Context, s *frame, e runner, req api.RunRequest) error {
	plan, err := e.Plan(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(plan, func(p *page) { printPlan(p, plan) })
}

func printPlan(p *page, r *api.RunPlan) {
	timeout := "none"
	if r.TimeoutUS > 0 {
		timeout = (time.Duration(r.TimeoutUS) * time.Microsecond).String()
	}
	p.printf("dry run: nothing was run\n")
	p.pairs(
		"cell", quote.Line(r.Cell),
		"command", quote.Argv(r.Args),
		"workdir", quote.Path(r.Workdir),
		"environment", quote.Line(strings.Join(r.EnvNames, " ")),
		"read-only", quote.Line(strings.Join(r.ReadOnly, " ")),
		"state before", r.Checkpoint,
		"root before", r.Root,
		"timeout", timeout,
		"policy", r.PolicyHash,
		"grants", quote.Line(strings.Join(r.Grants, " ")),
		"cache", cacheText(r.Cache),
	)
	printControls(p, r.Controls)
	for _, d := range r.Degraded {
		p.printf("degraded: %s\n", quote.Line(d))
	}
}

// cacheText describes the shared state under the caches of a run.
func cacheText(c *api.CacheUse) string {
	switch {
	case c == nil:
		return ""
	case c.From == "":
		return c.Setting + " at " + c.Path + ", from nothing"
	}
	return quote.Line(c.Setting + " at " + c.Path + ", from " + c.From + " " + c.CheckpointID)
}

func printControls(p *page, c api.Controls) {
	privileges := "no_new_privs off"
	if c.NoNewPrivs {
		privileges = "no_new_privs"
	}
	p.pairs(
		"runtime", quote.Line(c.Runtime)+note(quote.Line(c.Kernel)),
		"namespaces", quote.Line(strings.Join(c.Namespaces, " ")),
		"user", quote.Line(c.User),
		"privileges", privileges,
		"capabilities", quote.Line(c.Capabilities),
		"network", quote.Line(c.Network),
		"landlock", quote.Line(c.Landlock),
		"seccomp", quote.Line(c.Seccomp),
		"limits", quote.Line(c.Limits),
		"mounts", quote.Line(c.MountAPI),
	)
}
