package engine_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/forkcell/forkcell/internal/front/local"
)

// sql runs a statement on the database, without the checks of the store.
func (w *world) sql(query string, args ...any) (rows []string) {
	w.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(w.home, "forkcell.db"), sqlite.OpenReadWrite)
	w.ok(err)
	err = sqlitex.Execute(conn, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
		rows = append(rows, r.ColumnText(0))
		return nil
	}})
	w.ok(errors.Join(err, conn.Close()))
	return rows
}

// tampering is one change of a home that can be undone.
type tampering struct {
	what string
	by   string // "verify" or "receipt verify": who has to find it
	says string // a part of what is said
	do   func() (undo func())
}

// past is a home with some history in it.
type past struct {
	*world
	release                     func() error
	accepted, restored, pending *api.RunResult
	base                        *api.InitResult
}

func newPast(t *testing.T, backend string) *past {
	t.Helper()
	dir := t.TempDir()
	p := &past{world: &world{T: t, ctx: t.Context(), home: filepath.Join(dir, "home"), source: filepath.Join(dir, "src")}}
	p.write("hello.txt", "hello\n")
	p.write("docs/a.md", "a\n")
	p.reopen()
	t.Cleanup(func() { _ = p.release() })
	p.base = p.init("demo", backend)
	p.accepted, _ = p.sh("demo", "echo out; echo err >&2; echo good > hello.txt; mkdir sub; echo in > sub/file", acceptOnSuccess)
	p.restored, _ = p.sh("demo", "echo bad > hello.txt; exit 1", restoreOnFail)
	p.pending, _ = p.sh("demo", "echo later >> docs/a.md; echo said")
	_, err := p.e.Checkpoint(p.ctx, "demo", "named")
	p.ok(err)
	return p
}

// reopen makes an engine without any cached data.
func (p *past) reopen() {
	p.Helper()
	p.closeHome()
	e, release, err := local.Open(p.home, local.Create, tester())
	p.ok(err)
	p.e, p.release = e, release
}

func (p *past) closeHome() {
	p.Helper()
	if p.release != nil {
		p.ok(p.release())
	}
	p.release = func() error { return nil }
}

// column changes one value of one row.
func (p *past) column(set, where, id string) func() func() {
	return func() func() {
		table, assign, _ := strings.Cut(set, " ")
		name, value, _ := strings.Cut(assign, "=")
		old := p.sql("SELECT "+name+" FROM "+table+" WHERE "+where, id)
		if len(old) != 1 {
			p.Fatalf("%s %s has %d rows", table, id, len(old))
		}
		p.sql("UPDATE "+table+" SET "+name+"="+value+" WHERE "+where, id)
		if now := p.sql("SELECT "+name+" FROM "+table+" WHERE "+where, id); now[0] == old[0] {
			p.Fatalf("%s changes nothing", set)
		}
		return func() { p.sql("UPDATE "+table+" SET "+name+"=? WHERE "+where, old[0], id) }
	}
}

// row removes a row and keeps a copy of its table.
func (p *past) row(table, where, id string) func() func() {
	return func() func() {
		p.sql("CREATE TABLE kept AS SELECT * FROM " + table)
		p.sql("DELETE FROM "+table+" WHERE "+where, id)
		return func() {
			p.sql("DELETE FROM " + table)
			p.sql("INSERT INTO " + table + " SELECT * FROM kept")
			p.sql("DROP TABLE kept")
		}
	}
}

// file changes a file of the home; nil removes it.
func (p *past) file(pattern string, change func([]byte) []byte) func() func() {
	return func() func() {
		path := p.find(pattern)
		var st, dir unix.Stat_t
		p.ok(unix.Stat(path, &st))
		p.ok(unix.Stat(filepath.Dir(path), &dir))
		old, err := os.ReadFile(path)
		p.ok(err)
		put := func(data []byte) {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				p.Fatal(err)
			}
			if data != nil {
				p.ok(os.WriteFile(path, data, 0o600))
				p.ok(unix.Chmod(path, st.Mode&0o7777))
				p.times(path, st)
			}
			p.times(filepath.Dir(path), dir)
		}
		if change == nil {
			change = func([]byte) []byte { return nil }
		}
		put(change(bytes.Clone(old)))
		return func() { put(old) }
	}
}

// times restores the times of a file, as an attacker would to hide a change.
func (p *past) times(path string, st unix.Stat_t) {
	p.Helper()
	p.ok(unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0))
}

func (p *past) find(pattern string) string {
	p.Helper()
	found, err := filepath.Glob(filepath.Join(p.home, pattern))
	p.ok(err)
	if len(found) == 0 {
		p.Fatalf("there is no %s", pattern)
	}
	return found[len(found)-1]
}

