package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// journalVersion is refused when it is newer than this program knows.
const journalVersion = 1

// Files of a journal directory. Each is written once, durably; which of them
// exist is the state of the apply. docs/internals/apply.md has the table.
const (
	intentFile    = "intent.json"  // the staging directory may exist
	journalFile   = "journal.json" // names of the target may have been exchanged
	committedFile = "committed"    // the changes are final
	finishedFile  = "finished"     // nothing is left to do
	undoneFile    = "rolledback"   // the target is as it was before
	oldDir        = "old"          // what was displaced, by slot
	foreignDir    = "foreign"      // what others put in the way of a roll-back
)

// intent is durable before anything in the target changes.
type intent struct {
	Version int      `json:"version"`
	ID      string   `json:"id"`
	Target  []byte   `json:"target"`
	Staging string   `json:"staging"`
	Dev     uint64   `json:"dev"` // of the target's root, as are the others
	Ino     uint64   `json:"ino"`
	Mode    uint32   `json:"mode"`
	MTime   fsx.Time `json:"mtime"`
}

// record is durable before any name of the target is exchanged. Paths and link
// targets are bytes, not text: JSON carries them in base64.
type record struct {
	Version  int       `json:"version"`
	Intent   intent    `json:"intent"`
	Owners   bool      `json:"owners"`
	DirTimes bool      `json:"dir_times"` // Options.KeepDirTimes
	Move     bool      `json:"move"`      // displaced things are moved to old/ after the commit, not copied before
	Units    []unit    `json:"units"`
	Metas    []int     `json:"metas"` // indices of Ops that change a directory's metadata
	Modes    []dirMode `json:"modes"` // directories that are made writable meanwhile
	Times    []dirTime `json:"times"` // of directories whose entries change
	Ops      []opLine  `json:"ops"`   // all that are carried out, sorted by path

	index map[string]int // path to Ops
}

// unit is one exchange of a name: of a single thing or of a whole directory.
type unit struct {
	Op   int    `json:"op"`
	Slot string `json:"slot"` // its name in the staging directory
	// Ino is the inode of what is staged; 0 when the name is only removed.
	Ino uint64 `json:"ino"`
}

type dirMode struct {
	Path []byte `json:"path"`
	Mode uint32 `json:"mode"`
}

type dirTime struct {
	Path  []byte   `json:"path"`
	MTime fsx.Time `json:"mtime"`
}

type opLine struct {
	Path []byte     `json:"path"`
	Old  *entryLine `json:"old,omitempty"`
	New  *entryLine `json:"new,omitempty"`

	op Op
}

type entryLine struct {
	Kind   tree.Kind  `json:"kind"`
	Mode   uint32     `json:"mode"`
	UID    uint32     `json:"uid"`
	GID    uint32     `json:"gid"`
	Size   int64      `json:"size"`
	MTime  fsx.Time   `json:"mtime"`
	Digest string     `json:"digest,omitempty"`
	Plain  bool       `json:"plain_digest,omitempty"`
	Target []byte     `json:"target,omitempty"`
	Xattrs []attrLine `json:"xattrs,omitempty"`
}

type attrLine struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

func lineOf(op Op) opLine {
	return opLine{Path: []byte(op.Path), Old: entryLineOf(op.Old), New: entryLineOf(op.New), op: op}
}

func entryLineOf(e *tree.Entry) *entryLine {
	if e == nil {
		return nil
	}
	l := &entryLine{
		Kind: e.Kind, Mode: e.Mode, UID: e.UID, GID: e.GID, Size: e.Size, MTime: e.MTime, Target: []byte(e.Target),
	}
	if e.Kind == tree.KindFile {
		l.Digest, l.Plain = e.Digest.String(), e.PlainDigest
	}
	for _, x := range e.Xattrs {
		l.Xattrs = append(l.Xattrs, attrLine{[]byte(x.Name), x.Value})
	}
	return l
}

func (l *entryLine) entry(path string) (*tree.Entry, error) {
	if l == nil {
		return nil, nil //nolint:nilnil // nothing there is an answer
	}
	e := &tree.Entry{
		Name: baseOf(path), Kind: l.Kind, Mode: l.Mode, UID: l.UID, GID: l.GID, Size: l.Size, MTime: l.MTime,
		Target: string(l.Target),
	}
	if l.Kind == tree.KindFile {
		e.PlainDigest = l.Plain
		var err error
		if e.Digest, err = tree.ParseHash(l.Digest); err != nil {
			return nil, err
		}
	}
	for _, x := range l.Xattrs {
		e.Xattrs = append(e.Xattrs, fsx.Xattr{Name: string(x.Name), Value: x.Value})
	}
	return e, nil
}

// prepare makes the parts that are not stored, and checks those that are: the
// journal may have been altered, and its paths are used.
func (r *record) prepare() error {
	r.index = make(map[string]int, len(r.Ops))
	for i := range r.Ops {
		l := &r.Ops[i]
		path := string(l.Path)
		if err := fsx.CheckPath(path); err != nil {
			return fmt.Errorf("path %q: %w", path, err)
		}
		older, err := l.Old.entry(path)
		if err != nil {
			return err
		}
		newer, err := l.New.entry(path)
		if err != nil {
			return err
		}
		l.op = Op{Path: path, Old: older, New: newer}
		r.index[path] = i
	}
	for _, u := range r.Units {
		if u.Op < 0 || u.Op >= len(r.Ops) || fsx.CheckPath(u.Slot) != nil {
			return fmt.Errorf("unit %q", u.Slot)
		}
	}
	for _, m := range r.Metas {
		if m < 0 || m >= len(r.Ops) || !isDir(r.Ops[m].op.Old) || !isDir(r.Ops[m].op.New) {
			return fmt.Errorf("change of metadata %d", m)
		}
	}
	return nil
}

func (r *record) op(u unit) Op { return r.Ops[u.Op].op }

func writeJSON(d *fsx.Dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return fsx.WriteFile(d, name, b, 0o600)
}

func readJSON(d *fsx.Dir, name string, version *int, v any) error {
	f, err := d.OpenFile(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", errJournal, name, err)
	}
	if *version != journalVersion {
		return fmt.Errorf("%w: %s has version %d, this program knows %d", errJournal, name, *version, journalVersion)
	}
	return nil
}

func readRecord(d *fsx.Dir) (*record, error) {
	var r record
	if err := readJSON(d, journalFile, &r.Version, &r); err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errJournal, journalFile, err)
	}
	return &r, nil
}

func has(d *fsx.Dir, name string) (bool, error) {
	_, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
