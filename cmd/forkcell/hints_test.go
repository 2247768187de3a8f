package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Every hint in an error is a command that works in the state in which it is
// printed. So after each command of a script that is expected to fail, the hints
// that it printed are followed: in the script's own directory, which is put back
// afterwards as it was.

var (
	hintCommand  = regexp.MustCompile("`(forkcell [^`]+)`")
	otherCommand = regexp.MustCompile("`[^`]+`")
	hintFlag     = regexp.MustCompile(`(?:^|[ (])(--[a-z][a-z-]+)`)
)

// followHints checks the hints of a command that has just failed.
func followHints(ts *testscript.TestScript, args []string) {
	text := ts.ReadFile("stderr")
	for line := range strings.Lines(text) {
		hint, ok := hintOf(line)
		if !ok {
			continue
		}
		flagsExist(ts, args, otherCommand.ReplaceAllString(hint, ""))
		for _, m := range hintCommand.FindAllStringSubmatch(hint, -1) {
			followHint(ts, m[1])
		}
	}
}

// hintOf returns the part of an error that says what to do.
func hintOf(line string) (string, bool) {
	var doc struct {
		Error struct{ Hint string }
	}
	if json.Unmarshal([]byte(line), &doc) == nil {
		return doc.Error.Hint, doc.Error.Hint != ""
	}
	if !strings.HasPrefix(line, "forkcell: ") {
		return "", false
	}
	_, hint, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "; ")
	return hint, ok
}

// flagsExist checks that each flag that a hint offers is one of the command that
// failed.
func flagsExist(ts *testscript.TestScript, args []string, hint string) {
	flags := hintFlag.FindAllStringSubmatch(hint, -1)
	if len(flags) == 0 || strings.HasPrefix(hint, "usage:") || strings.HasPrefix(hint, "write:") {
		return
	}
	out, err := program(ts, append(commandPath(args), "--help")).CombinedOutput()
	if err != nil { // there is no such command
		out, err = program(ts, []string{"--help"}).CombinedOutput()
	}
	ts.Check(err)
	for _, f := range flags {
		if !regexp.MustCompile(`(?m)\s` + f[1] + `\b`).Match(out) {
			ts.Fatalf("the hint offers %s, which %v does not have: %s", f[1], commandPath(args), hint)
		}
	}
}

// commandPath returns the words of a command line that name the command.
func commandPath(args []string) []string {
	groups := []string{"policy", "receipt", "key", "events", "decisions", "overlay", "native", "volume", "cache", "completion", "warm", "auth", "session"}
	var path []string
	for i, a := range args {
		if strings.HasPrefix(a, "-") || i > 0 && args[i-1] == "--home" {
			continue
		}
		path = append(path, a)
		if !slices.Contains(groups, a) {
			break
		}
	}
	return path
}

// followHint runs a hint's command and wants it to succeed.
func followHint(ts *testscript.TestScript, hint string) {
	args, ok := filledIn(ts, hint)
	if !ok {
		return
	}
	if !readsOnly(args) {
		if isLive(ts) {
			return // what runs beside the script would be disturbed
		}
		defer putBack(ts)()
	}
	cmd := program(ts, args)
	if slices.Contains(args, ".") { // the script's own directory has the state in it
		cmd.Dir = filepath.Join(ts.Getenv("WORK"), "somewhere")
		ts.Check(os.MkdirAll(cmd.Dir, 0o755))
	}
	out, err := cmd.CombinedOutput()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	// A verification reports problems by failing; that is its purpose.
	if code != 0 && (code != 4 || !slices.Contains(args, "verify")) {
		ts.Fatalf("the hint `%s` does not work here: exit code %d\n%s", hint, code, out)
	}
}

// filledIn returns the words of a hint with its placeholders replaced. It reports
// false for a hint that a person has to complete.
func filledIn(ts *testscript.TestScript, hint string) ([]string, bool) {
	words := strings.Fields(strings.TrimPrefix(hint, "forkcell "))
	var args []string
	for _, w := range words {
		w = strings.Trim(w, "'")
		switch w {
		case "CMD":
			w = "true"
		case "ARG...":
			continue
		case "NAME":
			w = "a-new-name"
		case "CELL", "FILE", "DIR", "PATTERN":
			return nil, false
		}
		args = append(args, w)
	}
	return args, true
}

// readsOnly reports whether a command changes nothing, so that it can be followed
// in place.
func readsOnly(args []string) bool {
	readers := []string{"ls", "log", "logs", "status", "diff", "doctor", "ps", "df", "graph", "decisions", "events", "verify", "help"}
	return slices.Contains(readers, args[0]) || args[0] == "receipt" && args[1] != "export" ||
		args[0] == "policy" && args[1] != "apply"
}

// isLive reports whether a cell of the script's home is live.
func isLive(ts *testscript.TestScript) bool {
	sockets, _ := os.ReadDir(filepath.Join(ts.Getenv("FORKCELL_HOME"), "sockets"))
	return len(sockets) > 0
}

// putBack keeps a copy of the script's directory; what it returns puts it back.
func putBack(ts *testscript.TestScript) func() {
	work := ts.Getenv("WORK")
	kept, err := os.MkdirTemp(filepath.Dir(work), "kept-")
	ts.Check(err)
	copyTree := func(from, to string) {
		if out, err := exec.Command("cp", "-a", "--", from+"/.", to).CombinedOutput(); err != nil {
			ts.Fatalf("copy %s: %v\n%s", from, err, out)
		}
	}
	copyTree(work, kept)
	return func() {
		stopLive(ts.Getenv("FORKCELL_HOME"))
		if isLive(ts) {
			ts.Fatalf("a cell is live that was not listed as live")
		}
		entries, err := os.ReadDir(work)
		ts.Check(err)
		for _, e := range entries {
			removeTree(ts, filepath.Join(work, e.Name()))
		}
		copyTree(kept, work)
		removeTree(ts, kept)
	}
}

// removeTree removes also what an overlay has left, which is closed to its owner. A
// supervisor that has just answered may still write its last file.
func removeTree(ts *testscript.TestScript, path string) {
	var err error
	for range 20 {
		openAll(path)
		if err = os.RemoveAll(path); err == nil {
			return
		}
	}
	ts.Fatalf("remove %s: %v", path, err)
}

// program returns a command of the program under test, as a script would run it.
func program(ts *testscript.TestScript, args []string) *exec.Cmd {
	path := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "forkcell")); err == nil {
			path = filepath.Join(dir, "forkcell")
			break
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdin = ts.MkAbs("."), bytes.NewReader(nil)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "FORKCELL_HOME", "GIT_CONFIG_NOSYSTEM", "WORK", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TERM"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s", name, value))
		}
	}
	return cmd
}
