package api

import "time"

// RunOptions are the options that run and start share.
type RunOptions struct {
	// Env has the variables of the command, as K=V.
	Env Texts `json:"env,omitempty"`
	// Workdir is absolute, or relative to the workspace.
	Workdir Text `json:"workdir,omitempty"`
	// ReadOnly are paths of the host that the cell shows.
	ReadOnly Texts `json:"ro,omitempty"`
	// Timeout is the time of the command, or of the live cell.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Wait is how long to wait for a busy cell; negative is for ever.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// Policy is nil for that of the cell.
	Policy *PolicyFile `json:"policy,omitempty"`
	// Memory is in bytes, CPUs in thousandths of a processor. These limits can only
	// restrict what the policy allows.
	Memory int64 `json:"memory,omitempty"`
	CPUs   int64 `json:"cpus_milli,omitempty"`
	PIDs   int64 `json:"pids,omitempty"`
	// OutputLimit is how many bytes of each stream are stored; 0 is the default, 64 MiB.
	// A policy can only lower it.
	OutputLimit int64 `json:"output_limit,omitempty"`
	// AllowDegraded runs the command although a control cannot be enforced.
	AllowDegraded bool `json:"allow_degraded,omitempty"`
	// WatchDisk accepts a limit on the disk that is enforced by looking at intervals, as
	// AllowDegraded does.
	WatchDisk bool           `json:"watch_disk,omitempty"`
	Network   NetworkRequest `json:"network,omitzero"`
	Grants    GrantRequest   `json:"grants,omitzero"`
	// Root is host, host-overlay or a directory; "" is host.
	Root Text `json:"root,omitempty"`
	// AsRoot makes the command root in the cell.
	AsRoot bool `json:"as_root,omitempty"`
	// Cache is off or standard; "" is the setting of the cell.
	Cache string `json:"cache,omitempty"`
	// Runtime is native, gvisor or microvm; "" is that of the cell.
	Runtime string `json:"runtime,omitempty"`
	// Offline takes the network and the credentials out of the policy.
	Offline bool `json:"offline,omitempty"`
	// Control, if set, masks the control files of the workspace.
	Control *ControlRequest `json:"control,omitempty"`
}

// DefaultOutputLimit is how much of each stream of a run is stored without another limit.
const DefaultOutputLimit = 64 << 20

// RunRequest asks for one governed run.
type RunRequest struct {
	Cell string `json:"cell"`
	Args Texts  `json:"command"`
	RunOptions
	// RunID is the id of the run; "" makes one.
	RunID            string `json:"-"`
	CheckpointBefore bool   `json:"checkpoint_before,omitempty"`
	CheckpointName   string `json:"checkpoint_name,omitempty"`
	RestoreOnFail    bool   `json:"restore_on_fail,omitempty"`
	AcceptOnSuccess  bool   `json:"accept_on_success,omitempty"`
	// TTY gives the command a terminal of this size and type ($TERM).
	TTY  bool       `json:"tty,omitempty"`
	Size WindowSize `json:"size,omitzero"`
	Term string     `json:"term,omitempty"`
}

// StartRequest asks for a live cell: a run without a command.
type StartRequest struct {
	Cell string `json:"cell"`
	RunOptions
	// Warm, if set, makes the cell a template, whose warm process can be copied.
	Warm *WarmRequest `json:"warm,omitempty"`
	// Session, if set, makes the run a session of a coding agent.
	Session *SessionTerms `json:"session,omitempty"`
	// Turns, if set, takes turns.
	Turns *TurnRequest `json:"turns,omitempty"`
	// Packages lets programs in the cell have package managers executed as the cell's
	// root. It needs Root to be host-overlay.
	Packages bool `json:"packages,omitempty"`
	// Degraded lists controls that the caller left out, for the receipt.
	Degraded []string `json:"degraded,omitempty"`
}

