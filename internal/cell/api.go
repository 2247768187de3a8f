package cell

import (
	"io"
	"os"
	"time"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/tree"
)

// InitRequest asks for a new cell.
type InitRequest struct {
	Name              string   // "" = after the directory
	From              string   // a directory, or FILE.tar[.zst]
	Backend           string   // "" = choose, and say why
	Runtime           string   // "" = native
	Exclude           []string // gitignore-style, added to the secret rules
	NoDefaultExcludes bool
	MountAt           string   // "" = the source's own absolute path
	ReadOnly          []string // host paths shown read-only in every run
	Policy            *PolicyFile
	Cache             string // off or standard, for its runs; "" = off
	Progress          func(Progress)
}

// Progress tells how far long work has come. Total is 0 where it is unknown.
type Progress struct {
	What        string
	Files       int64
	Bytes       int64
	TotalFiles  int64
	CurrentPath string
}

// InitResult says what was imported, and what was not.
type InitResult struct {
	Cell          string      `json:"cell"`
	CellID        string      `json:"cell_id"`
	CheckpointID  string      `json:"checkpoint_id"`
	Root          string      `json:"root"`
	MetaRoot      string      `json:"meta_root"`
	Source        string      `json:"source"`
	MountAt       string      `json:"mount_at"`
	Backend       string      `json:"backend"`
	BackendReason string      `json:"backend_reason"`
	Runtime       string      `json:"runtime"`
	Files         int64       `json:"files"`
	Dirs          int64       `json:"dirs"`
	Bytes         int64       `json:"bytes"`
	LeftOut       []LeftOut   `json:"left_out"`
	KeptByGit     []string    `json:"kept_by_git"`
	UnmappedIDs   []string    `json:"unmapped_ids"`
	Notes         []string    `json:"notes"`
	Timings       InitTimings `json:"timings"`
}

// LeftOut is one path that the secret rules kept out of the cell.
type LeftOut struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
}

// InitTimings are the parts of an init.
type InitTimings struct {
	ImportUS int64 `json:"import_us"`
	TotalUS  int64 `json:"total_us"`
}

// RefreshRequest brings the source's changes into the cell.
type RefreshRequest struct {
	Cell       string
	OnConflict string // fail, ours (keep the cell's side) or theirs (take the source's)
	Progress   func(Progress)
}

// RefreshResult says what came in.
type RefreshResult struct {
	Cell         string     `json:"cell"`
	CheckpointID string     `json:"checkpoint_id"`
	Root         string     `json:"root"`
	Changed      []PathNote `json:"changed"`
	Conflicts    []PathNote `json:"conflicts"`
	Chosen       []PathNote `json:"chosen"`
	LeftOut      []LeftOut  `json:"left_out"`
}

// PathNote is a path with one word or sentence about it. A path that is not
// UTF-8 has its exact bytes in PathBase64.
type PathNote struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Note       string `json:"note"`
}

// CallerInfo is what a cell's commands get to know of their caller.
type CallerInfo struct {
	SearchPath        string // the caller's $PATH
	GitName, GitEmail string // who the caller is to git
}

// RunRequest asks for one governed run.
type RunRequest struct {
	Cell             string
	Args             []string
	CheckpointBefore bool
	CheckpointName   string
	RestoreOnFail    bool
	AcceptOnSuccess  bool
	Timeout          time.Duration
	Env              []string // K=V
	Workdir          string   // absolute, or relative to the workspace
	ReadOnly         []string
	Wait             time.Duration // how long to wait for a busy cell; negative = for ever
	TTY              bool
	Size             driver.WindowSize
	Policy           *PolicyFile // nil = the cell's
	Memory           int64       // bytes; these narrow what the policy allows
	CPUs             int64       // thousandths of a processor
	PIDs             int64
	AllowDegraded    bool
	Network          NetworkRequest
	Grants           GrantRequest
	Root             string // host, host-overlay or a directory; "" = host
	AsRoot           bool
	Cache            string // off or standard; "" = as the cell is set
	// Inherit looks up the caller's variables that a policy lets in.
	Inherit func(name string) (string, bool)
	Term    string // $TERM of the caller's terminal, with TTY
	CallerInfo
}

