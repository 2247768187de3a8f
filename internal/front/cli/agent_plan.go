package cli

import (
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// printSessionPlan prints what was decided about a session.
func printSessionPlan(out *page, p *api.SessionPlan) {
	version := p.Terms.AgentVersion
	switch {
	case version == "":
		version = "of unknown version"
	case p.VersionPlace == adapter.VersionTested:
		version += " (tested)"
	case p.VersionPlace != adapter.VersionUnknown:
		version += " (" + p.VersionPlace + ")"
	}
	out.printf("%s %s, mode %s, %s\n", quote.Line(p.Title), quote.Line(version), p.Terms.Mode, p.Terms.Autonomy)
	credentials := strings.Join(p.Terms.Credentials, "; ")
	if credentials == "" {
		credentials = "none"
		if len(p.MissingCredentials) > 0 {
			credentials += "; it can use " + strings.Join(p.MissingCredentials, ", ")
		}
	}
	masked := "nothing"
	if p.Terms.ControlPlane != "unmasked" {
		masked = "all control files of agents, editors and git"
		if len(p.Masked) > 0 {
			masked += ", among them " + strings.Join(p.Masked, ", ")
		}
	}
	home := ""
	if p.KeptHome {
		home = "that of the cell, with everything that its earlier commands wrote there"
	}
	begins := ""
	if p.OnTop {
		begins = "with the undecided work of the directory's cell: accepting the session accepts it, too"
	}
	out.pairs(
		"begins", begins, "program", quote.Path(p.Program), "workspace", quote.Path(p.Workspace), "home", home, "reaches", reaches(p.Terms),
		"credentials", quote.Line(credentials), "ssh", quote.Line(strings.Join(p.SSHNotes, "; ")), "masked", quote.Line(masked), "limits", limitsText(p.Limits, p.OptionalLimits), "packages", quote.Line(p.Packages), "turns", turnsText(p.TurnsTaken), "assurance", p.Terms.Assurance,
	)
}

// turnsText says when turns are recorded.
func turnsText(when string) string {
	if when == "" {
		return "none"
	}
	return quote.Line(when) + "; forkcell session rewind goes back"
}

// maxReaches is how many endpoints the block before a start names.
const maxReaches = 6

func reaches(t api.SessionTerms) string {
	if t.NetworkPolicy == agentsession.Unrestricted {
		return "every host, but for this one, loopback, link-local and metadata addresses"
	}
	if len(t.Endpoints) == 0 {
		return "nothing"
	}
	list := t.Endpoints
	more := ""
	if n := len(list) - maxReaches; n > 0 {
		list, more = list[:maxReaches], " and "+count(int64(n), "other", "others")
	}
	return quote.Line(strings.Join(list, ", ") + more)
}

// wallTime returns a limit of time, in days if it is whole days.
func wallTime(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return count(int64(d/day), "day", "days")
	}
	return d.String()
}

func limitsText(l api.SessionLimits, optional bool) string {
	var parts []string
	if l.MemoryBytes > 0 {
		parts = append(parts, size(l.MemoryBytes)+" of memory")
	}
	if l.PIDs > 0 {
		parts = append(parts, count(l.PIDs, "process", "processes"))
	}
	if optional && len(parts) > 0 {
		parts = []string{strings.Join(parts, " and ") + " if this host can enforce that"}
	}
	if l.WallTimeSeconds > 0 {
		parts = append(parts, wallTime(time.Duration(l.WallTimeSeconds)*time.Second))
	}
	if l.DiskBytes > 0 {
		parts = append(parts, size(l.DiskBytes)+" of disk, checked now and then")
	}
	return strings.Join(parts, ", ") // flags may set more
}
