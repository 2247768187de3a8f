package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/forkcell/forkcell/client"
)

// TestClientDirectory: the client sends a directory to a daemon elsewhere by the program
// forkcell, which writes back what is accepted, also the winner of a race. What cannot be
// done there is refused before anything is decided.
func TestClientDirectory(t *testing.T) {
	url, token := serveWithToken(t, filepath.Join(t.TempDir(), "home"))
	t.Setenv("FORKCELL_HOME", filepath.Join(t.TempDir(), "own"))
	c, err := sdk.New(sdk.WithURL(url), sdk.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := c.Cells.CreateFrom(ctx, dir, sdk.CreateCell{Sole: true}); !sdk.HasCode(err, "usage") {
		t.Errorf("sole: %v", err)
	}
	cell, err := c.Cells.CreateFrom(ctx, dir, sdk.CreateCell{Name: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	race, err := cell.Race(ctx, sdk.Race{Attempts: sdk.Attempts("false", "echo two > hello.txt"), Accept: true, Apply: true})
	if err != nil || race.Applied == nil {
		t.Fatalf("%+v, %v", race, err)
	}
	wantContent(t, dir, "two\n")
	if _, err := cell.Undo(ctx, sdk.Undo{}, sdk.IfMatch(1)); !sdk.HasCode(err, "usage") {
		t.Errorf("undo: %v", err)
	}
	if _, err := cell.Undo(ctx, sdk.Undo{}); err != nil {
		t.Error(err)
	}
	wantContent(t, dir, "hello\n")
	run, err := cell.Run(ctx, sdk.Run{Command: sdk.Shell("echo three > hello.txt")})
	if err != nil {
		t.Fatal(err)
	}
	without, err := sdk.New(sdk.WithURL(url), sdk.WithToken(token), sdk.WithBinary(filepath.Join(dir, "none")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(without.Close)
	if _, err := without.Cells.Named("demo").Accept(ctx, sdk.Accept{Apply: true}); !sdk.HasCode(err, "no_local_binary") {
		t.Errorf("accept without the program: %v", err)
	}
	if _, err := cell.Accept(ctx, sdk.Accept{Apply: true}, sdk.IfMatch(1)); !sdk.HasCode(err, "changed") {
		t.Errorf("accept of another revision: %v", err)
	}
	if info, err := c.Runs.Get(ctx, run.RunID); err != nil || info.Decision != "pending" {
		t.Errorf("%+v, %v", info, err)
	}
	accepted, err := cell.Accept(ctx, sdk.Accept{Apply: true})
	if err != nil || accepted.Applied == nil {
		t.Fatalf("%+v, %v", accepted, err)
	}
	wantContent(t, dir, "three\n")
}

func wantContent(t *testing.T, dir, want string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(dir, "hello.txt")); err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
}

// serveWithToken starts a daemon on loopback, and returns its URL and a token.
func serveWithToken(t *testing.T, home string) (url, token string) {
	t.Helper()
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command("forkcell", args...)
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+home)
		return cmd
	}
	secret, errs, err := finish(t, program("token", "create", "--quiet", "--name", "t", "--scope", "run", "--scope", "decide"))
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	cmd := program("serve", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), strings.TrimSpace(secret)
}
