package session

import (
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The modes of a session.
const (
	// Strict reaches the agent's own service only.
	Strict = "strict"
	// Development also reads from code hosts and from the registries that the host's
	// tools use.
	Development = "development"
	// Build is as Development, and package managers of the system run as root in the
	// cell.
	Build = "build"
	// Breakglass reaches what the operator lists, and masks nothing.
	Breakglass = "breakglass"
)

// modes lists the modes, the default first.
func modes() []string { return []string{Strict, Development, Build, Breakglass} }

// The things that need an acknowledgement with the day's date.
const (
	AckBreakglass       = "breakglass"
	AckControlPlaneVCS  = "control-plane-vcs"
	AckRepoMCP          = "repo-mcp"
	AckArbitraryCommand = "arbitrary-command"
)

// Allowances lists what the operator allows beyond the mode.
type Allowances struct {
	// ControlPlaneVCS shows the control files of the repository, read-only.
	ControlPlaneVCS bool
	// RepoMCP lets the agent start MCP servers that the repository names.
	RepoMCP bool
	// ArbitraryCommand runs another command in place of the agent.
	ArbitraryCommand bool
}

// Names returns the names of what is allowed.
func (a Allowances) Names() (names []string) {
	for _, one := range []struct {
		name    string
		allowed bool
	}{{AckControlPlaneVCS, a.ControlPlaneVCS}, {AckRepoMCP, a.RepoMCP}, {AckArbitraryCommand, a.ArbitraryCommand}} {
		if one.allowed {
			names = append(names, one.name)
		}
	}
	return names
}

// checkUnrestricted refuses a network without restrictions where the operator has not taken that
// upon themselves, or where it would allow what the operator has denied.
func (q *Facts) checkUnrestricted() error {
	switch {
	case !q.Unrestricted:
		return nil
	case q.Mode != Breakglass:
		return api.Usagef("give --mode breakglass too", "--unrestricted has no meaning without --mode breakglass")
	case len(q.Endpoints.Deny) > 0:
		return api.Refusef(api.CodePolicy, "give --injection-policy another one", "the injection policy denies endpoints, which --unrestricted would allow")
	}
	return nil
}

// checkMode refuses a mode or an autonomy that does not exist, and acknowledgements
// that are missing, without effect or not of today. It returns those that were needed.
func checkMode(q *Facts) ([]string, error) {
	if !slices.Contains(modes(), q.Mode) {
		return nil, api.Usagef("--mode is one of "+strings.Join(modes(), ", "), "unknown mode %s", quote.Arg(q.Mode))
	}
	if !slices.Contains([]string{yolo, prompt}, q.Autonomy) {
		return nil, api.Usagef("--autonomy is yolo or prompt", "unknown autonomy %s", quote.Arg(q.Autonomy))
	}
	if q.Mode == Breakglass && (q.Allow.ControlPlaneVCS || q.Allow.RepoMCP) {
		return nil, api.Usagef("leave it out", "--allow-control-plane-vcs and --allow-repo-mcp have no meaning with --mode breakglass, which masks nothing")
	}
	if err := q.checkUnrestricted(); err != nil {
		return nil, err
	}
	var used []string
	for _, a := range []struct {
		name   string
		needed bool
		flag   string
	}{
		{AckBreakglass, q.Mode == Breakglass, "--mode breakglass"},
		{AckControlPlaneVCS, q.Allow.ControlPlaneVCS, "--allow-control-plane-vcs"},
		{AckRepoMCP, q.Allow.RepoMCP, "--allow-repo-mcp"},
		{AckArbitraryCommand, q.Allow.ArbitraryCommand, "--allow-arbitrary-command"},
	} {
		given := q.Acknowledged[a.name]
		today := q.Now.UTC().Format(time.DateOnly)
		switch {
		case !a.needed && given != "":
			return nil, api.Usagef("leave it out", "--ack-%s has no meaning without %s", a.name, a.flag)
		case a.needed && given == "":
			return nil, api.Usagef("give --ack-"+a.name+"="+today, "%s needs an acknowledgement with today's date", a.flag)
		case a.needed && given != today:
			return nil, api.Usagef("today is "+today+" in UTC", "--ack-%s=%s is not today's date", a.name, quote.Arg(given))
		case a.needed:
			used = append(used, a.name+"="+given)
		}
	}
	return used, nil
}
