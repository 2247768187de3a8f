package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/receipt"
)

// TestBundleWithoutLargeOutput: output that is too large for a bundle does not keep
// smaller output out of it.
func TestBundleWithoutLargeOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	res, _ := w.sh("demo", "head -c 17000000 /dev/zero; echo small >&2")
	data, err := w.e.Bundle(w.ctx, res.ReceiptID)
	w.ok(err)
	b, err := receipt.ParseBundle(bytes.NewReader(data))
	w.ok(err)
	if small := sha256.Sum256([]byte("small\n")); string(b.Included[hex.EncodeToString(small[:])]) != "small\n" {
		t.Error("the bundle does not have the output to stderr")
	}
}

// TestBundle: a receipt is verified elsewhere with only a trusted key.
func TestBundle(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	dir := t.TempDir()
	oldKey := p.publicKey(filepath.Join(dir, "old.pem"))
	first := p.bundle(filepath.Join(dir, "first.json"), p.accepted.ReceiptID)
	_, err := p.e.KeyRotate(p.ctx)
	p.ok(err)
	newKey := p.publicKey(filepath.Join(dir, "new.pem"))
	late, _ := p.sh("demo", "echo more; echo more > more")
	_, err = p.e.Accept(p.ctx, api.AcceptRequest{Cell: "demo", Reason: "fine"})
	p.ok(err)
	second := p.bundle(filepath.Join(dir, "second.json"), late.ReceiptID)
	strange := newPast(t, "").publicKey(filepath.Join(dir, "strange.pem"))

	// Elsewhere there is no home at all, or another one.
	nowhere, release, err := local.Open(filepath.Join(dir, "none"), local.Read, tester())
	p.ok(err)
	defer release()
	other := newWorld(t)
	for _, e := range []*engine.Engine{nowhere, other.e} {
		for file, keys := range map[string][]string{first: {oldKey}, second: {oldKey, newKey}} {
			for _, key := range keys {
				res, err := e.BundleVerify(p.ctx, file, key)
				if err != nil || !res.OK || len(res.Bound) == 0 {
					t.Fatalf("%s with %s: %v %+v", file, key, err, res)
				}
			}
			_, err := e.BundleVerify(p.ctx, file, "")
			p.refused(err, api.Refused, "")
			_, err = e.BundleVerify(p.ctx, file, strange)
			p.refused(err, api.Refused, "")
		}
		// A later key does not verify what was signed before it existed.
		_, err := e.BundleVerify(p.ctx, first, newKey)
		p.refused(err, api.Refused, "")
		p.alteredBundles(e, first, oldKey)
	}
	id, err := other.e.KeyTrust(p.ctx, oldKey)
	p.ok(err)
	res, err := other.e.BundleVerify(p.ctx, second, "")
	p.ok(err)
	if res.KeyID != id {
		t.Errorf("trusted was %s, used %s", id, res.KeyID)
	}
	p.sound("demo")
}

func (p *past) publicKey(file string) string {
	p.Helper()
	key, err := p.e.Key(p.ctx)
	p.ok(err)
	p.ok(os.WriteFile(file, []byte(key.PublicKeyPEM), 0o644))
	return file
}

func (p *past) bundle(file, id string) string {
	p.Helper()
	_, err := p.e.ReceiptExport(p.ctx, id, file)
	p.ok(err)
	return file
}

// alteredBundles: every changed byte of a bundle is noticed, unless it has no
// meaning.
func (p *past) alteredBundles(e *engine.Engine, file, key string) {
	p.Helper()
	data, err := os.ReadFile(file)
	p.ok(err)
	good, err := receipt.ParseBundle(bytes.NewReader(data))
	p.ok(err)
	altered := file + ".altered"
	for at := range 20 {
		changed := bytes.Clone(data)
		changed[len(changed)*at/20] ^= 1
		if again, err := receipt.ParseBundle(bytes.NewReader(changed)); err == nil && fmt.Sprint(again) == fmt.Sprint(good) {
			continue
		}
		p.ok(os.WriteFile(altered, changed, 0o644))
		if res, err := e.BundleVerify(p.ctx, altered, key); err == nil || api.KindOf(err) != api.Refused {
			p.Errorf("byte %d of the bundle was changed: %v %+v", len(changed)*at/20, err, res)
		}
	}
}

