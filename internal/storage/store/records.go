package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

// ErrNotFound means that no record has that name or id.
var ErrNotFound = errors.New("not found")

// ErrAmbiguous means that a reference matches more than one id.
var ErrAmbiguous = errors.New("ambiguous")

// ErrTaken means that a name is in use.
var ErrTaken = errors.New("the name is in use")

// Cell is a named line of work.
type Cell struct {
	ID      string `json:"-"`
	Name    string `json:"-"` // "" once it is removed
	Head    string `json:"-"` // checkpoint
	Applied string `json:"-"` // the state that the source is known to have had

	LastName         string    `json:"last_name"`
	Source           string    `json:"source"`
	SourceKind       string    `json:"source_kind"` // dir, archive, cache (a shared cache) or lost
	Backend          string    `json:"backend"`
	BackendReason    string    `json:"backend_reason"`
	Runtime          string    `json:"runtime"`
	MountAt          string    `json:"mount_at"`
	Live             string    `json:"live,omitempty"` // delta: the directory that is worked in
	ReadOnly         []string  `json:"read_only,omitempty"`
	Policy           string    `json:"policy,omitempty"`       // hash of its policy; "" is the default one
	PolicyBytes      int64     `json:"policy_bytes,omitempty"` // the texts of policies that were stored for it
	Pins             []string  `json:"pins,omitempty"`         // of the policy's registries, given by the operator; as --resolve takes them
	Cache            string    `json:"cache,omitempty"`        // "standard" if its runs use the caches by default
	Prefix           string    `json:"prefix,omitempty"`       // of the token that made it; it shares caches with no other prefix
	Rules            Rules     `json:"rules"`
	LeftOut          []LeftOut `json:"left_out,omitempty"`
	Kept             []string  `json:"kept,omitempty"`
	ForkedCell       string    `json:"forked_cell,omitempty"`
	ForkedCheckpoint string    `json:"forked_checkpoint,omitempty"`
	// Inherited has the cell's own decisions about runs of cells that it was forked
	// from, by run id, and about captured states, by checkpoint id.
	Inherited map[string]string `json:"inherited,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	// Paused is set while the cell is paused and no process of it exists.
	Paused *Pause `json:"paused,omitempty"`
	// RemovedAt is when the cell was removed, if its states are kept for a while then.
	RemovedAt time.Time `json:"removed_at,omitzero"`
}

// Pause describes a cell that was paused on disk.
type Pause struct {
	// RunID is the run that ended with the pause.
	RunID string    `json:"run_id"`
	At    time.Time `json:"at"`
	// Image is the digest of what was kept: how to start the cell again and, unless
	// FSOnly is set, its memory.
	Image  string `json:"image"`
	FSOnly bool   `json:"fs_only,omitempty"`
	// Bytes is the disk space of what was kept.
	Bytes int64 `json:"bytes,omitempty"`
	// Runtime, Memory (bytes) and CPUsMilli are those of the run.
	Runtime   string `json:"runtime"`
	Memory    int64  `json:"memory,omitempty"`
	CPUsMilli int64  `json:"cpus_milli,omitempty"`
}

// Rules are the secret rules that a cell was made with.
type Rules struct {
	NoDefaults bool     `json:"no_defaults,omitempty"`
	Extra      []string `json:"extra,omitempty"`
	IgnoreFile []byte   `json:"ignore_file,omitempty"`
	// Above is the real path of the source when the cell was made. Cells of older versions
	// have none: their rules stay as they were.
	Above string `json:"above,omitempty"`
}

// LeftOut is one path that the rules left out.
type LeftOut struct {
	Path []byte `json:"path"`
	Rule string `json:"rule"`
}

// Area is the identity of one area of a state.
type Area struct {
	Root     string `json:"root"`
	MetaRoot string `json:"meta_root"`
	Files    int64  `json:"files"`
	Dirs     int64  `json:"dirs"`
	Bytes    int64  `json:"bytes"`
}

// Checkpoint is a sealed state.
type Checkpoint struct {
	ID     string `json:"-"`
	CellID string `json:"-"`
	Parent string `json:"-"`
	Layer  string `json:"-"`
	RunID  string `json:"-"` // the run that made it, if one did
	Ord    int64  `json:"-"`
	Freed  bool   `json:"-"`

	Kind     string          `json:"kind"` // init, run, refresh, partial, drift, live, promote
	Areas    map[string]Area `json:"areas"`
	OwnBytes int64           `json:"own_bytes"`
	Source   string          `json:"source,omitempty"` // the state of the source that a refresh merged
	// Memory is the digest of the memory that was saved with it; "" if there is none.
	Memory string `json:"memory,omitempty"`
	// MemoryBytes is its size.
	MemoryBytes int64     `json:"memory_bytes,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}

// Root is the identity that people compare.
func (c Checkpoint) Root() string { return c.Areas["workspace"].Root }

// MetaRoot is Root with times.
func (c Checkpoint) MetaRoot() string { return c.Areas["workspace"].MetaRoot }

// Apply is one write to a directory.
type Apply struct {
	ID     string `json:"-"`
	CellID string `json:"-"`
	Ord    int64  `json:"-"`
	Undone bool   `json:"-"`

	To         string `json:"to"`
	From       string `json:"from"`       // the applied state before
	Checkpoint string `json:"checkpoint"` // the state that was written
	Partial    bool   `json:"partial,omitempty"`
}

// Intent is an unfinished operation that spans the database and the file
// system.
type Intent struct {
	ID     string
	CellID string
	Kind   string
	Doc    json.RawMessage
}

// IntentInit is the kind of the intent to make a cell, which has no record yet.
const IntentInit = "init"

// IntentRace is the kind of the intent to remove the cells of a race. Its cell is
// the race itself, which has no record.
const IntentRace = "race"

// decode fills a record's document.
func decode(doc string, into any) error {
	if err := json.Unmarshal([]byte(doc), into); err != nil {
		return fmt.Errorf("%w: a record is damaged: %w", ErrDatabase, err)
	}
	return nil
}

func encode(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

const cellColumns = "id, coalesce(name,''), head, applied, doc"

func scanCell(r *sqlite.Stmt) (Cell, error) {
	c := Cell{ID: r.ColumnText(0), Name: r.ColumnText(1), Head: r.ColumnText(2), Applied: r.ColumnText(3)}
	err := decode(r.ColumnText(4), &c)
	return c, err
}

// PutCell inserts or replaces a cell.
func (tx *Tx) PutCell(c Cell) error {
	doc, err := encode(c)
	if err != nil {
		return err
	}
	var name any
	if c.Name != "" {
		name = c.Name
	}
	err = tx.exec(`INSERT INTO cells(id,name,head,applied,doc) VALUES(?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET name=excluded.name, head=excluded.head, applied=excluded.applied, doc=excluded.doc`,
		c.ID, name, c.Head, c.Applied, doc)
	if sqlite.ErrCode(err) == sqlite.ResultConstraintUnique {
		return fmt.Errorf("%w: %s", ErrTaken, c.Name)
	}
	return err
}

// Cell finds a cell by name.
func (tx *Tx) Cell(name string) (Cell, error) {
	return one(tx, scanCell, "SELECT "+cellColumns+" FROM cells WHERE name=?", name)
}

// RecordedCell finds a cell by name or, if there is none now, the newest removed one that
// had the name last.
func (tx *Tx) RecordedCell(name string) (Cell, error) {
	c, err := tx.Cell(name)
	if !errors.Is(err, ErrNotFound) {
		return c, err
	}
	return one(tx, scanCell, "SELECT "+cellColumns+" FROM cells WHERE name IS NULL AND json_extract(doc,'$.last_name')=? ORDER BY id DESC LIMIT 1", name)
}

// CellByID finds a cell, also a removed one.
func (tx *Tx) CellByID(id string) (Cell, error) {
	return one(tx, scanCell, "SELECT "+cellColumns+" FROM cells WHERE id=?", id)
}

// LastName returns the last name of a cell, also of a removed one.
func (tx *Tx) LastName(id string) (string, error) {
	return one(tx, func(r *sqlite.Stmt) (string, error) { return r.ColumnText(0), nil },
		"SELECT json_extract(doc,'$.last_name') FROM cells WHERE id=?", id)
}

// Cells lists the cells, by name, and on request the removed ones after them.
func (tx *Tx) Cells(removed bool) ([]Cell, error) {
	query := "SELECT " + cellColumns + " FROM cells WHERE name IS NOT NULL ORDER BY name"
	if removed {
		query = "SELECT " + cellColumns + " FROM cells ORDER BY name IS NULL, name, id"
	}
	return all(tx, scanCell, query)
}

// RemovedCells lists the removed cells with a time of removal, by their last names, the
// oldest first.
func (tx *Tx) RemovedCells() ([]Cell, error) {
	return all(tx, scanCell, "SELECT "+cellColumns+` FROM cells WHERE name IS NULL AND json_extract(doc,'$.removed_at') IS NOT NULL
		ORDER BY json_extract(doc,'$.last_name'), json_extract(doc,'$.removed_at'), id`)
}

// CellsOf lists the cells that were made from one of these directories, by name. Forks do
// not count.
func (tx *Tx) CellsOf(dirs []string) ([]Cell, error) {
	list, err := encode(dirs)
	if err != nil {
		return nil, err
	}
	return all(tx, scanCell, "SELECT "+cellColumns+` FROM cells WHERE name IS NOT NULL AND json_extract(doc,'$.source') IN (SELECT value FROM json_each(?))
		AND json_extract(doc,'$.source_kind')='dir' AND coalesce(json_extract(doc,'$.forked_cell'),'')='' ORDER BY name`, list)
}

// ForksOf lists the cells that were forked from any of these, also removed ones.
func (tx *Tx) ForksOf(ids []string) ([]Cell, error) {
	list, err := encode(ids)
	if err != nil {
		return nil, err
	}
	return all(tx, scanCell, "SELECT "+cellColumns+" FROM cells WHERE json_extract(doc,'$.forked_cell') IN (SELECT value FROM json_each(?)) ORDER BY id", list)
}

const checkpointColumns = "id, cell_id, parent, layer, run_id, ord, freed, doc"

func scanCheckpoint(r *sqlite.Stmt) (Checkpoint, error) {
	c := Checkpoint{
		ID: r.ColumnText(0), CellID: r.ColumnText(1), Parent: r.ColumnText(2), Layer: r.ColumnText(3),
		RunID: r.ColumnText(4), Ord: r.ColumnInt64(5), Freed: r.ColumnBool(6),
	}
	err := decode(r.ColumnText(7), &c)
	return c, err
}

const putCheckpoint = `INSERT INTO checkpoints(id,cell_id,parent,layer,run_id,ord,freed,doc)
	VALUES(?,?,?,?,?,coalesce((SELECT ord FROM checkpoints ORDER BY rowid DESC LIMIT 1),0)+1,?,?)
	ON CONFLICT(id) DO UPDATE SET layer=excluded.layer, freed=excluded.freed, doc=excluded.doc`

// PutCheckpoint inserts or replaces a checkpoint; a new one goes to the end of
// its order, which is that of the rows: SQLite finds the last row at once. (Rows
// can get other numbers, when the database is vacuumed, but not another
// order.)
func (tx *Tx) PutCheckpoint(c Checkpoint) error {
	doc, err := encode(c)
	if err != nil {
		return err
	}
	return tx.exec(putCheckpoint, c.ID, c.CellID, c.Parent, c.Layer, c.RunID, c.Freed, doc)
}

// Checkpoint finds a checkpoint by its whole id.
func (tx *Tx) Checkpoint(id string) (Checkpoint, error) {
	return one(tx, scanCheckpoint, "SELECT "+checkpointColumns+" FROM checkpoints WHERE id=?", id)
}

// With one condition for a cell and for all, SQLite would go through all rows.
const (
	cellCheckpoints = "SELECT " + checkpointColumns + " FROM checkpoints WHERE cell_id=? ORDER BY ord"
	cellNames       = "SELECT checkpoint_id, name FROM names WHERE cell_id=? ORDER BY name"
)

// Checkpoints lists the checkpoints of a cell, or of all with "", oldest first.
func (tx *Tx) Checkpoints(cellID string) ([]Checkpoint, error) {
	if cellID == "" {
		return all(tx, scanCheckpoint, "SELECT "+checkpointColumns+" FROM checkpoints ORDER BY ord")
	}
	return all(tx, scanCheckpoint, cellCheckpoints, cellID)
}

// NewestCheckpoints lists at most limit checkpoints of a cell, the newest first.
func (tx *Tx) NewestCheckpoints(cellID string, limit int) ([]Checkpoint, error) {
	return all(tx, scanCheckpoint,
		"SELECT "+checkpointColumns+" FROM checkpoints WHERE cell_id=? ORDER BY ord DESC LIMIT ?", cellID, limit)
}

// Lineage lists a checkpoint and its ancestors, the newest first. The caller does not
// change the list.
//
// One recursive query takes longer: to prepare it costs as much as ten of these.
func (tx *Tx) Lineage(id string) ([]Checkpoint, error) {
	if line, ok := tx.lines[id]; ok {
		return line, nil
	}
	var line []Checkpoint
	for next := id; next != ""; {
		c, err := tx.Checkpoint(next)
		if errors.Is(err, ErrNotFound) {
			break // the ancestors are lost
		}
		if err != nil {
			return nil, err
		}
		line, next = append(line, c), c.Parent
	}
	if tx.lines == nil {
		tx.lines = map[string][]Checkpoint{}
	}
	tx.lines[id] = slices.Clip(line)
	return tx.lines[id], nil
}

// Ancestor is a state in a lineage, with what is decided about the run that made it.
type Ancestor struct {
	ID, CellID, Kind string
	// RunID is that of the run that made the state. The others are empty if it is, or if
	// the run is lost.
	RunID, RunCell, RunState, Decision string
}

const ancestors = `WITH RECURSIVE line(id, parent, cell_id, run_id, kind, depth) AS (
		SELECT id, parent, cell_id, run_id, json_extract(doc,'$.kind'), 0 FROM checkpoints WHERE id=? UNION ALL
		SELECT c.id, c.parent, c.cell_id, c.run_id, json_extract(c.doc,'$.kind'), depth+1 FROM line JOIN checkpoints c ON c.id=line.parent)
	SELECT line.id, line.cell_id, kind, run_id, r.cell_id, r.state, r.decision FROM line LEFT JOIN runs r ON r.id=run_id ORDER BY depth`

// Ancestors lists a checkpoint and its ancestors, the newest first. It reads no documents:
// a long history costs a tenth of what Lineage takes. The caller does not change the list.
func (tx *Tx) Ancestors(id string) ([]Ancestor, error) {
	if line, ok := tx.ancestors[id]; ok {
		return line, nil
	}
	line, err := all(tx, func(r *sqlite.Stmt) (Ancestor, error) {
		return Ancestor{
			ID: r.ColumnText(0), CellID: r.ColumnText(1), Kind: r.ColumnText(2), RunID: r.ColumnText(3),
			RunCell: r.ColumnText(4), RunState: r.ColumnText(5), Decision: r.ColumnText(6),
		}, nil
	}, ancestors, id)
	if err != nil {
		return nil, err
	}
	if tx.ancestors == nil {
		tx.ancestors = map[string][]Ancestor{}
	}
	tx.ancestors[id] = slices.Clip(line)
	return tx.ancestors[id], nil
}

// First finds the first ancestor of a checkpoint.
func (tx *Tx) First(id string) (Checkpoint, error) {
	return one(tx, scanCheckpoint, `WITH RECURSIVE line(cid, depth) AS (
			VALUES(?,0) UNION ALL SELECT c.parent, depth+1 FROM line JOIN checkpoints c ON c.id=cid WHERE c.parent<>'')
		SELECT `+checkpointColumns+` FROM line JOIN checkpoints ON id=cid ORDER BY depth DESC LIMIT 1`, id)
}

// Name names a checkpoint within its cell.
func (tx *Tx) Name(cellID, name, checkpoint string) error {
	return tx.exec(`INSERT INTO names(cell_id,name,checkpoint_id) VALUES(?,?,?)
		ON CONFLICT(cell_id,name) DO UPDATE SET checkpoint_id=excluded.checkpoint_id`, cellID, name, checkpoint)
}

// Names maps each named checkpoint to its names; "" means all cells.
func (tx *Tx) Names(cellID string) (map[string][]string, error) {
	names := map[string][]string{}
	query, args := cellNames, []any{cellID}
	if cellID == "" {
		query, args = "SELECT checkpoint_id, name FROM names ORDER BY name", nil
	}
	err := tx.query(func(r *sqlite.Stmt) error {
		names[r.ColumnText(0)] = append(names[r.ColumnText(0)], r.ColumnText(1))
		return nil
	}, query, args...)
	return names, err
}

// Label is a name that a cell gave to a checkpoint.
type Label struct{ CellID, Name, Checkpoint string }

// namedCheckpoints lists every name.
func (tx *Tx) namedCheckpoints() ([]Label, error) {
	return all(tx, func(r *sqlite.Stmt) (Label, error) {
		return Label{r.ColumnText(0), r.ColumnText(1), r.ColumnText(2)}, nil
	}, "SELECT cell_id, name, checkpoint_id FROM names ORDER BY cell_id, name")
}

// FindNamed finds a checkpoint by its name within a cell.
func (tx *Tx) FindNamed(cellID, name string) (Checkpoint, error) {
	return one(tx, scanCheckpoint, "SELECT "+checkpointColumns+
		" FROM checkpoints WHERE id=(SELECT checkpoint_id FROM names WHERE cell_id=? AND name=?)", cellID, name)
}

// PutIntent records an operation before it begins.
func (tx *Tx) PutIntent(id, cellID, kind string, doc any) error {
	text, err := encode(doc)
	if err != nil {
		return err
	}
	return tx.exec("INSERT INTO intents(id,cell_id,kind,doc) VALUES(?,?,?,?)", id, cellID, kind, text)
}

// DropIntent removes the intent of an operation that was finished or undone.
func (tx *Tx) DropIntent(id string) error { return tx.exec("DELETE FROM intents WHERE id=?", id) }

// Intents lists the unfinished operations of a cell, or of all cells with "".
func (tx *Tx) Intents(cellID string) ([]Intent, error) {
	return all(tx, func(r *sqlite.Stmt) (Intent, error) {
		return Intent{ID: r.ColumnText(0), CellID: r.ColumnText(1), Kind: r.ColumnText(2), Doc: json.RawMessage(r.ColumnText(3))}, nil
	}, "SELECT id, cell_id, kind, doc FROM intents WHERE ?1='' OR cell_id=?1 ORDER BY rowid", cellID)
}

// PutApply inserts or replaces an apply.
func (tx *Tx) PutApply(a Apply) error {
	doc, err := encode(a)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO applies(id,cell_id,ord,undone,doc)
		VALUES(?,?,coalesce((SELECT ord FROM applies ORDER BY rowid DESC LIMIT 1),0)+1,?,?)
		ON CONFLICT(id) DO UPDATE SET undone=excluded.undone, doc=excluded.doc`, a.ID, a.CellID, a.Undone, doc)
}

func scanApply(r *sqlite.Stmt) (Apply, error) {
	a := Apply{ID: r.ColumnText(0), CellID: r.ColumnText(1), Ord: r.ColumnInt64(2), Undone: r.ColumnBool(3)}
	err := decode(r.ColumnText(4), &a)
	return a, err
}

// LastApply returns a cell's newest apply that was not undone.
func (tx *Tx) LastApply(cellID string) (Apply, error) {
	return one(tx, scanApply,
		"SELECT id, cell_id, ord, undone, doc FROM applies WHERE cell_id=? AND undone=0 ORDER BY ord DESC LIMIT 1", cellID)
}

// Applies lists every apply, oldest first.
func (tx *Tx) Applies() ([]Apply, error) {
	return all(tx, scanApply, "SELECT id, cell_id, ord, undone, doc FROM applies ORDER BY ord")
}

func all[T any](tx *Tx, scan func(*sqlite.Stmt) (T, error), query string, args ...any) ([]T, error) {
	var rows []T
	err := tx.query(func(r *sqlite.Stmt) error {
		row, err := scan(r)
		rows = append(rows, row)
		return err
	}, query, args...)
	return rows, err
}

func one[T any](tx *Tx, scan func(*sqlite.Stmt) (T, error), query string, args ...any) (T, error) {
	rows, err := all(tx, scan, query, args...)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return rows[0], nil
}

// HasIntent reports whether there is an intent of a kind.
func (tx *Tx) HasIntent(kind string) (found bool, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		found = r.ColumnBool(0)
		return nil
	}, "SELECT EXISTS(SELECT 1 FROM intents WHERE kind=?)", kind)
	return found, err
}