func flip(at int) func([]byte) []byte {
	return func(data []byte) []byte {
		data[len(data)*at/100] ^= 0x20
		return data
	}
}

func (p *past) layerOf(checkpoint string) string {
	return p.sql("SELECT layer FROM checkpoints WHERE id=?", checkpoint)[0]
}

func (p *past) seqOf(id string) string {
	return p.sql("SELECT printf('%010d', seq) FROM statements WHERE id=? OR run_id=? ORDER BY seq LIMIT 1", id, id)[0]
}

func (p *past) databaseCases() []tampering {
	const byID = "id=?"
	bad, good := p.restored.RunID, p.accepted.RunID
	const log = "receipt verify"
	return []tampering{
		{"outcome", log, "outcome", p.column("runs doc=json_set(doc,'$.outcome','succeeded')", byID, bad)},
		{"exit code", log, "exit code", p.column("runs doc=json_set(doc,'$.exit_code',0)", byID, bad)},
		{"decision", log, "decision", p.column("runs decision='accepted'", byID, bad)},
		{"decision of a pending run", log, "decision", p.column("runs decision='accepted'", byID, p.pending.RunID)},
		{"state after", log, "state after", p.column("runs after='"+p.restored.CheckpointAfter+"'", byID, good)},
		{"state before", log, "state before", p.column("runs doc=json_set(doc,'$.before','"+p.restored.CheckpointAfter+"')", byID, good)},
		{"receipt", log, "receipt", p.column("runs receipt_id='rcpt_01'", byID, good)},
		{"stored output", log, "", p.column("runs doc=json_set(doc,'$.stdout','"+strings.Repeat("0", 64)+"')", byID, good)},
		{"root of a run's state", log, "root", p.column("checkpoints doc=json_set(doc,'$.areas.workspace.root','"+strings.Repeat("0", 64)+"')", byID, p.accepted.CheckpointAfter)},
		{"meta root of a run's state", log, "root", p.column("checkpoints doc=json_set(doc,'$.areas.workspace.meta_root','"+strings.Repeat("0", 64)+"')", byID, p.accepted.CheckpointAfter)},
		{"root of the import", "verify", "root", p.column("checkpoints doc=json_set(doc,'$.areas.workspace.root','"+strings.Repeat("0", 64)+"')", byID, p.base.CheckpointID)},
		{"layer of a run's state", log, "root", p.column("checkpoints layer='"+p.layerOf(p.restored.CheckpointAfter)+"'", byID, p.accepted.CheckpointAfter)},
		{"layer of the import", "verify", "root", p.column("checkpoints layer='"+p.layerOf(p.restored.CheckpointAfter)+"'", byID, p.base.CheckpointID)},
		{"head", log, "head", p.column("cells head='"+p.restored.CheckpointAfter+"'", "name=?", "demo")},
		{"applied state", log, "applied", p.column("cells applied='"+p.restored.CheckpointAfter+"'", "name=?", "demo")},
		{"name", log, "named", p.column("names checkpoint_id='"+p.restored.CheckpointAfter+"'", "name=?", "named")},
		{"digest of a statement", log, "not the one", p.column("statements digest='"+strings.Repeat("0", 64)+"'", byID, p.accepted.ReceiptID)},
		{"a statement's row is gone", log, "", p.row("statements", byID, p.accepted.ReceiptID)},
		{"a run's row is gone", log, "no run", p.row("runs", byID, good)},
		{"a run that nobody signed", log, "no statement", func() func() {
			p.sql("INSERT INTO runs SELECT 'run_forged', cell_id, 99, state, after, 'accepted', 'rcpt_forged', doc FROM runs WHERE id=?", good)
			return func() { p.sql("DELETE FROM runs WHERE id='run_forged'") }
		}},
	}
}

func (p *past) logCases() []tampering {
	const log = "receipt verify"
	first, second := "log/*/"+p.seqOf(p.accepted.RunID)+".json", "log/*/"+p.seqOf(p.restored.RunID)+".json"
	blob := "blobs/sha256/*/" + p.sql("SELECT json_extract(doc,'$.stdout') FROM runs WHERE id=?", p.accepted.RunID)[0]
	return []tampering{
		{"a changed statement", log, "", p.file(first, flip(50))},
		{"a changed signature", log, "", p.file(first, flip(97))},
		{"an empty statement", log, "", p.file(first, func([]byte) []byte { return []byte{} })},
		{"a lost statement", log, "", p.file(first, nil)},
		{"swapped statements", log, "seq", func() func() { return p.swap(first, second) }},
		{"changed output", log, "changed", p.file(blob, flip(50))},
		{"lost output", log, "missing", p.file(blob, nil)},
	}
}