// StopRequest ends a live cell.
type StopRequest struct {
	Cell string `json:"cell"`
	// Grace is the time between asking its processes to end and killing them;
	// negative is the usual time.
	Grace time.Duration `json:"grace_ns"`
	// For is what the cell is ended for, one of EndedBy; "" is EndedByStop.
	For string `json:"for,omitempty"`
}

// EndedBy is the request by which a cell was ended under a command.
const (
	EndedByStop   = "stop"
	EndedByRewind = "rewind"
)

// ExecRequest asks for one command in a live cell.
type ExecRequest struct {
	Cell    string        `json:"cell"`
	Args    Texts         `json:"command"`
	Env     Texts         `json:"env,omitempty"`     // K=V, over those of the cell
	Workdir Text          `json:"workdir,omitempty"` // absolute, or relative to the workspace
	User    string        `json:"user,omitempty"`    // "" = sandbox, the only one
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	TTY     bool          `json:"tty,omitempty"`
	Size    WindowSize    `json:"size,omitzero"`
	// Detachable keeps the command when its caller has gone; Ctrl-P Ctrl-Q on
	// its terminal leaves it.
	Detachable bool `json:"detachable,omitempty"`
	// Main ends the live cell when the command ends. The outcome of the run is then
	// that of the command.
	Main bool `json:"main,omitempty"`
	// RawInput passes Ctrl-P Ctrl-Q to the command.
	RawInput bool `json:"raw_input,omitempty"`
	// Keyboard says whether the input of a client that attaches reaches the command.
	Keyboard Keyboard `json:"keyboard,omitempty"`
}

// Keyboard says who of several clients of a command types. "" always does. The client
// that executes the main command of a cell shares the keyboard.
type Keyboard string

// Of the clients that share the keyboard the first one types, and the others watch.
// One that takes it becomes the first.
const (
	KeyboardShare Keyboard = "share"
	KeyboardTake  Keyboard = "take"
	// KeyboardSend is of a client that types one message and leaves. It always types.
	KeyboardSend Keyboard = "send"
)

// WindowSize is the size of a terminal.
type WindowSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// NetworkRequest is what the operator grants to a run's network.
type NetworkRequest struct {
	// Credentials are NAME=SOURCE, or NAME for the line of the credentials file.
	Credentials Texts `json:"credentials,omitempty"`
	// CredentialsFile is the operator's file of such lines, for credentials that
	// Credentials leaves out; it need not exist. "" for none.
	CredentialsFile Text  `json:"credentials_file,omitempty"`
	Resolve         Texts `json:"resolve,omitempty"` // HOST[:PORT]=IP[:PORT]
	// CA has certificates in PEM, trusted for upstreams besides the host's roots.
	CA []byte `json:"ca,omitempty"`
	// Placeholders are texts that stand for credentials of the policy in files of the
	// cell, by name. Others get new ones.
	Placeholders map[string]string `json:"placeholders,omitempty"`
	// Logins are those that the run may use and renew.
	Logins []Login `json:"logins,omitempty"`
	// Unrestricted lets the run reach every host, besides what its policy lists. It is
	// for the operator's own sessions.
	Unrestricted bool `json:"unrestricted,omitempty"`
	// SSH lets the run log in to hosts by SSH; nil if it may not.
	SSH *SSHRequest `json:"ssh,omitempty"`
}

// GrantRequest lists what the operator lets the policy of a run use of the host, and
// loosen.
type GrantRequest struct {
	Paths Texts `json:"paths,omitempty"` // PATH[:ro|rw]
	Env   Texts `json:"env,omitempty"`   // names of variables
	// Syscalls are names of system calls that the policy may take out of the deny set.
	Syscalls []string `json:"syscalls,omitempty"`
	// Addresses are ranges of addresses that are not public, and that the policy may list.
	Addresses []string `json:"addresses,omitempty"`
	// ConfigFile is the operator's configuration, with grants to named policies.
	// It need not exist. "" for none.
	ConfigFile Text `json:"config_file,omitempty"`
}

