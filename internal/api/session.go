package api

import "time"

// SessionTerms are the terms of a session of a coding agent: what its receipt says.
type SessionTerms struct {
	Agent                  string   `json:"agent"`
	AgentVersion           string   `json:"agent_version"`
	Adapter                string   `json:"adapter"` // SHA-256 of its document
	Mode                   string   `json:"mode"`
	Autonomy               string   `json:"autonomy"`
	Assurance              string   `json:"session_assurance"`
	AutonomyAssurance      string   `json:"autonomy_assurance"`
	CacheAssurance         string   `json:"cache_assurance"`
	ObservabilityAssurance string   `json:"observability_assurance"`
	ControlPlane           string   `json:"workspace_control_plane"` // masked or unmasked
	RepoMCP                string   `json:"workspace_repo_mcp"`      // denied or allowed
	NativeSandbox          string   `json:"native_sandbox"`
	NetworkPolicy          string   `json:"network_policy"` // allowlist or unrestricted
	Endpoints              []string `json:"endpoints"`
	Credentials            []string `json:"credentials"`
	InjectionPolicy        string   `json:"injection_policy_sha256"`
	Turns                  string   `json:"turns"`
	Acknowledged           []string `json:"acknowledged"`
	Command                []string `json:"command"`   // without the interpreter of a script
	Directory              string   `json:"directory"` // where the agent starts: below the workspace, or absolute
	// AssuranceFalls are the reasons for a lower assurance that came while the run was
	// live.
	AssuranceFalls []string `json:"assurance_falls,omitempty"`
}

// ReasonLivePolicy is why the assurance of a session falls when its policy is changed
// while it runs.
const ReasonLivePolicy = "live-policy"

// ReasonPackageMutation is why the assurance of a session falls when a package manager
// is executed as root in its cell.
const ReasonPackageMutation = "package-mutation"

// AgentLimit is how long a session waits for its agent to be executed. Its client does
// that at once, so after this time the client has died.
const AgentLimit = 2 * time.Minute

// LabelAgent is the label of a session's cell; its value is the name of the agent. Forks
// of the cell do not inherit it.
const LabelAgent = "forkcell/agent"

// The states of a session.
const (
	// SessionStarting means that its cell is made or live, and its agent is not executed
	// yet.
	SessionStarting = "starting"
	SessionRunning  = "running"
	// SessionPaused means that its agent stands still until the cell is resumed.
	SessionPaused   = "paused"
	SessionStopping = "stopping"
	// SessionExited means that the agent ended by itself without an error, or that the
	// session was stopped. SessionFailed is the end of an agent with an error.
	SessionExited = "exited"
	SessionFailed = "failed"
	// SessionAborted means that something other than the agent or its user ended it: a
	// time limit, a full disk, a killed process.
	SessionAborted = "aborted"
	// SessionInterrupted means that the process that kept it, or that was about to start
	// it, died.
	SessionInterrupted = "interrupted"
)

// AgentSession describes a session of a coding agent. The names of Workcell's record
// are kept where they have a meaning.
type AgentSession struct {
	// SessionID is the name of the session, which is that of its cell.
	SessionID  string   `json:"session_id"`
	Cell       string   `json:"cell"`
	CellID     string   `json:"cell_id"`
	Status     string   `json:"status"`
	LiveStatus string   `json:"live_status"` // the status, or stopped once it has ended
	Workspace  string   `json:"workspace"`
	RunID      string   `json:"run_id"`
	RunIDs     []string `json:"run_ids"`
	ReceiptID  string   `json:"receipt_id"`
	// Began is the state that the session began with, Head its present one.
	Began      string     `json:"began_checkpoint_id"`
	Head       string     `json:"head_checkpoint_id"`
	Decision   string     `json:"decision"` // about the present state
	StartedAt  time.Time  `json:"started_at"`
	ObservedAt time.Time  `json:"observed_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	// ExitStatus is that of the agent; nil while it runs.
	ExitStatus   *int   `json:"exit_status,omitempty"`
	ChangedFiles int    `json:"changed_files"`
	Clients      int    `json:"clients"`
	MonitorPID   int    `json:"monitor_pid,omitempty"`
	PolicyHash   string `json:"policy_hash"`
	SessionTerms
	InitialAssurance string `json:"initial_assurance"`
	CurrentAssurance string `json:"current_assurance"`
	FinalAssurance   string `json:"final_assurance,omitempty"`
}

// TimelineEntry is one thing that happened in a session.
type TimelineEntry struct {
	At      time.Time         `json:"at"`
	Kind    string            `json:"kind"`
	Summary string            `json:"summary"`
	Details map[string]string `json:"details"`
}

// SessionOptions are options of a session that name things of the caller's own host.
type SessionOptions struct {
	RunOptions
	// InjectionPolicy is a file; "" is the operator's.
	InjectionPolicy Text
}