// TestDamagedHome: a damaged part is refused with a hint, and the hint works.
func TestDamagedHome(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	before, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	database := filepath.Join(p.home, "forkcell.db")
	garbage := map[string]func([]byte) []byte{
		"garbage":  func(d []byte) []byte { return bytes.Repeat([]byte("garbage "), len(d)/8) },
		"cut":      func(d []byte) []byte { return d[:len(d)/3] },
		"holed":    func(d []byte) []byte { return append(d[:100:100], bytes.Repeat([]byte{0xff}, len(d)-100)...) },
		"empty":    func([]byte) []byte { return nil },
		"one byte": func([]byte) []byte { return []byte("x") },
	}
	for what, damage := range garbage {
		p.closeHome()
		p.sql("PRAGMA wal_checkpoint(TRUNCATE)")
		data, err := os.ReadFile(database)
		p.ok(err)
		// A new file: an engine may still have the old one open.
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(database + suffix); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		p.ok(os.WriteFile(database, damage(data), 0o600))
		p.refusesDatabase(what)
		p.ok(p.recover())
		p.reopen()
		after, err := p.e.Status(p.ctx, "demo")
		p.ok(err)
		if before.Head != after.Head || before.Root != after.Root || before.Runs != after.Runs || before.LastDecision != after.LastDecision {
			t.Fatalf("%s: before %+v\nafter %+v", what, before, after)
		}
		p.sound("demo")
	}
}

// refusesDatabase: the first use of the database, at the latest, says what to
// do.
func (p *past) refusesDatabase(what string) {
	p.Helper()
	for _, mode := range []local.Mode{local.Read, local.Write, local.Create} {
		e, release, err := local.Open(p.home, mode, tester())
		if err == nil {
			_, err = e.Status(p.ctx, "demo")
			_ = release()
		}
		if err == nil || api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "database") {
			p.Errorf("%s: kind %s, %v", what, api.KindOf(err), err)
			continue
		}
		if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Hint, "recover") {
			p.Errorf("%s: %v does not say what to do", what, err)
		}
	}
}

// TestNewerFormats: a store of a newer program is not touched.
func TestNewerFormats(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	head, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	modes := map[string]local.Mode{"read": local.Read, "write": local.Write, "create": local.Create, "rescue": local.Rescue}
	newer := map[string]func() func(){
		"home.json": p.file("home.json", func(d []byte) []byte { return bytes.Replace(d, []byte(`"format":1`), []byte(`"format":2`), 1) }),
		"database": func() func() {
			was := p.sql("PRAGMA user_version")[0]
			p.sql("PRAGMA user_version=99")
			return func() { p.sql("PRAGMA user_version=" + was) }
		},
	}
	for what, do := range newer {
		undo := do()
		for name, mode := range modes {
			if what == "database" && mode == local.Rescue {
				continue // it does not look at the database
			}
			_, _, err := local.Open(p.home, mode, tester())
			if err == nil || api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "newer version") {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
		undo()
	}
	undo := p.file("layers/"+p.layerOf(head.Head)+"/layer.json", newerFormat)()
	p.reopen()
	_, err = p.e.Run(p.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})
	p.refused(err, api.Refused, "newer")
	_, err = p.e.Diff(p.ctx, api.DiffRequest{Cell: "demo"})
	p.refused(err, api.Refused, "newer")
	undo()
	p.reopen()
	p.wantInside("demo", "hello.txt", "good\n")
	p.sound("demo")
}

// TestRecoverNamesWhatIsLost: the statements of a damaged log that verify are
// recovered.
func TestRecoverNamesWhatIsLost(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	undo := p.file("log/*/"+p.seqOf(p.pending.RunID)+".json", flip(50))()
	defer undo()
	e, release, err := local.Open(p.home, local.Rescue, tester())
	p.ok(err)
	res, err := e.Recover(p.ctx, false)
	p.ok(errors.Join(err, release()))
	if len(res.Problems) == 0 || res.Runs != 2 || res.Cells != 1 || res.OldDatabase == "" {
		t.Fatalf("got %+v", res)
	}
	p.reopen()
	_, err = p.e.Restore(p.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: p.accepted.CheckpointAfter})
	p.ok(err)
	p.wantInside("demo", "hello.txt", "good\n")
}

// TestRecoverFarStatement: a file with a number far after all others, that nobody signed,
// is named, and costs no work for each number before it.
func TestRecoverFarStatement(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	one, err := os.ReadFile(filepath.Join(p.home, "log", "0000000", "0000000001.json"))
	p.ok(err)
	for dir, files := range map[string]map[string][]byte{
		"9223372036854775": {"9223372036854775807.json": []byte("{}")},
		"9000000":          {"9000000000.json": one}, // signed, of another place
	} {
		p.ok(os.Mkdir(filepath.Join(p.home, "log", dir), 0o700))
		for name, data := range files {
			p.ok(os.WriteFile(filepath.Join(p.home, "log", dir, name), data, 0o600))
		}
	}
	e, release, err := local.Open(p.home, local.Rescue, tester())
	p.ok(err)
	res, err := e.Recover(p.ctx, true)
	p.ok(errors.Join(err, release()))
	if len(res.Problems) != 2 || !strings.Contains(res.Problems[0], "9000000000") || res.Cells != 1 {
		t.Fatalf("got %+v", res)
	}
	p.reopen()
	_, err = p.e.Restore(p.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: p.accepted.CheckpointAfter})
	p.ok(err)
}