// RunResult is the result document of a run.
type RunResult struct {
	Cell             string           `json:"cell"`
	RunID            string           `json:"run_id"`
	ReceiptID        string           `json:"receipt_id"`
	Outcome          string           `json:"outcome"`
	ExitCode         int              `json:"exit_code"`
	Signal           int              `json:"signal"`
	Decision         string           `json:"decision"`
	SplitLinks       []string         `json:"split_links"`
	CheckpointBefore string           `json:"checkpoint_before"`
	CheckpointAfter  string           `json:"checkpoint_after"`
	RootBefore       string           `json:"root_before"`
	RootAfter        string           `json:"root_after"`
	ChangedFiles     int              `json:"changed_files"`
	PolicyHash       string           `json:"policy_hash"`
	Degraded         []string         `json:"degraded"`
	Controls         driver.Controls  `json:"controls"`
	Events           map[string]int64 `json:"events"`
	Denied           DeniedNetwork    `json:"denied"`
	Notes            []string         `json:"notes"`
	Cache            *CacheUse        `json:"cache,omitempty"`
	Error            string           `json:"error,omitempty"`
	Timings          RunTimings       `json:"timings"`
}

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
	Cell       string          `json:"cell"`
	Args       []string        `json:"args"`
	EnvNames   []string        `json:"env_names"`
	Workdir    string          `json:"workdir"`
	ReadOnly   []string        `json:"read_only"`
	Checkpoint string          `json:"checkpoint_before"`
	Root       string          `json:"root_before"`
	TimeoutUS  int64           `json:"timeout_us"`
	PolicyHash string          `json:"policy_hash"`
	Grants     []string        `json:"grants"` // that the policy uses, as flags
	Degraded   []string        `json:"degraded"`
	Cache      *CacheUse       `json:"cache,omitempty"`
	Controls   driver.Controls `json:"controls"`
}

// CheckpointResult names a sealed state.
type CheckpointResult struct {
	Cell         string `json:"cell"`
	CheckpointID string `json:"checkpoint_id"`
	Root         string `json:"root"`
	MetaRoot     string `json:"meta_root"`
	Name         string `json:"name"`
	Live         bool   `json:"live"`     // captured from a live cell,
	PauseUS      int64  `json:"pause_us"` // which stood still for so long
}

// RestoreRequest moves a cell back.
type RestoreRequest struct {
	Cell       string
	Checkpoint string // id, unique prefix or name; "" = before the last run
	Run        string // the state before this run
	Reason     string
	Force      bool // stops a live cell first
}

// MoveResult is the result of restore and reject: where the head went.
type MoveResult struct {
	Cell         string   `json:"cell"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Left         string   `json:"left_checkpoint_id"`
	RunID        string   `json:"run_id"`
	DecisionID   string   `json:"decision_id"`
	Decision     string   `json:"decision"`
	Also         []string `json:"also_decided"`
	Notes        []string `json:"notes"`
}

// ForkRequest makes new cells on one state.
type ForkRequest struct {
	Cell       string
	Name       string
	Checkpoint string
	N          int // 0 = one cell called Name; N > 0 = Name-1 ... Name-N
}

// ForkResult lists the new cells.
type ForkResult struct {
	From         string   `json:"from"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Cells        []string `json:"cells"`
	EngineUS     int64    `json:"engine_us"`
	PauseUS      int64    `json:"pause_us"` // of a live cell
}

// AcceptRequest decides that a run's result stands.
type AcceptRequest struct {
	Cell    string
	Run     string
	Reason  string
	Force   bool
	Only    []string
	Except  []string
	Apply   bool
	Applier ApplyRequest // used with Apply; its Cell is ignored
}