// LiveGrant is what the caller gives a live cell with another policy.
type LiveGrant struct {
	Credentials     Texts // as NetworkRequest has them
	CredentialsFile Text
	// Addresses and ConfigFile are those of a GrantRequest. What else a policy may loosen
	// is fixed when the cell starts.
	Addresses  []string
	ConfigFile Text
}

// PolicyFile is a policy as it was given: a name for messages, and the text.
type PolicyFile struct {
	Name Text   `json:"name"`
	Text []byte `json:"text"`
	// Path is the absolute path of the file; "" if the text comes from elsewhere.
	Path Text `json:"path,omitempty"`
	// Grants reports of a ceiling that the operator gave it to its caller: what it lets a
	// policy loosen is granted.
	Grants bool `json:"grants,omitempty"`
	// Resolve are grants that come with the file, as --resolve takes them: the
	// addresses of registries that the operator's tools use. They are no part of
	// the policy.
	Resolve Texts `json:"resolve,omitempty"`
}

// Controls describes the controls of a cell's processes in words.
type Controls struct {
	Runtime      string   `json:"runtime"`
	Kernel       string   `json:"kernel"`
	Namespaces   []string `json:"namespaces"`
	User         string   `json:"user"`
	NoNewPrivs   bool     `json:"no_new_privs"`
	Capabilities string   `json:"capabilities"`
	Network      string   `json:"network"`
	Landlock     string   `json:"landlock"`
	Seccomp      string   `json:"seccomp"`
	Limits       string   `json:"limits"`
	MountAPI     string   `json:"mount_api"`
	Degraded     []string `json:"degraded"`
	// Sockets says what became of the listening sockets and the connections of the cell
	// that this one is a branch of.
	Sockets string `json:"sockets,omitempty"`
}

// IsRecorded reports whether the run is part of the cell's history. What an engine
// returns with an error may not be: the next command finishes such a run.
func (r *RunResult) IsRecorded() bool { return r != nil && r.ReceiptID != "" }

// RunResult is the result document of a run.
type RunResult struct {
	Cell             string   `json:"cell"`
	RunID            string   `json:"run_id"`
	ReceiptID        string   `json:"receipt_id"`
	Outcome          string   `json:"outcome"`
	ExitCode         int      `json:"exit_code"`
	Signal           int      `json:"signal"`
	Decision         string   `json:"decision"`
	SplitLinks       []string `json:"split_links"`
	CheckpointBefore string   `json:"checkpoint_before"`
	CheckpointAfter  string   `json:"checkpoint_after"`
	RootBefore       string   `json:"root_before"`
	RootAfter        string   `json:"root_after"`
	ChangedFiles     int      `json:"changed_files"`
	// Elsewhere counts what the run changed outside the workspace, which ChangedFiles does
	// not.
	Elsewhere  []AreaChange     `json:"elsewhere,omitempty"`
	PolicyHash string           `json:"policy_hash"`
	Degraded   []string         `json:"degraded"`
	Controls   Controls         `json:"controls"`
	Events     map[string]int64 `json:"events"`
	Denied     DeniedNetwork    `json:"denied"`
	// Unanswered is nil if the run succeeded or every allowed request was answered.
	Unanswered *UnansweredNetwork `json:"unanswered,omitempty"`
	Notes      []string           `json:"notes"`
	Cache      *CacheUse          `json:"cache,omitempty"`
	Error      string             `json:"error,omitempty"`
	Timings    RunTimings         `json:"timings"`
}

// OK reports whether the command succeeded.
func (r *RunResult) OK() bool { return r.Outcome == "succeeded" }

// RunTimings are the parts of a run, in microseconds; TotalUS wraps them all.
type RunTimings struct {
	PrepareUS int64 `json:"prepare_us"`
	StartUS   int64 `json:"start_us"`
	CommandUS int64 `json:"command_us"`
	SealUS    int64 `json:"seal_us"`
	DecideUS  int64 `json:"decide_us"`
	TotalUS   int64 `json:"total_us"`
}

