package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
)

// TestLostKey: a home without its key signs nothing until the loss is recorded.
// Reading works. An old key that is put back breaks nothing.
func TestLostKey(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	key := filepath.Join(p.home, "keys", "signing.pem")
	old, err := os.ReadFile(key)
	p.ok(err)
	oldPublic := p.publicKey(filepath.Join(t.TempDir(), "old.pem"))
	p.ok(os.Remove(key))
	p.refusesToSign()

	_, err = p.e.KeyLost(p.ctx)
	p.ok(err)
	late, _ := p.sh("demo", "echo late > late")
	_, err = p.e.KeyLost(p.ctx)
	p.refused(err, api.Refused, "not lost")
	res, err := p.e.ReceiptVerify(p.ctx, "", "", true, "")
	if err != nil {
		t.Fatal(err, details(err))
	}
	if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "was lost and did not sign the change") {
		t.Errorf("verification notes %q", res.Notes)
	}
	// Trust in the old key does not extend to the new one.
	bundle := p.bundle(filepath.Join(t.TempDir(), "late.json"), late.ReceiptID)
	_, err = newWorld(t).e.BundleVerify(p.ctx, bundle, oldPublic)
	p.refused(err, api.Refused, "")
	newPublic := p.publicKey(filepath.Join(t.TempDir(), "new.pem"))
	_, err = newWorld(t).e.BundleVerify(p.ctx, bundle, newPublic)
	p.ok(err)

	// The old key is found, and put where it was.
	p.ok(os.WriteFile(key, old, 0o600))
	p.refusesToSign()
	p.sound("demo")
	_, err = p.e.KeyLost(p.ctx)
	p.ok(err)
	p.reopen()
	p.sh("demo", "echo again > again")
	p.sound("demo")
	p.wantRecovered("demo")
}

// refusesToSign: changing verbs are refused before they change anything, with a
// hint; reading verbs work.
func (p *past) refusesToSign() {
	p.Helper()
	p.reopen()
	for what, err := range map[string]error{
		"run":        errorOf(p.e.Run(p.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})),
		"checkpoint": errorOf(p.e.Checkpoint(p.ctx, "demo", "x")),
		"restore":    errorOf(p.e.Restore(p.ctx, api.RestoreRequest{Cell: "demo"})),
		"accept":     errorOf(p.e.Accept(p.ctx, api.AcceptRequest{Cell: "demo"})),
		"fork":       errorOf(p.e.Fork(p.ctx, api.ForkRequest{Cell: "demo", Name: "f"})),
		"init":       errorOf(p.e.Init(p.ctx, api.InitRequest{Name: "i", From: p.source})),
		"rm":         p.e.Remove(p.ctx, "demo", true),
		"rename":     p.e.Rename(p.ctx, "demo", "other"),
		"key rotate": errorOf(p.e.KeyRotate(p.ctx)),
		"key init":   errorOf(p.e.KeyInit(p.ctx)),
	} {
		if api.KindOf(err) != api.Refused || !strings.Contains(hintOf(err), "key rotate --lost") {
			p.Errorf("%s: %v; %s", what, err, hintOf(err))
		}
	}
	for what, err := range map[string]error{
		"ls":      errorOf(p.e.List(p.ctx)),
		"status":  errorOf(p.e.Status(p.ctx, "demo")),
		"log":     errorOf(p.e.Log(p.ctx, "demo")),
		"verify":  errorOf(p.e.ReceiptVerify(p.ctx, "", "", true, "")),
		"receipt": errorOf(p.e.Receipt(p.ctx, "", "demo", true)),
		"gc":      errorOf(p.e.GC(p.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})),
	} {
		if err != nil {
			p.Errorf("%s: %v", what, err)
		}
	}
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Hint
	}
	return ""
}
