package api

import "time"

// Progress reports how much of a long operation is done. Total is 0 if it is unknown.
type Progress struct {
	What        string `json:"what,omitempty"`
	Files       int64  `json:"files,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	TotalFiles  int64  `json:"total_files,omitempty"`
	CurrentPath string `json:"current_path,omitempty"`
}

// GCRequest says what may go.
type GCRequest struct {
	DryRun    bool          `json:"dry_run,omitempty"`
	KeepLast  int           `json:"keep_last,omitempty"`
	OlderThan time.Duration `json:"older_than_ns,omitempty"` // work of restored runs older than this goes; default 7 days
	// OutputOlderThan: stored output of runs that ended longer ago than this goes; 0 is 30
	// days, and less is all of it. That of removed cells goes after OlderThan.
	OutputOlderThan time.Duration `json:"output_older_than_ns,omitempty"`
	// Removed frees removed cells at once; else they are kept as restored runs are.
	Removed bool `json:"removed,omitempty"`
	// KeepSources keeps the states that directories have had: mirrors of forks begin
	// there.
	KeepSources bool `json:"-"`
}

// CacheUse says that a run's tools kept their caches in the cell's state, and on
// which shared state that stands.
type CacheUse struct {
	Setting string `json:"setting"`
	Path    string `json:"path"` // in the cell
	// From is the shared cache; it is empty, as is what follows, if there was none
	// when the cell's state got its own.
	From         string `json:"from"`
	CheckpointID string `json:"checkpoint_id"`
	Root         string `json:"root"`
	Statement    int64  `json:"statement"` // the number of the one that made it
}

// SharedCache is one line of cache ls.
type SharedCache struct {
	Name   string `json:"name"`   // as cache rm, log, verify and df take it
	Source string `json:"source"` // the directory whose cells share it; "" is all cells of the home
	Head   string `json:"head"`
	Root   string `json:"root"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	// OwnBytes is its space on the disk, in as many parts as Layers.
	OwnBytes  int64     `json:"own_bytes"`
	Layers    int       `json:"layers"`
	From      string    `json:"from"` // the cell that it was promoted from last
	UpdatedAt time.Time `json:"updated_at"`
}

// CellDisk is the disk space of one cell: allocated blocks of the layers that its
// states are based on.
type CellDisk struct {
	Cell string `json:"cell"`
	// Removed: the cell is removed, and kept until rm --undo or gc.
	Removed bool `json:"removed,omitempty"`
	// OwnBytes are of layers that no other cell needs, SharedBytes of those that
	// others need too.
	OwnBytes    int64 `json:"own_bytes"`
	SharedBytes int64 `json:"shared_bytes"`
	TotalBytes  int64 `json:"total_bytes"`
	// Areas is the total by area, without manifests.
	Areas map[string]int64 `json:"areas"`
}

// DiskResult is what df shows.
type DiskResult struct {
	Cells []CellDisk `json:"cells"`
	// Home is the space of the home by what it is used for, and TotalBytes their
	// sum. They are there only if no cell was named.
	Home       map[string]int64 `json:"home,omitempty"`
	TotalBytes int64            `json:"total_bytes"`
}

// KnownNames are the names that a person may type, for completion. A tab and a
// few words about it follow a name where that helps.
type KnownNames struct {
	Cells       []string `json:"cells,omitempty"`
	Checkpoints []string `json:"checkpoints,omitempty"` // of one cell: words, names, ids
	Runs        []string `json:"runs,omitempty"`        // of one cell
	Receipts    []string `json:"receipts,omitempty"`    // of all cells
	Caches      []string `json:"caches,omitempty"`      // shared ones
}

// PromoteRequest adds a cell's caches to the shared ones.
type PromoteRequest struct {
	Cell   string `json:"cell"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// PromoteResult says what was, or would be, added.
type PromoteResult struct {
	Cell         string     `json:"cell"`
	CheckpointID string     `json:"checkpoint_id"` // the cell's state
	DryRun       bool       `json:"dry_run"`
	Caches       []Promoted `json:"caches"`
	// Skipped counts what is never shared, by the reason.
	Skipped map[string]int64 `json:"skipped"`
}

// Promoted describes the addition to one shared cache.
type Promoted struct {
	Cache        string `json:"cache"`
	Source       string `json:"source"` // as in SharedCache
	CheckpointID string `json:"checkpoint_id,omitempty"`
	Root         string `json:"root,omitempty"`
	CacheFiles
	Tools map[string]CacheFiles `json:"tools"`
	// Kept counts files that the home's cache has with other contents: they stay.
	Kept int64 `json:"kept"`
}

// CacheFiles counts files.
type CacheFiles struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// GCResult says what went.
type GCResult struct {
	DryRun      bool     `json:"dry_run"`
	Checkpoints []string `json:"checkpoints"`
	Layers      []string `json:"layers"`
	Objects     int      `json:"objects"`
	// Outputs counts the runs whose stored output went.
	Outputs int   `json:"outputs"`
	Bytes   int64 `json:"bytes"`
	// MirrorBytes is what went of copies that the caller's home has of directories, for
	// the cells that were made from them through daemons elsewhere.
	MirrorBytes int64 `json:"mirror_bytes,omitempty" doc:"Set by the command line only: bytes of copies of directories in the caller's own home."`
}

// Consumption is what a cell, or all selected cells, use at this moment.
type Consumption struct {
	// Live counts live cells, of which Paused are paused. Runs counts runs under way.
	Live   int `json:"live"`
	Paused int `json:"paused"`
	Runs   int `json:"runs"`
	// Memory (bytes) and CPUs (in thousandths) are the sums of the limits of live cells
	// and runs under way. Unlimited counts those without a limit of memory.
	Memory    int64 `json:"memory"`
	CPUs      int64 `json:"cpus_milli"`
	Unlimited int   `json:"unlimited"`
	// CPUUS is the processor time of finished runs, and that of live cells since their
	// start.
	CPUUS       int64 `json:"cpu_us"`
	OwnBytes    int64 `json:"own_bytes"` // on disk
	Checkpoints int   `json:"checkpoints"`
	Finished    int   `json:"finished_runs"`
}

// Plus returns the sum of two usages.
func (c Consumption) Plus(o Consumption) Consumption {
	c.Live += o.Live
	c.Paused += o.Paused
	c.Runs += o.Runs
	c.Memory += o.Memory
	c.CPUs += o.CPUs
	c.Unlimited += o.Unlimited
	c.CPUUS += o.CPUUS
	c.OwnBytes += o.OwnBytes
	c.Checkpoints += o.Checkpoints
	c.Finished += o.Finished
	return c
}

// CellUsage is the usage of one cell.
type CellUsage struct {
	Cell   string `json:"cell"`
	Name   string `json:"name"` // the same
	CellID string `json:"cell_id"`
	State  string `json:"state"`
	Consumption
}

// UsageResult is what usage shows.
type UsageResult struct {
	Cells []CellUsage `json:"cells"`
	Total Consumption `json:"total"`
}