// RunPlan is what --dry-run prints: the resolved controls, nothing was run.
type RunPlan struct {
	Cell       string    `json:"cell"`
	Args       []string  `json:"args"`
	EnvNames   []string  `json:"env_names"`
	Workdir    string    `json:"workdir"`
	ReadOnly   []string  `json:"read_only"`
	Checkpoint string    `json:"checkpoint_before"`
	Root       string    `json:"root_before"`
	TimeoutUS  int64     `json:"timeout_us"`
	PolicyHash string    `json:"policy_hash"`
	Grants     []string  `json:"grants"` // that the policy uses, as flags
	Degraded   []string  `json:"degraded"`
	Cache      *CacheUse `json:"cache,omitempty"`
	Controls   Controls  `json:"controls"`
}

// DeniedNetwork is what a run was denied of a network.
type DeniedNetwork struct {
	// Attempts counts connections, requests and questions for names.
	Attempts int64 `json:"attempts"`
	// To has some of the destinations, as host:port; a name that was only asked
	// for has no port.
	To []string `json:"to"`
	// Offline reports that the cell had no network at all, and tried to use one.
	Offline bool `json:"offline,omitempty"`
}

// UnansweredNetwork counts what the policy allowed and the other side did not
// answer.
type UnansweredNetwork struct {
	// Attempts counts connections and requests.
	Attempts int64 `json:"attempts"`
	// To has some of the destinations, as host:port.
	To []string `json:"to"`
	// Reason is that of the first one.
	Reason string `json:"reason"`
}

// StartResult says that a cell is live.
type StartResult struct {
	Cell      string    `json:"cell"`
	CellID    string    `json:"cell_id"`
	RunID     string    `json:"run_id"`
	PID       int       `json:"pid"`
	Socket    string    `json:"socket"`
	StartedAt time.Time `json:"started_at"`
	Degraded  []string  `json:"degraded"`
	Controls  Controls  `json:"controls"`
	// ReadyUS is the time until a template was warm.
	ReadyUS int64 `json:"ready_us,omitempty"`
	// Control lists the control files that are masked; nil if none was to be.
	Control *ControlFiles `json:"control_files,omitempty"`
	// MountAt is where the cell's files are in it, for callers in this process.
	MountAt string `json:"-"`
}

// PauseRequest pauses a live cell.
type PauseRequest struct {
	Cell   string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	FSOnly bool   `json:"fs_only,omitempty" doc:"End the processes, and keep the files only."`
}

// ResumeRequest makes a paused cell live again.
type ResumeRequest struct {
	Cell string `json:"cell"`
	// FSOnly drops the memory that a cell was paused with, and keeps its files.
	FSOnly bool `json:"fs_only,omitempty"`
	// Credentials are NAME=SOURCE. Values are not kept while a cell is paused on disk.
	Credentials     Texts `json:"credentials,omitempty"`
	CredentialsFile Text  `json:"credentials_file,omitempty"`
}

// PauseResult says whether a live cell is paused.
type PauseResult struct {
	Cell  string `json:"cell"`
	RunID string `json:"run_id"`
	State string `json:"state"` // live or paused
	// Changed is false if the cell was in this state already.
	Changed bool `json:"changed"`
	// OnDisk: no process of the paused cell is left. Its run has ended.
	OnDisk bool `json:"on_disk,omitempty"`
	// FSOnly: its processes have ended, and only its files are kept.
	FSOnly bool `json:"fs_only,omitempty"`
}

