package statements_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// home is a home without an engine: a store, a workspace and their log.
type home struct {
	t     *testing.T
	dir   string
	store *store.Store
	ws    *workspace.Store
	log   *statements.Log
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, dir: filepath.Join(t.TempDir(), "home")}
	var err error
	if h.store, err = store.Open(h.dir, store.Create); err != nil {
		t.Fatal(err)
	}
	if h.ws, err = workspace.Open(h.dir, workspace.Options{Root: os.Geteuid() == 0}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.ws.Close(); err != nil {
			t.Error(err)
		}
		if err := h.store.Close(); err != nil {
			t.Error(err)
		}
	})
	h.reload()
	return h
}

// reload forgets what the log has read, as a new process would.
func (h *home) reload() {
	h.log = statements.New(h.store, h.ws, time.Now, func() string { return "alice" })
}

// cell makes a cell from a directory with one file.
func (h *home) cell(name string) (store.Cell, store.Checkpoint) {
	h.t.Helper()
	source := h.t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), []byte(name), 0o644); err != nil {
		h.t.Fatal(err)
	}
	rules, err := secretfiles.New(secretfiles.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	c := store.Cell{
		ID: store.NewID("cell"), Name: name, LastName: name, Source: source, SourceKind: "dir", Backend: string(workspace.BackendClone),
		Runtime: "native", MountAt: "/work", CreatedAt: time.Now().UTC(),
	}
	at := workspace.Cell{ID: c.ID, Backend: workspace.BackendClone, MountAt: c.MountAt, Rules: rules}
	sealed, _, err := h.ws.Import(h.t.Context(), at, store.NewID("op"), workspace.Source{Dir: source})
	if err != nil {
		h.t.Fatal(err)
	}
	head := store.Checkpoint{
		ID: store.NewID("chk"), CellID: c.ID, Layer: sealed.Layer, Kind: "init", Areas: map[string]store.Area{},
		OwnBytes: sealed.Bytes, CreatedAt: c.CreatedAt,
	}
	for area, a := range sealed.Areas {
		head.Areas[area] = store.Area{Root: a.Root.String(), MetaRoot: a.Meta.String(), Files: a.Files, Dirs: a.Dirs, Bytes: a.Bytes}
	}
	c.Head, c.Applied = head.ID, head.ID
	h.update(func(tx *store.Tx) error {
		if err := tx.PutCell(c); err != nil {
			return err
		}
		if err := tx.PutCheckpoint(head); err != nil {
			return err
		}
		return h.log.Change(tx, c, head, receipt.OpInit, nil)
	})
	return c, head
}

func (h *home) update(fn func(*store.Tx) error) {
	h.t.Helper()
	if err := h.store.Update(fn); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) rename(c store.Cell, head store.Checkpoint, to string) {
	h.t.Helper()
	c.Name, c.LastName = to, to
	h.update(func(tx *store.Tx) error {
		if err := tx.PutCell(c); err != nil {
			return err
		}
		return h.log.Change(tx, c, head, receipt.OpRename, nil)
	})
}

// verify expects a verification of the whole log to find nothing wrong, and returns
// its notes.
func (h *home) verify(want int) []string {
	h.t.Helper()
	res, err := h.log.Verify(statements.Scope{})
	if err != nil || !res.OK || res.Checked != want {
		h.t.Fatalf("%+v, %v", res, err)
	}
	return res.Notes
}

// problems expects a verification to fail, and returns what it found.
func (h *home) problems(of statements.Scope) string {
	h.t.Helper()
	res, err := h.log.Verify(of)
	if codeOf(err) != api.CodeNotVerified {
		h.t.Fatalf("%+v, %v", res, err)
	}
	var list []string
	for _, p := range res.Problems {
		list = append(list, p.ID+": "+p.What)
	}
	return strings.Join(list, "\n")
}

