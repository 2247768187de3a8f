package session

import (
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	yolo   = adapter.Yolo
	prompt = adapter.Prompt

	managed = "managed"
	lower   = "lower-assurance-"
)

// Reasons for a lower assurance, in Workcell's words where it has one.
const (
	reasonDevelopment      = "development"
	reasonBreakglass       = "breakglass"
	reasonControlPlane     = "unmasked-control-plane"
	reasonControlPlaneVCS  = "control-plane-vcs"
	reasonRepoMCP          = "repo-mcp"
	reasonDebugCommand     = "debug-command"
	reasonPersistentCache  = "persistent-cache"
	reasonKeptHome         = "kept-home"
	reasonCredentialCopy   = "credential-copy"
	reasonUnsafeSSHConfig  = "unsafe-ssh-config"
	reasonDegradedControls = "degraded-controls"
)

// facts are those that the assurance of a session depends on.
type facts struct {
	mode        string
	allow       Allowances
	cache       bool // standard
	keptHome    bool // earlier commands have written the home that the session begins with
	credentials []Credential
	unsafeSSH   bool // the operator's configuration of ssh has risky directives
	degraded    bool // the operator allowed controls to be missing
	masks       bool // control files of the workspace are masked
	// earlier are the reasons of the session's earlier runs. The assurance only ever
	// falls: what they changed is still there.
	earlier []string
}

// reasons returns why the assurance is lower, in a fixed order, with the earlier
// reasons last. This is the only place that decides it.
func (f facts) reasons() []string {
	var out []string
	add := func(is bool, reason string) {
		if is {
			out = append(out, reason)
		}
	}
	add(f.allow.ArbitraryCommand, reasonDebugCommand)
	add(f.mode == Breakglass, reasonBreakglass)
	// Build promises the same as development until something is installed.
	add(f.mode == Development || f.mode == Build, reasonDevelopment)
	add(!f.masks && f.mode != Breakglass, reasonControlPlane)
	add(f.allow.ControlPlaneVCS, reasonControlPlaneVCS)
	add(f.allow.RepoMCP, reasonRepoMCP)
	add(f.cache, reasonPersistentCache)
	add(f.keptHome, reasonKeptHome)
	add(slices.ContainsFunc(f.credentials, func(c Credential) bool { return c.How == AsCopy }), reasonCredentialCopy)
	add(f.unsafeSSH, reasonUnsafeSSHConfig)
	add(f.degraded, reasonDegradedControls)
	for _, reason := range f.earlier {
		add(!slices.Contains(out, reason), reason)
	}
	return out
}

// earlierReasons returns the reasons of the session that is resumed.
func (q *Facts) earlierReasons() []string {
	if q.Earlier == nil {
		return nil
	}
	return reasonsOf(q.Earlier)
}

// reasonsOf returns the reasons in the terms of a run, with those that came while it was
// live.
func reasonsOf(t *api.SessionTerms) []string {
	if t.Assurance == managed {
		return t.AssuranceFalls
	}
	return slices.Concat(strings.Split(strings.TrimPrefix(t.Assurance, lower), "+"), t.AssuranceFalls)
}

// checkCopies refuses to resume a session without a credential that it got as a copy.
// The copy is in the cell's files, and the record would not name it.
func (q *Facts) checkCopies() error {
	if q.Earlier == nil {
		return nil
	}
	for _, old := range q.Earlier.Credentials {
		key, _, copied := strings.Cut(old, asCopy)
		if copied && !slices.ContainsFunc(q.Credentials, func(c Credential) bool { return c.Key == key && c.How == AsCopy }) {
			return api.Refusef(api.CodeCredential, "give the mode and the injection policy that it had, or start a new session",
				"the session's files have a copy of the credential %s, which this start does not select", quote.Line(key))
		}
	}
	return nil
}

// Label returns the assurance that reasons leave: managed without any.
func Label(reasons []string) string {
	if len(reasons) == 0 {
		return managed
	}
	return lower + strings.Join(reasons, "+")
}

// autonomyLabel, cacheLabel and observabilityLabel are labels of one part each.
func autonomyLabel(autonomy string) string {
	if autonomy == prompt {
		return lower + "prompt-autonomy"
	}
	return managed + "-yolo"
}

func cacheLabel(persistent bool) string {
	if persistent {
		return lower + reasonPersistentCache
	}
	return managed
}

// observabilityLabel is always that of a stored transcript: the output of a live run is
// kept with its receipt, with secrets redacted.
func observabilityLabel() string { return managed + "-transcript" }