// LiveInfo describes a live cell.
type LiveInfo struct {
	PID      int           `json:"pid"`
	Since    time.Time     `json:"since"`
	RunID    string        `json:"run_id"`
	Socket   string        `json:"socket"`
	Runtime  string        `json:"runtime"` // of this run: it may be another one than the cell's
	Sessions []SessionInfo `json:"sessions"`
	// Ending: it is stopped, and its state is being kept.
	Ending bool `json:"ending,omitempty"`
	// Template reports whether it is a warm template, in which nothing runs.
	Template bool `json:"template,omitempty"`
	// Branch is what it is a branch of; nil if it is not one.
	Branch *BranchOrigin `json:"branch,omitempty"`
	// Degraded lists controls that are weaker than requested.
	Degraded []string `json:"degraded,omitempty"`
}

// SessionInfo is a command that was executed in a live cell.
type SessionInfo struct {
	ExecID     string    `json:"exec_id"`
	Args       []string  `json:"args"`
	TTY        bool      `json:"tty"`
	Detachable bool      `json:"detachable"`
	Main       bool      `json:"main" doc:"The cell ends with it. It is the agent of a session."`
	Running    bool      `json:"running"`
	Clients    int       `json:"clients"`
	StartedAt  time.Time `json:"started_at"`
}

// ProcessInfo is a process of a live cell.
type ProcessInfo struct {
	PID       int       `json:"pid"`
	PPID      int       `json:"ppid"`
	UID       int       `json:"uid"`
	State     string    `json:"state"`
	ExecID    string    `json:"exec_id"`
	StartedAt time.Time `json:"started_at"`
	CPUUS     int64     `json:"cpu_us"`
	RSS       int64     `json:"rss_bytes"`
	Args      []string  `json:"args"`
}

// ExecResult is how a command in a live cell ended, or that it was left.
type ExecResult struct {
	Cell     string `json:"cell"`
	ExecID   string `json:"exec_id"`
	ExitCode int    `json:"exit_code"`
	Signal   int    `json:"signal"`
	TimedOut bool   `json:"timed_out"`
	Killed   bool   `json:"killed"`
	Detached bool   `json:"detached"`
	// EndedBy is the request by which the whole cell was ended, or "".
	EndedBy string `json:"ended_by,omitempty"`
}

// Login is a login of an agent on the host, which a run uses by placeholders and may
// renew. It holds no secret.
type Login struct {
	// Key is the credential that the login belongs to.
	Key string `json:"key"`
	// File is its absolute path on the host.
	File Text `json:"file"`
	// WriteBack reports that the operator lets runs write a renewed login there.
	WriteBack bool `json:"write_back"`
	// Tokens are its secrets.
	Tokens []LoginToken `json:"tokens"`
	// Expires is the place of the time at which the tokens end; "" if there is none.
	Expires string `json:"expires,omitempty"`
	// Scopes is the place of the list of its scopes; "" if there is none.
	Scopes string `json:"scopes,omitempty"`
	// Refresh are the requests that renew the tokens.
	Refresh []TokenEndpoint `json:"refresh"`
}

// LoginToken is a secret in the file of a login.
type LoginToken struct {
	// Credential is its name in the run's policy.
	Credential string `json:"credential"`
	// Place is where it is in the file: keys, joined by dots.
	Place string `json:"place"`
	// Lead begins its placeholder.
	Lead string `json:"lead,omitempty"`
}

// TokenEndpoint is a request that renews a login.
type TokenEndpoint struct {
	Host string `json:"host"`
	Port uint16 `json:"port"`
	Path string `json:"path"`
	// Form reports that the request is a form. It is JSON else, and so is the answer.
	Form bool `json:"form,omitempty"`
	// Passed are keys of the program's request that are sent on, besides client_id.
	Passed []string `json:"passed,omitempty"`
	// Request and Answer map keys of the bodies to places of the file.
	Request map[string]string `json:"request"`
	Answer  map[string]string `json:"answer"`
}

// TemplateError refuses to execute something in a warm template.
func TemplateError(cell string) error {
	return Refusef(CodeTemplate, "`forkcell branch "+cell+"` makes a cell to use", "cell %s is a warm template: nothing runs in it", cell)
}