func (p *past) swap(a, b string) func() {
	p.Helper()
	exchange := func() {
		p.ok(unix.Renameat2(unix.AT_FDCWD, p.find(a), unix.AT_FDCWD, p.find(b), unix.RENAME_EXCHANGE))
	}
	exchange()
	return exchange
}

func (p *past) layerCases(backend string) []tampering {
	layer := "layers/" + p.layerOf(p.accepted.CheckpointAfter)
	contents := layer + "/workspace/sub/file"
	named := "sub/file"
	if backend == "delta" {
		contents = p.object("in\n")
	}
	list := []tampering{
		{"changed contents", "verify", named, p.file(contents, flip(0))},
		{"lost contents", "verify", named, p.file(contents, nil)},
		{"a changed manifest", "verify", "", p.file(layer+"/manifest", flip(50))},
		{"a cut manifest", "verify", "", p.file(layer+"/manifest", func(d []byte) []byte { return d[:len(d)/2] })},
		{"an empty manifest", "receipt verify", "manifest", p.file(layer+"/manifest", func([]byte) []byte { return []byte{} })},
		{"a lost manifest", "receipt verify", "manifest", p.file(layer+"/manifest", nil)},
		{"a changed layer.json", "verify", "", p.file(layer+"/layer.json", func(d []byte) []byte {
			return bytes.ReplaceAll(d, []byte(p.accepted.RootAfter), []byte(strings.Repeat("0", 64)))
		})},
		{"a lost layer.json", "verify", "", p.file(layer+"/layer.json", nil)},
		{"a lost layer", "verify", "", func() func() {
			path := p.find(layer)
			p.ok(os.Rename(path, path+".away"))
			return func() { p.ok(os.Rename(path+".away", path)) }
		}},
		{"a newer layer", "verify", "newer", p.file(layer+"/layer.json", newerFormat)},
	}
	if backend == "delta" {
		return list
	}
	return append(list,
		tampering{"a changed mode", "verify", named, func() func() {
			path := p.find(contents)
			p.ok(os.Chmod(path, 0o600))
			return func() { p.ok(os.Chmod(path, 0o644)) }
		}},
		tampering{"a file too many", "verify", "sub/more", func() func() {
			dir := filepath.Dir(p.find(contents))
			var st unix.Stat_t
			p.ok(unix.Stat(dir, &st))
			p.ok(os.WriteFile(dir+"/more", nil, 0o600))
			p.times(dir, st)
			return func() {
				p.ok(os.Remove(dir + "/more"))
				p.times(dir, st)
			}
		}},
	)
}

func newerFormat(d []byte) []byte {
	return bytes.Replace(d, []byte(`"format": 1`), []byte(`"format": 2`), 1)
}

// object finds contents that are kept by digest.
func (p *past) object(text string) string {
	p.Helper()
	found, err := filepath.Glob(filepath.Join(p.home, "objects/*/*"))
	p.ok(err)
	for _, f := range found {
		if data, err := os.ReadFile(f); err == nil && string(data) == text {
			rel, err := filepath.Rel(p.home, f)
			p.ok(err)
			return rel
		}
	}
	p.Fatalf("no object holds %q", text)
	return ""
}

// TestTamperedEvidence: every change of a home is found and named, and is
// refused as evidence.
func TestTamperedEvidence(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			p := newPast(t, backend)
			cases := p.layerCases(backend)
			if backend == "overlay" {
				cases = append(append(cases, p.databaseCases()...), p.logCases()...)
			}
			for _, c := range cases {
				undo := c.do()
				p.found(c)
				undo()
			}
			p.reopen()
			p.sound("demo")
		})
	}
}

// found asks a new engine for problems.
func (p *past) found(c tampering) {
	p.Helper()
	e, release, err := local.Open(p.home, local.Read, tester())
	p.ok(err)
	defer func() { _ = release() }()
	var said []string
	if c.by == "verify" {
		res, verr := e.Verify(p.ctx, "demo", "", true)
		err = verr
		if res != nil {
			for _, d := range res.Differences {
				said = append(said, d.Path+": "+d.What)
			}
		}
	} else {
		res, verr := e.ReceiptVerify(p.ctx, "", "", true, "")
		err = verr
		if res != nil {
			for _, d := range res.Problems {
				said = append(said, d.ID+": "+d.What)
			}
		}
	}
	switch all := strings.Join(said, "\n"); {
	case err == nil:
		p.Errorf("%s: %s found nothing", c.what, c.by)
	case api.KindOf(err) != api.Refused:
		p.Errorf("%s: %s gave kind %s: %v", c.what, c.by, api.KindOf(err), err)
	case !strings.Contains(all, c.says) || all == "":
		p.Errorf("%s: %s does not say %q: %v\n%s", c.what, c.by, c.says, err, all)
	}
}
