package receipt

import "errors"

// Session says that a run is a session of a coding agent, and on which terms.
type Session struct {
	// Agent is the name of the adapter, AgentVersion the version of the program; empty
	// if it is not known. Adapter is the SHA-256 of the adapter's document.
	Agent        string `json:"agent"`
	AgentVersion string `json:"agent_version,omitempty"`
	Adapter      string `json:"adapter"`
	Mode         string `json:"mode"`
	Autonomy     string `json:"autonomy"`
	// Assurance is managed, or lower-assurance- and the reasons joined by +. The other
	// three are labels of one part each.
	Assurance              string `json:"session_assurance"`
	AutonomyAssurance      string `json:"autonomy_assurance"`
	CacheAssurance         string `json:"cache_assurance"`
	ObservabilityAssurance string `json:"observability_assurance"`
	// ControlPlane is masked or unmasked, RepoMCP denied or allowed.
	ControlPlane string `json:"workspace_control_plane"`
	RepoMCP      string `json:"workspace_repo_mcp"`
	// NativeSandbox is the state of the agent's own sandbox, and why.
	NativeSandbox string `json:"native_sandbox"`
	// NetworkPolicy is allowlist or unrestricted.
	NetworkPolicy string   `json:"network_policy"`
	Endpoints     []string `json:"endpoints,omitempty"`
	// Credentials are keys with the way in which each gets in, never values.
	Credentials []string `json:"credentials,omitempty"`
	// InjectionPolicy is the SHA-256 of the operator's injection policy.
	InjectionPolicy string `json:"injection_policy_sha256,omitempty"`
	Turns           string `json:"turns"`
	// Acknowledged are the dated acknowledgements of the operator.
	Acknowledged []string `json:"acknowledged,omitempty"`
	// Command is the agent's command line, without the interpreter of a script and with
	// secrets redacted.
	Command []string `json:"command"`
	// Directory is where the agent starts, below the workspace or absolute; empty for
	// the workspace itself.
	Directory string `json:"directory,omitempty"`
	// AssuranceFalls are the reasons for a lower assurance that came while the run was
	// live.
	AssuranceFalls []string `json:"assurance_falls,omitempty"`
}

func (s *Session) check() error {
	if s == nil {
		return nil
	}
	if s.Agent == "" || s.Mode == "" || s.Autonomy == "" || s.Assurance == "" || !isHash(s.Adapter) || !isHashOrEmpty(s.InjectionPolicy) {
		return errors.New("session: agent, mode, autonomy or assurance is missing, or a hash is not a SHA-256")
	}
	return nil
}
