package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestStoredBytesHaveOwners: whatever a home keeps stands in the description of homes, with
// an owner for whom it counts and a bound. A new kind of stored bytes needs both.
func TestStoredBytesHaveOwners(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/formats/store.md")
	if err != nil {
		t.Fatal(err)
	}
	owned := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.-]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		owned[row[1]] = strings.TrimSpace(row[2]) != "" && strings.TrimSpace(row[3]) != ""
	}
	tree, _, _ := strings.Cut(string(page[strings.Index(string(page), "HOME/"):]), "```")
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^  ([a-z.-]+)`).FindAllStringSubmatch(tree, -1) {
		names = append(names, line[1])
	}
	if len(names) < 15 || !slices.Contains(names, "layers") {
		t.Fatalf("the description of a home was not read: %q", names)
	}
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo out; echo on > hello.txt", acceptOnSuccess)
		w.sh("demo", "echo more > hello.txt")
		_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "other"})
		w.ok(err)
		_, err = w.e.Upload(w.ctx, strings.NewReader("an archive"))
		w.ok(err)
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		w.knownBelow(tree)
		entries, err := os.ReadDir(w.home)
		w.ok(err)
		found := slices.Clone(names)
		for _, e := range entries {
			found = append(found, strings.TrimSuffix(strings.TrimSuffix(e.Name(), "-wal"), "-shm"))
		}
		for _, name := range found {
			if !owned[name] {
				w.Errorf("%s has no owner and bound in docs/formats/store.md", name)
			}
		}
	})
}

// knownBelow compares what is in the directories of a home with their description: "<"
// and ">" stand for any part of a name.
func (w *world) knownBelow(described string) {
	w.Helper()
	known := map[string][]*regexp.Regexp{}
	for _, line := range regexp.MustCompile(`(?m)^  ([a-z.-]+)/(\S*)`).FindAllStringSubmatch(described, -1) {
		below, _, _ := strings.Cut(line[2], "/")
		pattern := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(regexp.QuoteMeta(below), "[^/]+")
		known[line[1]] = append(known[line[1]], regexp.MustCompile("^"+pattern+"$"))
	}
	if len(known) < 10 {
		w.Fatalf("the directories of a home were not read: %v", known)
	}
	listed := map[string]*regexp.Regexp{
		"keys":  regexp.MustCompile(`^(signing|next|retired-.+|public-.+)\.pem$|^trusted$`),
		"locks": regexp.MustCompile(`^(home|home-turn|create|key|tokens|cell-.+)$`),
		"blobs": regexp.MustCompile(`^sha256$`), "objects": regexp.MustCompile(`^[0-9a-f]{2}$`),
	}
	for dir, patterns := range known {
		if only := listed[dir]; only != nil {
			patterns = []*regexp.Regexp{only}
		}
		entries, err := os.ReadDir(w.home + "/" + dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		w.ok(err)
		for _, e := range entries {
			if !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(e.Name()) }) {
				w.Errorf("%s/%s is not in docs/formats/store.md", dir, e.Name())
			}
		}
	}
}

// TestStatementsCount: what a caller has the home sign is never freed, so it counts in the
// quota of disk space, and the reason of a decision has a bound.
func TestStatementsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	own := func() int64 {
		n, err := w.e.OwnBytes(w.ctx)
		w.ok(err)
		return n
	}
	const statements, block = 5, 4096
	before := own()
	for i := range statements {
		_, err := w.e.Checkpoint(w.ctx, "demo", fmt.Sprintf("c%d", i))
		w.ok(err)
	}
	if more := own() - before; more < statements*block {
		t.Errorf("%d checkpoints count %d bytes", statements, more)
	}
	before = own()
	w.sh("demo", "echo x > x")
	if more := own() - before; more < 2*block {
		t.Errorf("a run counts %d bytes", more)
	}
	long := "environment:\n  set:\n"
	for i := range 25 {
		long += fmt.Sprintf("    A%02d: '%s'\n", i, strings.Repeat("x", 4000))
	}
	before = own()
	w.sh("demo", "true", func(r *api.RunRequest) { r.Policy = policyText(long) })
	if more := own() - before; more < int64(len(long)) {
		t.Errorf("a run with a policy of its own counts %d bytes", more)
	}
	before = own()
	w.sh("demo", "true", func(r *api.RunRequest) { r.Policy = policyText(long) })
	if more := own() - before; more > int64(len(long)) {
		t.Errorf("a run with a policy that is stored counts %d bytes", more)
	}
	before = own()
	_, err := w.e.ApplyPolicy(w.ctx, "demo", *policyText(long + "limits: { open_files: 500 }\n"), nil)
	w.ok(err)
	var patterns []string
	for i := range 1000 {
		patterns = append(patterns, fmt.Sprintf("%050d", i))
	}
	_, err = w.e.Init(w.ctx, api.InitRequest{Name: "excludes", Empty: true, Exclude: patterns})
	w.ok(err)
	if more := own() - before; more < int64(len(long))+50_000 {
		t.Errorf("the policy of a cell and its patterns count %d bytes", more)
	}
	_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "other"})
	w.ok(err)
	if more := own() - before; more > 2*int64(len(long)) {
		t.Errorf("a fork counts the policy of its cell again: %d bytes", more)
	}
	_, err = w.e.Reject(w.ctx, "demo", "", strings.Repeat("x", 5000))
	w.refused(err, api.Usage, "a reason has at most 4096 bytes")
	before = own()
	_, err = w.e.Reject(w.ctx, "demo", "", "not now")
	w.ok(err)
	if more := own() - before; more < block {
		t.Errorf("a decision counts %d bytes", more)
	}
}