func codeOf(err error) api.Code {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestStatementsHaveTheirActor(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	c, head := h.cell("a")
	h.log = h.log.For(func() string { return "bob" }, "")
	h.rename(c, head, "b")
	h.verify(2)
	for seq, actor := range map[int64]string{1: "alice", 2: "bob"} {
		env, err := h.log.Envelope(seq)
		if err != nil || env.Statement.Place().Actor != actor {
			t.Errorf("statement %d: %+v, %v", seq, env, err)
		}
	}
	if name := h.log.LastName(c.ID); name != "b" {
		t.Errorf("the last name is %s", name)
	}
}

func TestVerifyComparesRowsWithStatements(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, _ := h.cell("a")
	b, _ := h.cell("b")
	h.verify(2)
	a.MountAt = "/other"
	h.update(func(tx *store.Tx) error { return tx.PutCell(a) })
	if found := h.problems(statements.Scope{Cell: a.ID}); !strings.Contains(found, "/other") {
		t.Error(found)
	}
	if res, err := h.log.Verify(statements.Scope{Cell: b.ID}); err != nil || res.Checked != 1 {
		t.Errorf("the other cell: %+v, %v", res, err)
	}
}

func TestVerifyFindsAChangedStatement(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.cell("a")
	h.cell("b")
	files, err := filepath.Glob(filepath.Join(h.dir, "log", "*", "*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.Index(data, []byte(`"payload"`))+20] ^= 1
	if err := os.Chmod(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if found := h.problems(statements.Scope{}); found == "" {
		t.Error("nothing was found")
	}
}

func TestKeyIsRotatedOrLost(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if _, err := h.log.Key(); codeOf(err) != api.CodeNotFound {
		t.Fatalf("a home without a key: %v", err)
	}
	h.cell("a")
	first, err := h.log.Key()
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.log.KeyRotate()
	if err != nil || second.KeyID == first.KeyID || !slices.Contains(second.Previous, first.KeyID) {
		t.Fatalf("%+v, %v", second, err)
	}
	h.cell("b")
	h.verify(3)
	if _, err := h.log.KeyLost(); codeOf(err) != api.CodeKeyThere {
		t.Errorf("the key is there: %v", err)
	}
	if err := os.Remove(filepath.Join(h.dir, "keys", "signing.pem")); err != nil {
		t.Fatal(err)
	}
	h.reload()
	if err := h.store.View(h.log.KeyUsable); codeOf(err) != api.CodeKeyLost {
		t.Errorf("the key is lost: %v", err)
	}
	if _, err := h.log.KeyLost(); err != nil {
		t.Fatal(err)
	}
	h.cell("c")
	if notes := h.verify(5); len(notes) != 1 || !strings.Contains(notes[0], second.KeyID) {
		t.Errorf("notes %q", notes)
	}
}

func TestRecoverReplaysTheLog(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	c, head := h.cell("a")
	h.rename(c, head, "b")
	h.cell("c")
	res, err := h.log.Recover(t.Context(), false)
	if err != nil || res.Statements != 3 || res.Cells != 2 || res.Checkpoints != 2 || len(res.Problems)+len(res.Kept) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	h.verify(3)
	if err := h.store.View(func(tx *store.Tx) error {
		got, err := tx.CellByID(c.ID)
		if got.Name != "b" || got.Head != head.ID {
			t.Errorf("the cell is %+v", got)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestALossIsKeptUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.cell("a")
	_, lost := h.cell("b")
	files, err := filepath.Glob(filepath.Join(h.dir, "log", "*", "*2*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if res, err := h.log.Recover(t.Context(), false); err == nil || len(res.Kept) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	kept := func() (states map[string]bool) {
		h.t.Helper()
		if err := h.store.View(func(tx *store.Tx) (err error) {
			states, _, err = h.log.KeptRecords(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return states
	}
	if !kept()[lost.ID] {
		t.Errorf("kept are %v", kept())
	}
	if _, err := h.log.Recover(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if len(kept()) > 0 {
		t.Errorf("kept are %v", kept())
	}
	h.verify(2)
}
