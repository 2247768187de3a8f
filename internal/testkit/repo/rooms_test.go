package repo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "write what is made of the rooms: rules of the lint, the table of the page")

// room is a directory of internal with the packages of one part of the program. The
// lint's rules, the table in docs/internals/architecture.md and the tests come from here.
type room struct {
	name string
	is   string // what it is for
	not  string // what it must not know
	// lines are its packages from top to bottom; "." is that of the directory itself. A
	// package may import what stands below its own line; those on one line are siblings and
	// know nothing of each other.
	lines [][]string
}

// rooms returns the rooms from top to bottom. A room may import what is below it.
func rooms() []room {
	return []room{
		{"front", "what people and programs talk to", "how cells, states and processes are kept", [][]string{
			{"daemon"}, {"cli", "local", "mcp", "otlp", "remote", "rest", "web"}, {"warm", "web/highlight"},
		}},
		{"session", "sessions of coding agents", "how cells work, flags, printing, HTTP", [][]string{
			{"."}, {"credentials"}, {"adapter", "standin"},
		}},
		{"engine", "the transaction, and who may do what in it", "flags, printing, HTTP", [][]string{
			{"race"}, {"."}, {"applies", "diff", "publication"}, {"history", "merge"}, {"transfer"}, {"inventory"}, {"aside", "held"}, {"home"}, {"caller"}, {"mask", "token"}, {"gosum", "grant", "score"},
		}},
		{"publish", "accepted work as a signed commit on a branch", "cells, receipts, databases", [][]string{{"."}, {"forge"}}},
		{"network", "every connection of a cell", "states of cells, stores, receipts", [][]string{
			{"."}, {"egress"}, {"egress/login"}, {"egress/authority", "egress/credential", "egress/dial", "egress/inspect", "egress/names"}, {"sshagent"}, {"sshkey"},
		}},
		{"policy", "the policy language, and what is derived from it", "cells, drivers, stores", [][]string{
			{"injection", "suggest"}, {"preset"}, {"."}, {"match"},
		}},
		{"sandbox", "processes in a cell: runtimes, controls of the kernel, live cells, helpers in the cell", "trees, policies, receipts, databases", [][]string{
			{"driver/first"},
			{"driver/gvisor"},
			{"driver/gvisor/minder", "driver/native"},
			{"driver/gvisor/frames", "driver/native/cellinit", "driver/native/shim"},
			{"driver/native/protocol", "driver/native/spawn"},
			{"driver/native/mountfd"},
			{"driver/drivertest", "live/supervise"},
			{"driver", "incell/carry", "incell/files", "incell/forward", "incell/ready", "live/wire"},
			{"kernel/capture/capturetest", "kernel/capture/origin", "kernel/cgroup", "kernel/landlock", "kernel/seccomp"},
			{"kernel/capture", "kernel/syscalls", "kernel/terminal/terminaltest"},
			{"driver/control", "driver/fault", "driver/firstprogram", "driver/packages", "kernel/clone", "kernel/terminal"},
		}},
		{"evidence", "signed statements and events, and their verification", "runtimes, policies, the network", [][]string{
			{"statements"}, {"eventquery"}, {"event"},
		}},
		{"storage", "states, the database, and files that others wrote", "processes, what a statement or a policy says", [][]string{
			{"workspace/workspacetest"}, {"archive", "moments", "patch", "store", "workspace"}, {"outgoing"}, {"apply", "secretfiles"}, {"hosttool", "rights"}, {"tree"}, {"fsx"}, {"gitconfig", "gitread", "mount"},
		}},
		{"api", "the vocabulary: requests, results, errors, as plain data", "everything: it does nothing", [][]string{
			{"execwire/execwiretest"}, {"call", "execsocket"}, {"execwire"}, {"op"}, {".", "answer", "hint", "sse"},
		}},
		{"text", "cupboard: how texts and documents are written", "what a text is about", [][]string{{"document", "quote", "redact"}}},
		{"testkit", "cupboard: what tests use", "what is tested", [][]string{{"disktest", "failpoint", "golden", "mcptest", "otlptest"}}},
	}
}

// path returns the path of a package of the room in the module.
func (r room) path(pkg string) string {
	if pkg == "." {
		return "internal/" + r.name
	}
	return "internal/" + r.name + "/" + pkg
}

// layers returns the packages from top to bottom, those beside internal included.
func layers() [][]string {
	lines := [][]string{{"cmd/forkcell", "cmd/forkcell-first", "examples/go/race", "examples/go/session"}}
	for _, r := range rooms() {
		if r.name == "api" {
			lines = append(lines, []string{"client", "receipt"})
		}
		for _, line := range r.lines {
			var paths []string
			for _, pkg := range line {
				paths = append(paths, r.path(pkg))
			}
			lines = append(lines, paths)
		}
	}
	return append(lines, []string{"docs", "sdk/python"})
}

// TestRoomsOfLint compares the rules of depguard with the rooms.
func TestRoomsOfLint(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	var above []string
	for _, r := range rooms() {
		if len(above) > 0 {
			fmt.Fprintf(&b, "        room-%s:\n          files: [\"**/internal/%s/**/*.go\", \"!$test\"]\n          deny:\n", r.name, r.name)
			for _, a := range above {
				fmt.Fprintf(&b, "            - pkg: %s/internal/%s\n              desc: \"%s is above %s, which must not know %s\"\n", module, a, a, r.name, r.not)
			}
		}
		above = append(above, r.name)
	}
	golden.Part(t, *update, "../../../.golangci.yml", "rules of the rooms", b.String())
}

// TestRoomsOfPage compares the page about the architecture with the rooms.
func TestRoomsOfPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| room | what it is for | what it must not know | packages |\n|---|---|---|---|\n")
	for _, r := range rooms() {
		names := slices.Concat(r.lines...)
		for i, n := range names {
			names[i] = "`" + strings.Replace(n, ".", r.name, 1) + "`"
		}
		fmt.Fprintf(&b, "| [`internal/%s`](../../internal/%s/README.md) | %s | %s | %s |\n", r.name, r.name, r.is, r.not, strings.Join(names, ", "))
	}
	golden.Part(t, *update, "../../../docs/internals/architecture.md", "table of rooms", b.String())
}

// TestReadmeOfRooms expects a short page in each room that names its packages, and no
// other directory in internal.
func TestReadmeOfRooms(t *testing.T) {
	t.Parallel()
	var names []string
	for _, r := range rooms() {
		names = append(names, r.name)
		text, err := os.ReadFile(filepath.Join("..", "..", r.name, "README.md"))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(text), "\n"); n > 24 {
			t.Errorf("the README of %s has %d lines; 24 are enough", r.name, n)
		}
		for _, pkg := range slices.Concat(r.lines...) {
			if pkg != "." && !strings.Contains(string(text), "`"+pkg+"`") {
				t.Errorf("the README of %s does not name `%s`", r.name, pkg)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(names, e.Name()) {
			t.Errorf("internal/%s is no room: see rooms()", e.Name())
		}
	}
}
