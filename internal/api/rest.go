package api

import (
	"strings"
	"time"
)

// The bodies of the REST API. They name what a program may ask for over the API,
// and nothing else: a request of the engine has fields, such as paths of the host's
// files, that only the command line may set.
//
// Durations are Go's, such as "90s"; sizes are as in policies, such as "512MiB".

// CreateCell is the body of POST /v1/cells.
type CreateCell struct {
	Name       string   `json:"name,omitempty" doc:"Name of the cell. Without one it is derived from the source." maxLength:"63"`
	Source     *Source  `json:"source,omitempty" doc:"Where the files come from."`
	ForkOf     string   `json:"fork_of,omitempty" doc:"Fork this cell instead of using a source."`
	Checkpoint string   `json:"checkpoint,omitempty" doc:"The state to fork; without it, the present one."`
	N          int      `json:"n,omitempty" doc:"Make so many forks, called NAME-1 to NAME-N." minimum:"0" maximum:"1000"`
	Backend    string   `json:"backend,omitempty" enum:"overlay,clone,delta" doc:"How states are kept. Without it, the best one for the host."`
	Runtime    string   `json:"runtime,omitempty" enum:"native,gvisor" doc:"What runs the commands."`
	Policy     string   `json:"policy,omitempty" doc:"A policy as YAML, or the name of a preset."`
	Exclude    []string `json:"exclude,omitempty" operator:"adds" doc:"Patterns of files to leave out, besides the secret rules. From the operator, !PATTERN takes a rule back."`
	MountAt    string   `json:"mount_at,omitempty" doc:"Path of the workspace in the cell."`
	Sole       bool     `json:"sole,omitempty" doc:"Refuse a directory of the host that a cell was made from already. For callers who see all cells."`
	CellSettings
}

// Source says where the files of a new cell come from. Exactly one field is set.
type Source struct {
	Empty  bool   `json:"empty,omitempty" doc:"Begin with an empty directory."`
	Path   string `json:"path,omitempty" doc:"A directory of the host that the operator allows."`
	Upload string `json:"upload,omitempty" doc:"An upload, by its id."`
}

// UploadSource begins the source of a cell that was made from an upload. The id of the
// upload follows.
const UploadSource = "upload:"

// SourceText returns the source of a cell for people: its path, or that it was an upload.
func SourceText(source string) string {
	if strings.HasPrefix(source, UploadSource) {
		return "upload"
	}
	return source
}

