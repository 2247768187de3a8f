package main

import (
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/forkcell/forkcell/client"
)

// TestClientFiles: the Go client sends a directory to a daemon elsewhere and writes back
// to it, by the program on this machine.
func TestClientFiles(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	t.Setenv("FORKCELL_HOME", filepath.Join(dir, "own"))
	at, file := tokenDaemon(t, dir)
	source := filepath.Join(dir, "source")
	must(t, os.Mkdir(source, 0o755))
	must(t, os.WriteFile(filepath.Join(source, "f"), []byte("one\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(source, ".env"), []byte("KEY=secret\n"), 0o600))
	c, err := sdk.New(sdk.WithURL("http://"+at), sdk.WithTokenFile(file))
	must(t, err)
	t.Cleanup(c.Close)
	policy := "version: 1\n"
	cell, err := c.Cells.CreateFrom(ctx, source, sdk.CreateCell{
		Name: "demo", Exclude: []string{"*.log"}, Policy: policy, CellSettings: sdk.CellSettings{Labels: map[string]string{"a": "b"}, TTL: "1h"},
	})
	must(t, err)
	if cell.Name != "demo" || len(cell.Created.LeftOut) != 1 {
		t.Errorf("made %q, left out %v", cell.Name, cell.Created.LeftOut)
	}
	status, err := cell.Status(ctx)
	must(t, err)
	if status.Labels["a"] != "b" {
		t.Errorf("the labels are %v", status.Labels)
	}
	_, err = cell.Run(ctx, sdk.Run{Command: sdk.Shell("echo two > f; test ! -e .env")})
	must(t, err)
	res, err := cell.Accept(ctx, sdk.Accept{Apply: true, Reason: "seen"})
	must(t, err)
	if res.Applied == nil || len(res.Applied.Written) != 1 || contentOf(t, source) != "two\n" {
		t.Errorf("applied %+v, the file is %q", res.Applied, contentOf(t, source))
	}
	_, err = cell.Undo(ctx, sdk.Undo{})
	must(t, err)
	if contentOf(t, source) != "one\n" {
		t.Errorf("after the undo the file is %q", contentOf(t, source))
	}
	_, err = cell.Apply(ctx, sdk.Apply{DryRun: true})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(source, "f"), []byte("mine\n"), 0o644))
	if _, err := cell.Apply(ctx, sdk.Apply{}); !sdk.HasCode(err, "conflict") {
		t.Errorf("a conflict: %v", err)
	}
	refreshed, err := cell.Refresh(ctx, sdk.Refresh{OnConflict: "theirs"})
	must(t, err)
	if len(refreshed.Changed) != 1 {
		t.Errorf("refreshed %v", refreshed.Changed)
	}
	if unnamed, err := c.Cells.CreateFrom(ctx, source, sdk.CreateCell{}); err != nil || unnamed.Name == "" {
		t.Errorf("a cell without a name: %v", err)
	}
	if _, err := c.Cells.CreateFrom(ctx, filepath.Join(dir, "none"), sdk.CreateCell{Name: "none"}); !sdk.HasCode(err, "usage") {
		t.Errorf("a missing directory: %v", err)
	}
}

func contentOf(t *testing.T, source string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(source, "f"))
	must(t, err)
	return string(text)
}