// AcceptResult is what was decided.
type AcceptResult struct {
	Cell         string   `json:"cell"`
	RunID        string   `json:"run_id"`
	DecisionID   string   `json:"decision_id"`
	Decision     string   `json:"decision"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Also         []string `json:"also_decided"`
	// Before is the decision that this one takes the place of: rejected or restored,
	// of a run whose work was brought back since.
	Before  string       `json:"decision_before,omitempty"`
	Applied *ApplyResult `json:"applied,omitempty"`
}

// ApplyRequest writes accepted changes to a directory.
type ApplyRequest struct {
	Cell         string
	To           string // "" = the source directory
	DryRun       bool
	Only         []string
	Except       []string
	OnConflict   string // fail, ours, theirs
	AllowControl []string
	AllowSetuid  bool
}

// ApplyResult says what was, or would be, written.
type ApplyResult struct {
	Cell       string       `json:"cell"`
	ApplyID    string       `json:"apply_id"`
	To         string       `json:"to"`
	DryRun     bool         `json:"dry_run"`
	Checkpoint string       `json:"checkpoint_id"`
	Written    []ChangeJSON `json:"written"`
	Already    []string     `json:"already"`
	Chosen     []PathNote   `json:"chosen"`
	Kept       []PathNote   `json:"kept"`
	// Dropped are owners and access lists of the cell that the directory did not
	// get.
	Dropped []PathNote `json:"dropped"`
}

// ChangeJSON is one change as --json shows it.
type ChangeJSON struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Change     string `json:"change"`
	Type       string `json:"type"`
	OldPath    string `json:"old_path,omitempty"`
	OldDigest  string `json:"old_digest,omitempty"`
	NewDigest  string `json:"new_digest,omitempty"`
}

// DiffRequest compares two states. Without any it means those of the last run,
// or the start and the present state of a live cell.
type DiffRequest struct {
	Cell       string
	State      string // a state of the cell, or ""
	From, To   string // states of the cell, else other cells or states of them
	Run        string
	SinceApply bool     // what the source directory does not have yet
	Paths      []string // only these and what is below them
	All        bool     // also the cell's home
	// Stream leaves Changes and Raw empty: DiffResult.Each compares and delivers
	// one change after the other.
	Stream bool
}

// DiffResult holds the changes, and opens the files behind them.
type DiffResult struct {
	Cell    string       `json:"cell"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Changes []ChangeJSON `json:"changes"`
	Notes   []string     `json:"notes"` // what is shown instead of what was asked for

	each func(func(tree.Change) error) error

	Raw  []tree.Change                                                    `json:"-"`
	Open func(side int, path string, e tree.Entry) (io.ReadCloser, error) `json:"-"` // side 0 = from, 1 = to
}

// Each calls fn for every change, in the order of their paths.
func (r *DiffResult) Each(fn func(tree.Change) error) error {
	if r.each != nil {
		return r.each(fn)
	}
	for _, ch := range r.Raw {
		if err := fn(ch); err != nil {
			return err
		}
	}
	return nil
}

// ExportRequest writes a state, or its changes, to a file or directory.
type ExportRequest struct {
	Cell       string
	Checkpoint string
	Output     string // FILE.tar, FILE.tar.zst or a directory that does not exist or is empty
	Changes    bool   // only what differs from the last applied state
	// AllowControl are patterns of control files that the cell changed and that
	// are written to a directory all the same; AllowSetuid keeps set-id bits and
	// security.* attributes there. Archives have everything.
	AllowControl []string
	AllowSetuid  bool
	Progress     func(Progress)
}

// ExportResult says what was written.
type ExportResult struct {
	Cell         string   `json:"cell"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Output       string   `json:"output"`
	Files        int64    `json:"files"`
	Bytes        int64    `json:"bytes"`
	Deleted      []string `json:"deleted"`
	Notes        []string `json:"notes"`
}

// GCRequest says what may go.
type GCRequest struct {
	DryRun    bool
	KeepLast  int
	OlderThan time.Duration // work of restored runs older than this goes; default 7 days
}

// Stdio carries a run's streams.
type Stdio struct {
	In     io.Reader // nil = the cell's /dev/null
	Out    io.Writer
	Err    io.Writer
	Resize <-chan driver.WindowSize
	// Signals are passed on to the command; the first makes the outcome
	// "interrupted". Before the command and after it one ends the work at once:
	// what is to be done is done by the next command.
	Signals <-chan os.Signal
	// Ended, if set, is called when no process of the command is left.
	Ended func()
}