// Upload is an archive that was uploaded for a new cell.
type Upload struct {
	Upload string `json:"upload" doc:"The id, for the source of a cell."`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// CellSettings are settings of a cell that can be changed at any time.
type CellSettings struct {
	Labels      map[string]string `json:"labels,omitempty" doc:"Labels of the cell."`
	TTL         string            `json:"ttl,omitempty" doc:"The cell expires so long after its creation."`
	IdleTimeout string            `json:"idle_timeout,omitempty" doc:"The cell expires so long after the last request or command."`
	OnTimeout   string            `json:"on_timeout,omitempty" enum:"stop,pause,remove" doc:"What happens to an expired cell."`
}

// ForkBody is the body of POST /v1/cells/{cell}/fork.
type ForkBody struct {
	Name       string `json:"name,omitempty" doc:"Name of the fork." maxLength:"63"`
	N          int    `json:"n,omitempty" doc:"Make so many forks, called NAME-1 to NAME-N." minimum:"0" maximum:"1000"`
	Checkpoint string `json:"checkpoint,omitempty" doc:"The state to fork; without it, the present one."`
	Live       bool   `json:"live,omitempty" doc:"Fork the present state of a live cell."`
	CellSettings
}

// RunSettings are the fields that the bodies of runs and start share.
type RunSettings struct {
	Env            map[string]string          `json:"env,omitempty" doc:"Variables of the command."`
	Workdir        string                     `json:"workdir,omitempty" doc:"Where the command starts: absolute, or relative to the workspace."`
	Policy         string                     `json:"policy,omitempty" doc:"A policy as YAML, or the name of a preset. It is enforced together with that of the token."`
	Timeout        string                     `json:"timeout,omitempty" doc:"Time limit, such as 30s." minLength:"1"`
	Memory         string                     `json:"memory,omitempty" doc:"Memory limit, swap included, such as 512MiB." minLength:"1"`
	CPUs           float64                    `json:"cpus,omitempty" doc:"Limit of processor time, in processors, such as 1.5." exclusiveMinimum:"0"`
	PIDs           int64                      `json:"pids,omitempty" doc:"Limit of processes and threads." minimum:"1"`
	OutputLimit    string                     `json:"output_limit,omitempty" operator:"output" doc:"How much of each stream is stored, such as 1MiB; 64MiB without it, and more is only for the operator. A policy can lower it."`
	Root           string                     `json:"root,omitempty" operator:"root" doc:"The system that the cell sees: host, host-overlay or a directory. Other than host is only for the operator."`
	AsRoot         bool                       `json:"as_root,omitempty" operator:"only" doc:"Run as root in the cell. Only for the operator."`
	Credentials    map[string]CredentialValue `json:"credentials,omitempty" doc:"Values for credentials of the policy, by name."`
	AllowDegraded  bool                       `json:"allow_degraded,omitempty" operator:"only" doc:"Run even if a control cannot be enforced. Only for the operator."`
	GrantSyscalls  []string                   `json:"grant_syscalls,omitempty" operator:"grant" doc:"System calls that the policy may allow although cells are denied them. Only for the operator, or within the policy of the token, which grants them by itself."`
	GrantAddresses []string                   `json:"grant_addresses,omitempty" operator:"grant" doc:"Ranges of addresses that are not public, and that the policy may list. Only for the operator, or within the policy of the token, which grants them by itself."`
	Wait           string                     `json:"wait,omitempty" doc:"How long to wait for a busy cell."`
	Cache          string                     `json:"cache,omitempty" enum:"off,standard" doc:"Whether the cell keeps caches of package managers."`
}

// CredentialValue provides a credential. Exactly one field is set.
type CredentialValue struct {
	Value string `json:"value,omitempty" doc:"The value itself."`
	Name  string `json:"name,omitempty" doc:"A name in the daemon's credentials file."`
}

// RunBody is the body of POST /v1/cells/{cell}/runs.
type RunBody struct {
	Command []string `json:"command" doc:"The command and its arguments." minItems:"1"`
	RunSettings
	Stdin           string `json:"stdin,omitempty" doc:"Input of the command, as text."`
	StdinBase64     []byte `json:"stdin_base64,omitempty" doc:"Input of the command, in base64."`
	RestoreOnFail   bool   `json:"restore_on_fail,omitempty" doc:"Restore the cell if the command fails."`
	AcceptOnSuccess bool   `json:"accept_on_success,omitempty" needs:"decide" doc:"Accept the run if the command succeeds. It stays pending if earlier work is undecided. Needs the scope decide."`
	CheckpointName  string `json:"checkpoint_name,omitempty" doc:"Name the state before the run." maxLength:"63"`
}

// RunSocketBody is the first message of a WebSocket in which a command is run. Its
// input and output are frames.
type RunSocketBody struct {
	RunBody
	Input bool   `json:"input,omitempty" doc:"The command reads what the caller sends."`
	TTY   bool   `json:"tty,omitempty" doc:"Give the command a terminal."`
	Cols  uint16 `json:"cols,omitempty" doc:"Columns of the terminal."`
	Rows  uint16 `json:"rows,omitempty" doc:"Rows of the terminal."`
	Term  string `json:"term,omitempty" doc:"Type of the terminal, as in TERM." maxLength:"64"`
}

// RunAnswer is the result of a run over the API.
type RunAnswer struct {
	RunResult
	Output
}

// Output is what a command wrote, cut at 1 MiB for each stream. A stream that is
// not UTF-8 is in the field for base64.
type Output struct {
	Stdout       string `json:"stdout" doc:"What the command wrote to its standard output."`
	StdoutBase64 []byte `json:"stdout_base64,omitempty" doc:"The same in base64, if it is not UTF-8."`
	Stderr       string `json:"stderr" doc:"What the command wrote to its standard error."`
	StderrBase64 []byte `json:"stderr_base64,omitempty" doc:"The same in base64, if it is not UTF-8."`
	Truncated    bool   `json:"truncated" doc:"Whether a stream was cut."`
}

// RunStarted says that a run has begun.
type RunStarted struct {
	RunID string `json:"run_id"`
	State string `json:"state" enum:"running"`
}

// RunInfo describes a run that is running or has ended.
type RunInfo struct {
	RunID string `json:"run_id"`
	Cell  string `json:"cell"`
	State string `json:"state" enum:"running,ended"`
	// Command is the agent's of a session, and what started it of a live cell.
	Command []string `json:"command"`
	// Executed are the commands that were executed in a live cell.
	Executed   *Executed  `json:"executed,omitempty"`
	Actor      string     `json:"actor"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	ReceiptID  string     `json:"receipt_id,omitempty"`
	Outcome    string     `json:"outcome,omitempty"`
	ExitCode   *int       `json:"exit_code,omitempty"`
	Signal     int        `json:"signal,omitempty"`
	Decision   string     `json:"decision,omitempty"`
	// Before and After are the states.
	Before       string `json:"checkpoint_before"`
	After        string `json:"checkpoint_after,omitempty"`
	ChangedFiles int    `json:"changed_files,omitempty"`
	PolicyHash   string `json:"policy_hash,omitempty"`
	// Session is set if the run is a session of a coding agent.
	Session *SessionTerms `json:"session,omitempty"`
	// Result is what the run ended with. A list of runs does not have it.
	Result *RunResult `json:"result,omitempty"`
}

// StartBody is the body of POST /v1/cells/{cell}/start.
type StartBody struct {
	RunSettings
	Warm *WarmBody `json:"warm,omitempty" doc:"Make the cell a template, which can be branched."`
}

// StopBody is the body of POST /v1/cells/{cell}/stop.
type StopBody struct {
	Grace string `json:"grace,omitempty" doc:"Time between asking the processes to end and killing them."`
}

// ResumeBody is the body of POST /v1/cells/{cell}/resume.
type ResumeBody struct {
	FSOnly bool `json:"fs_only,omitempty" doc:"Drop the memory that the cell was paused with, and start it without its processes."`
	// Credentials are values for credentials, which are not kept while a cell is paused
	// on disk.
	Credentials map[string]CredentialValue `json:"credentials,omitempty" doc:"Values for credentials of the policy, by name. They are not kept while a cell is paused on disk."`
}

// ExecBody is the body of POST /v1/cells/{cell}/exec.
type ExecBody struct {
	Command     []string          `json:"command" doc:"The command and its arguments." minItems:"1"`
	Env         map[string]string `json:"env,omitempty" doc:"Variables of the command."`
	Workdir     string            `json:"workdir,omitempty" doc:"Where the command starts."`
	Stdin       string            `json:"stdin,omitempty" doc:"Input of the command, as text."`
	StdinBase64 []byte            `json:"stdin_base64,omitempty" doc:"Input of the command, in base64."`
	Timeout     string            `json:"timeout,omitempty" doc:"Time limit, such as 30s." minLength:"1"`
	TTY         bool              `json:"tty,omitempty" doc:"Give the command a terminal."`
}

// ExecStarted says that a command in a live cell has begun.
type ExecStarted struct {
	ExecID string `json:"exec_id"`
}

// ExecEnd is how a command in a live cell ended.
type ExecEnd struct {
	ExecID     string `json:"exec_id"`
	ExitCode   int    `json:"exit_code" doc:"The exit code; 124 if the command ran past its time limit."`
	Signal     int    `json:"signal" doc:"The signal that ended the command, or 0."`
	TimedOut   bool   `json:"timed_out" doc:"Whether the command ran past its time limit."`
	DurationUS int64  `json:"duration_us"`
}

// ExecAnswer is how a command in a live cell ended, and what it wrote.
type ExecAnswer struct {
	ExecEnd
	Output
}

// CheckpointInfo describes a state of a cell.
type CheckpointInfo struct {
	CheckpointID string    `json:"checkpoint_id"`
	Parent       string    `json:"parent" doc:"The state before it, or empty."`
	Kind         string    `json:"kind"`
	Root         string    `json:"root"`
	MetaRoot     string    `json:"meta_root"`
	RunID        string    `json:"run_id" doc:"The run that made it, or empty."`
	Names        []string  `json:"names"`
	Head         bool      `json:"head" doc:"Whether it is the present state."`
	Freed        bool      `json:"freed" doc:"Whether gc has freed its files."`
	Memory       string    `json:"memory,omitempty" doc:"The digest of the memory that was saved with it; without one there is none."`
	CreatedAt    time.Time `json:"created_at"`
}

// AcceptedState is the answer of GET /v1/cells/{cell}/accepted.
type AcceptedState struct {
	Cell         string `json:"cell"`
	CellID       string `json:"cell_id"`
	CheckpointID string `json:"checkpoint_id"`
	Root         string `json:"root"`
	// Sources are the roots of the states of the source directory that the state
	// contains, the newest first.
	Sources []string `json:"sources"`
	// Contains are those of the roots that the request names which the state is or
	// follows.
	Contains []string `json:"contains"`
	// Origins are the ids of the cells that the cell was forked from, the nearest first,
	// up to the first one that the caller does not see.
	Origins []string `json:"origins"`
	// Undecided describes the first work after the state, or is "".
	Undecided string `json:"undecided"`
	// Receipts are those of the runs whose work the state has, the newest first, if the
	// request asks for them.
	Receipts []PublishedReceipt `json:"receipts"`
}

// ForkedCells is the answer to a fork over the API.
type ForkedCells struct {
	From         string       `json:"from"`
	CheckpointID string       `json:"checkpoint_id"`
	Root         string       `json:"root"`
	Cells        []ForkedCell `json:"cells"`
	EngineUS     int64        `json:"engine_us"`
	PauseUS      int64        `json:"pause_us" doc:"How long a live cell stood still."`
	PendingRuns  []string     `json:"pending_runs,omitempty" doc:"The undecided runs and captured states that the new cells begin with. Accepting a new cell accepts them, too."`
}

// ForkedCell names one fork.
type ForkedCell struct {
	Cell string `json:"cell"`
}

// List is one page of a list, the oldest item first.
type List[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next" doc:"Cursor of the next page, or null."`
}

// HintsHeader is the header of a request that says whose words hints are in: with the
// value CommandHints those of the command line, else those of the API.
const (
	HintsHeader  = "Forkcell-Hints"
	CommandHints = "command-line"
)

// Problem is the document of an error over the API (RFC 9457).
type Problem struct {
	Type     string   `json:"type" example:"about:blank"`
	Title    string   `json:"title" doc:"The status in words."`
	Status   int      `json:"status"`
	Detail   string   `json:"detail" doc:"What failed and why."`
	Kind     Kind     `json:"kind" enum:"failed,usage,not_found,refused,busy" doc:"What the caller can do about it. A later version may know more kinds; treat those as failed."`
	Code     Code     `json:"code" doc:"A stable word for the failure."`
	Hint     string   `json:"hint" doc:"What to do."`
	Details  []string `json:"details" doc:"Every path or field concerned, one line each."`
	Instance string   `json:"instance" doc:"The id of the request."`
}

// VersionInfo says what a daemon speaks.
type VersionInfo struct {
	Version string `json:"version"`
	API     string `json:"api" doc:"The version of the API, such as v1."`
}

// Health says whether the daemon works.
type Health struct {
	Status string `json:"status" enum:"ok,draining"`
}

// Preset is a policy that comes with the program.
type Preset struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// ValidateBody is the body of POST /v1/policies/validate.
type ValidateBody struct {
	Policy string `json:"policy" doc:"A policy as YAML, or the name of a preset."`
}

// ExplainBody is the body of POST /v1/policies/explain: a policy, and one question.
type ExplainBody struct {
	Cell    string `json:"cell,omitempty" doc:"The policy of this cell."`
	Policy  string `json:"policy,omitempty" doc:"A policy as YAML, or the name of a preset."`
	Path    string `json:"path,omitempty" doc:"An absolute path in the cell."`
	Host    string `json:"host,omitempty" doc:"A connection to HOST:PORT."`
	Syscall string `json:"syscall,omitempty" doc:"A system call."`
	Scheme  string `json:"scheme,omitempty" enum:"http,https" doc:"With host: plain HTTP or TLS."`
	Method  string `json:"method,omitempty" doc:"With host: a request with this method."`
	URLPath string `json:"url_path,omitempty" doc:"With host: a request for this path."`
	Binary  string `json:"binary,omitempty" doc:"With host: by the executable at this path."`
}

// Doctor lists what the host can enforce.
type Doctor[Check any] struct {
	Controls []Check `json:"controls"`
}

// GCBody is the body of POST /v1/gc.
type GCBody struct {
	DryRun          bool   `json:"dry_run,omitempty" doc:"Only say what would be freed."`
	KeepLast        int    `json:"keep_last,omitempty" doc:"Keep so many states of each cell." minimum:"0"`
	OlderThan       string `json:"older_than,omitempty" doc:"Free only what is older."`
	Removed         bool   `json:"removed,omitempty" doc:"Free removed cells at once; they can be brought back for 7 days otherwise."`
	OutputOlderThan string `json:"output_older_than,omitempty" doc:"Free stored output of runs that ended longer ago than this; 720h (30 days) without it."`
}

// Repeated is the answer to a request with an idempotency key that a daemon had
// carried out, and had not answered when it ended.
type Repeated struct {
	Statements []LogEntry `json:"statements" doc:"What the request did."`
}

// TokenBody is the body of POST /v1/tokens.
type TokenBody struct {
	Name        string   `json:"name" doc:"Name of the token, which is the actor in statements."`
	Scopes      []string `json:"scopes" doc:"What the token may do: read, run, decide, admin." minItems:"1"`
	Cells       string   `json:"cells,omitempty" doc:"The token sees only cells whose names begin so."`
	Credentials []string `json:"credentials,omitempty" doc:"Names in the daemon's credentials file that requests may use."`
	Quota       *Quota   `json:"quota,omitempty" doc:"Bounds of what the token uses."`
	Policy      string   `json:"policy,omitempty" doc:"The ceiling: a run is allowed only what its own policy and this one allow."`
	// AllowControl are for apply.
	AllowControl []string `json:"allow_control,omitempty" doc:"Patterns of control files that the token may have written to a directory. With any, apply takes to; with **, also allow_setuid."`
	Expires      string   `json:"expires,omitempty" doc:"The token ends after this time."`
}

// UpdateBody is the body of PATCH /v1/cells/{cell}. What is missing stays as it is.
type UpdateBody struct {
	Name        *string           `json:"name,omitempty" doc:"The new name." maxLength:"63"`
	Labels      map[string]string `json:"labels,omitempty" doc:"All labels; null removes them." nullable:"true"`
	TTL         *string           `json:"ttl,omitempty" doc:"The cell expires so long after its creation; null is never." nullable:"true"`
	IdleTimeout *string           `json:"idle_timeout,omitempty" doc:"The cell expires so long after the last request or command; null is never." nullable:"true"`
	OnTimeout   *string           `json:"on_timeout,omitempty" doc:"What happens to an expired cell: stop, pause or remove; null is stop." nullable:"true"`
}
