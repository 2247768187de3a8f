package api

// SessionSettings are the fields that the bodies of POST /v1/sessions and of a rewind
// share. Those of RunSettings have the same meaning as for a live cell; its policy is
// added to that of the agent, and its credentials may be those of the agent.
type SessionSettings struct {
	Arguments    []string          `json:"arguments,omitempty" doc:"Arguments of the agent. For generic they begin with the program, which the cell must have."`
	Mode         string            `json:"mode,omitempty" operator:"mode" enum:"strict,development,build,breakglass" doc:"What the session may reach. Without it strict, or that of the session that is rewound. breakglass is only for the operator."`
	Autonomy     string            `json:"autonomy,omitempty" enum:"yolo,prompt" doc:"Whether the agent works without asking (yolo, the default) or asks."`
	Turns        string            `json:"turns,omitempty" doc:"When a turn is recorded: auto (the default), tool, off, or a duration such as 30s."`
	Allow        []string          `json:"allow,omitempty" operator:"only" enum:"control-plane-vcs,repo-mcp,arbitrary-command" doc:"What to allow beyond the mode, with an acknowledgement. Only for the operator."`
	Acknowledged map[string]string `json:"acknowledged,omitempty" operator:"only" doc:"Acknowledgements by name (breakglass, or one of allow), each with today's date in UTC. Only for the operator."`
	RunSettings
}

// CreateSession is the body of POST /v1/sessions.
type CreateSession struct {
	Cell        string `json:"cell" doc:"The cell that the session is a fork of." minLength:"1" maxLength:"63"`
	Agent       string `json:"agent" doc:"The name of the agent; generic is any program." minLength:"1" maxLength:"63"`
	Name        string `json:"name,omitempty" doc:"Name of the session. Without one it is made from those of the cell and the agent." maxLength:"63"`
	AllowNonGit bool   `json:"allow_nongit,omitempty" doc:"Admit a cell whose source is no git repository: its instruction files are used as they are."`
	OnTop       bool   `json:"on_top,omitempty" doc:"Begin with the undecided work of the cell. Without it the session begins with what is accepted."`
	Hold        bool   `json:"hold,omitempty" doc:"Do not execute the agent yet: the first WebSocket at .../agent does, with its streams. Without one the session ends after two minutes."`
	SessionSettings
}

// RewindBody is the body of POST /v1/sessions/{session}/rewind.
type RewindBody struct {
	To      *int   `json:"to,omitempty" doc:"Go back to the state after this turn. Without it, to the turn before the last." minimum:"0"`
	Reason  string `json:"reason,omitempty" doc:"Why, for the log."`
	NoStart bool   `json:"no_start,omitempty" doc:"Do not start the agent again."`
	Hold    bool   `json:"hold,omitempty" doc:"Do not execute the agent yet, as for a new session."`
	SessionSettings
}

// RewoundSession says where a session was taken, and what it is now.
type RewoundSession struct {
	RewindResult
	Session *AgentSession `json:"session"`
}

// SentMessage says what was typed into a session.
type SentMessage struct {
	SessionID string `json:"session_id"`
	SentBytes int    `json:"sent_bytes"`
	// Confirmed reports whether the program has shown something on its terminal after
	// what was typed last. Otherwise it may not have taken the message.
	Confirmed bool `json:"confirmed" doc:"Whether the program has shown something on its terminal since. Otherwise it may not have taken the message."`
}

// PublishBody is the body of POST /v1/sessions/{session}/publish.
type PublishBody struct {
	Branch      string `json:"branch" doc:"Name of the new branch." minLength:"1"`
	Base        string `json:"base,omitempty" doc:"The branch to start from."`
	Title       string `json:"title,omitempty" doc:"First line of the commit's message."`
	Message     string `json:"message,omitempty" doc:"Further text of the commit's message."`
	Sign        string `json:"sign,omitempty" enum:"ssh,gpg,off" doc:"The signature; without it, as the operator's git is configured."`
	Push        bool   `json:"push,omitempty" doc:"Push the branch to the push URL of origin."`
	PR          bool   `json:"pr,omitempty" doc:"Make a pull request; implies push."`
	KeepCommits bool   `json:"keep_commits,omitempty" doc:"Publish the commits that were made in the session instead of one."`
	DryRun      bool   `json:"dry_run,omitempty" doc:"Make and check the commit, publish nothing."`
}

