package api

import "time"

// InitRequest asks for a new cell.
type InitRequest struct {
	Name              string      `json:"name,omitempty"`    // "" = after the directory
	From              string      `json:"from,omitempty"`    // a directory, or FILE.tar[.zst]
	Empty             bool        `json:"empty,omitempty"`   // an empty directory, instead of From
	Sole              bool        `json:"sole,omitempty"`    // refuse if the directory From has a cell already
	Upload            string      `json:"upload,omitempty"`  // an upload, instead of From
	Backend           string      `json:"backend,omitempty"` // "" = choose, and say why
	Runtime           string      `json:"runtime,omitempty"` // "" = native
	Exclude           []string    `json:"exclude,omitempty"` // gitignore-style, added to the secret rules
	NoDefaultExcludes bool        `json:"no_default_excludes,omitempty"`
	MountAt           string      `json:"mount_at,omitempty"`  // "" = the source's own absolute path
	ReadOnly          []string    `json:"read_only,omitempty"` // host paths shown read-only in every run
	Policy            *PolicyFile `json:"policy,omitempty"`
	Cache             string      `json:"cache,omitempty"` // off or standard, for its runs; "" = off
	Settings
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
	Cell       string   `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	OnConflict string   `json:"on_conflict,omitempty" enum:"fail,ours,theirs" doc:"What happens to a path that both sides changed."`
	Upload     string   `json:"upload,omitempty" doc:"An upload with the present files of the caller's directory, for a cell that was made from an upload."`
	BasedOn    []string `json:"based_on,omitempty" maxItems:"1000" doc:"Roots of states that the caller's directory has had, the newest first. Both sides are compared with the newest one that the cell knows."`
	Wait       Duration `json:"wait,omitzero" doc:"How long to wait for a busy cell."`
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

// ForkRequest makes new cells on one state.
type ForkRequest struct {
	Cell       string `json:"cell"`
	Name       string `json:"name,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	N          int    `json:"n,omitempty"` // 0 = one cell called Name; N > 0 = Name-1 ... Name-N
	// NewHome gives the new cells an empty home in place of that of the forked state.
	NewHome bool `json:"-"`
	// Accepted forks the newest state in which everything is accepted, in place of the
	// present one. A cell that works in its source directory is forked as it is.
	Accepted bool `json:"-"`
	// Settings are those of the new cells. They inherit the labels of the forked cell,
	// and no time limit.
	Settings
}

// ForkResult lists the new cells.
type ForkResult struct {
	From         string   `json:"from"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Cells        []string `json:"cells"`
	EngineUS     int64    `json:"engine_us"`
	PauseUS      int64    `json:"pause_us"` // of a live cell
	// PendingRuns are the undecided runs and captured states that the new cells begin with.
	// Accepting a new cell accepts them, too.
	PendingRuns []string `json:"pending_runs,omitempty"`
}

// CopyRequest copies a file or a directory between the host and a cell. In the
// cell, a path without a leading slash is relative to the workspace.
type CopyRequest struct {
	Cell string `json:"cell"`
	Path string `json:"path,omitempty"` // in the cell
	Host string `json:"host,omitempty"`
	// AllowControl has patterns of the control files that a copy out of a cell may have.
	AllowControl []string `json:"allow_control,omitempty"`
}

// CopyResult says what was copied.
type CopyResult struct {
	Cell  string   `json:"cell"`
	From  string   `json:"from"`
	To    string   `json:"to"`
	Files int64    `json:"files"`
	Dirs  int64    `json:"dirs"`
	Links int64    `json:"links"`
	Bytes int64    `json:"bytes"`
	Notes []string `json:"notes"`
	// LeftBehind are files as those of ApplyResult, below the name of the copy.
	LeftBehind []PathNote `json:"left_behind,omitempty"`
}

// The states of a cell.
const (
	StateIdle    = "idle"
	StateRunning = "running" // a process works on it
	StateLive    = "live"
	StateRemoved = "removed" // it can be brought back
	StatePaused  = "paused"  // live, and its processes are stopped
	// StateUnfinished is the state of a cell whose process died. The next verb that
	// changes the cell finishes its work.
	StateUnfinished = "interrupted (unfinished)"
)

// The values of --cache.
const (
	CacheOff      = "off"
	CacheStandard = "standard"
)

// RuntimeNative is the runtime that every host has.
const RuntimeNative = "native"

// CellInfo is one line of ls, and the head of status.
type CellInfo struct {
	Cell         string    `json:"cell"`
	Name         string    `json:"name"` // the same
	CellID       string    `json:"cell_id"`
	Backend      string    `json:"backend"`
	Runtime      string    `json:"runtime"`
	Source       string    `json:"source"`
	MountAt      string    `json:"mount_at"`
	Head         string    `json:"head"`
	Root         string    `json:"root"`
	MetaRoot     string    `json:"meta_root"`
	State        string    `json:"state"` // one of the states of a cell
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`
	OwnBytes     int64     `json:"own_bytes"` // what its own layers, and the memory of its checkpoints and its pause, hold
	Layers       int       `json:"layers"`
	LastRun      string    `json:"last_run"`
	LastOutcome  string    `json:"last_outcome"`
	LastDecision string    `json:"last_decision"`
	ForkedFrom   string    `json:"forked_from"`
	Cache        string    `json:"cache"` // off or standard
	CreatedAt    time.Time `json:"created_at"`
	// Revision is the number of the newest statement about the cell. It changes with
	// every change of the cell.
	Revision int64 `json:"revision"`
	// Labels is never nil, and OnTimeout never "".
	Labels      map[string]string `json:"labels"`
	TTL         Duration          `json:"ttl"`
	IdleTimeout Duration          `json:"idle_timeout"`
	OnTimeout   string            `json:"on_timeout"`
}

// StatusResult is everything about one cell.
type StatusResult struct {
	CellInfo
	Holder        string   `json:"holder"` // who holds the lock of a cell that is not idle
	BackendReason string   `json:"backend_reason"`
	Applied       string   `json:"applied"`
	PendingRuns   []string `json:"pending_runs"`
	// PendingStates are captured of a live cell, and not accepted.
	PendingStates []string  `json:"pending_states"`
	ReadOnly      []string  `json:"read_only"`
	LeftOut       []LeftOut `json:"left_out"`
	Checkpoints   int       `json:"checkpoints"`
	Runs          int       `json:"runs"`
	LastReceipt   string    `json:"last_receipt"`
	Live          *LiveInfo `json:"live,omitempty"`
}