// SessionPlan has the decisions about a session before it starts.
type SessionPlan struct {
	Title           string            `json:"title"`
	Workspace       string            `json:"workspace"`
	Program         string            `json:"program"`
	VersionPlace    string            `json:"version_place"`
	Show            []string          `json:"show"`
	Environment     map[string]string `json:"environment"`
	Masked          []string          `json:"masked"`
	UsedCredentials []AgentCredential `json:"credentials"`
	// MissingCredentials are keys of the adapter, if none of them is configured.
	MissingCredentials []string `json:"missing_credentials"`
	Reasons            []string `json:"assurance_reasons"`
	// KeptHome reports that the session begins with the home of the cell, which earlier
	// commands have written.
	KeptHome bool `json:"kept_home,omitempty"`
	// OnTop reports that the session begins with the undecided work of the cell.
	OnTop      bool     `json:"on_top,omitempty"`
	PolicyHash string   `json:"policy_hash"`
	Notes      []string `json:"notes"`
	// SSHNotes say what keeps the session from logging in to hosts.
	SSHNotes []string `json:"ssh_notes,omitempty"`
	// Packages says what the session can install of the system; "" in modes that are
	// not about it.
	Packages string `json:"packages,omitempty"`
	// Limits are those of the session, besides those of options.
	Limits SessionLimits `json:"limits"`
	// OptionalLimits reports that the limits are the default ones.
	OptionalLimits bool `json:"optional_limits"`
	// TurnsTaken says when turns are recorded; "" is never.
	TurnsTaken string       `json:"turns_taken,omitempty"`
	Terms      SessionTerms `json:"terms"`
}

// SessionLimits bound what a session uses. 0 is no limit.
type SessionLimits struct {
	MemoryBytes     int64 `json:"memory_bytes"`
	PIDs            int64 `json:"pids"`
	WallTimeSeconds int64 `json:"wall_time_seconds"`
	DiskBytes       int64 `json:"disk_bytes"`
}

// AgentCredential is a secret that a session uses, by name.
type AgentCredential struct {
	// Key is its name, How the way it gets in: placeholder, header or copy.
	Key string `json:"key"`
	How string `json:"how"`
	// Source is where its value comes from, without secrets.
	Source string `json:"source"`
}

// String names the credential without its value.
func (c AgentCredential) String() string { return c.Key + ": " + c.How + ", from " + c.Source }

// AgentState says what a host has of an agent.
type AgentState struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	File      string `json:"file,omitempty"` // the operator's document
	Installed bool   `json:"installed"`
	Program   string `json:"program,omitempty"`
	Version   string `json:"version,omitempty"`
	// Place is where the version is in the range that was tested.
	Place       string   `json:"version_place"`
	Tested      string   `json:"tested,omitempty"`
	Shown       []string `json:"shown"`
	Reaches     []string `json:"reaches"`
	Credentials []string `json:"credentials"` // that are configured, with their sources
	Ready       bool     `json:"ready"`
	Problem     string   `json:"problem,omitempty"`
	// Answer is what the program printed in a cell.
	Answer string `json:"answer,omitempty"`
}

// CredentialDecision says whether a session gets a credential, how, and why. It never
// has a value.
type CredentialDecision struct {
	Credential string `json:"credential"`
	Selected   bool   `json:"selected"`
	// How is placeholder, header or copy; "" if it is not selected.
	How string `json:"how,omitempty"`
	// Reason is why it is selected or not.
	Reason string `json:"selection_reason"`
	// Readiness says whether the value can be had.
	Readiness string   `json:"credential_readiness"`
	Input     string   `json:"credential_input_kind"`
	Providers []string `json:"credential_providers,omitempty"`
	Modes     []string `json:"credential_modes,omitempty"`
	Resolver  string   `json:"credential_resolver,omitempty"`
	// Source is the place of the value, without secrets.
	Source string `json:"source,omitempty"`
	// Endpoints are the places that the value is sent to.
	Endpoints []string `json:"endpoints,omitempty"`
	// Problem is why the value cannot be had; "" if it can.
	Problem string `json:"problem,omitempty"`
	// Next is what the operator can do; "" if nothing is missing.
	Next string `json:"next_step,omitempty"`
}

// AgentDocument is an agent, and the document that describes it as YAML.
type AgentDocument struct {
	AgentState
	Document string `json:"document" doc:"The adapter. One of the operator's own is shown with the scope admin only."`
}
