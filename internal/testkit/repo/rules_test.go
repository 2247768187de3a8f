package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/forkcell/forkcell"

// exceptions lists packages that must not import what their layer would allow, also not through
// another package, and why.
func exceptions() []exception {
	return []exception{
		{
			"internal/sandbox/driver",
			[]string{"internal/storage/mount", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages"},
			"the contract is data: it knows no driver",
		},
		{"internal/sandbox/driver/drivertest", []string{"internal/sandbox/driver", "internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/storage/mount", "internal/sandbox/kernel/landlock", "internal/sandbox/kernel/seccomp", "internal/sandbox/kernel/syscalls", "internal/sandbox/kernel/terminal", "internal/sandbox/kernel/terminal/terminaltest"}, "the suite knows the contract and what a kernel can refuse, and no driver"},
		{
			"internal/sandbox/driver/native",
			[]string{
				"internal/sandbox/driver", "internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/sandbox/driver/native/cellinit", "internal/sandbox/driver/native/mountfd",
				"internal/sandbox/driver/native/protocol", "internal/sandbox/driver/native/spawn", "internal/sandbox/kernel/clone", "internal/storage/mount", "internal/sandbox/kernel/capture", "internal/sandbox/kernel/capture/origin", "internal/sandbox/kernel/cgroup", "internal/sandbox/kernel/landlock", "internal/sandbox/kernel/seccomp", "internal/sandbox/kernel/syscalls", "internal/sandbox/kernel/terminal",
			},
			"a driver knows processes, the kernel's controls and a mount description: no trees, policies, receipts or databases",
		},
		{
			"internal/sandbox/driver/gvisor",
			[]string{
				"internal/sandbox/driver", "internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/sandbox/driver/gvisor/frames", "internal/sandbox/driver/gvisor/minder",
				"internal/sandbox/driver/native", "internal/sandbox/driver/native/cellinit", "internal/sandbox/driver/native/mountfd", "internal/sandbox/driver/native/protocol", "internal/sandbox/driver/native/spawn",
				"internal/sandbox/kernel/clone", "internal/storage/mount", "internal/sandbox/kernel/capture", "internal/sandbox/kernel/capture/origin", "internal/sandbox/kernel/cgroup", "internal/sandbox/kernel/landlock", "internal/sandbox/kernel/seccomp", "internal/sandbox/kernel/syscalls", "internal/sandbox/kernel/terminal",
			},
			"a guest is in a cell of the native driver: no trees, policies, receipts or databases",
		},
		{
			"internal/sandbox/driver/gvisor/minder",
			[]string{
				"internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/sandbox/driver/gvisor/frames", "internal/sandbox/driver/native/cellinit", "internal/sandbox/driver/native/mountfd",
				"internal/sandbox/driver/native/protocol", "internal/sandbox/driver/native/spawn", "internal/sandbox/kernel/clone", "internal/sandbox/kernel/capture", "internal/sandbox/kernel/landlock", "internal/sandbox/kernel/seccomp", "internal/sandbox/kernel/syscalls", "internal/sandbox/kernel/terminal",
			},
			"it is the first process of a guest: it knows neither the contract nor the side of the host",
		},
		{"internal/sandbox/driver/gvisor/frames", nil, "both ends link it: it knows bytes"},
		{
			"internal/sandbox/driver/native/cellinit",
			[]string{
				"internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/sandbox/driver/native/mountfd", "internal/sandbox/driver/native/protocol", "internal/sandbox/driver/native/spawn", "internal/sandbox/kernel/clone",
				"internal/sandbox/kernel/capture", "internal/sandbox/kernel/landlock", "internal/sandbox/kernel/seccomp", "internal/sandbox/kernel/syscalls", "internal/sandbox/kernel/terminal",
			},
			"it is initialised at every start of a cell: it knows neither the contract nor the side of the host",
		},
		{"internal/sandbox/driver/native/protocol", []string{"internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/native/mountfd"}, "both ends link it"},
		{"internal/sandbox/driver/native/spawn", []string{"internal/sandbox/kernel/clone", "internal/sandbox/driver/native/mountfd"}, "both ends link it"},
		{"internal/sandbox/driver/native/mountfd", nil, "it knows descriptors"},
		{"sdk/python", nil, "it holds text"},
		{"internal/sandbox/driver/packages", nil, "names only"},
		{"internal/sandbox/driver/native/shim", []string{"internal/sandbox/driver/control", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/sandbox/driver/native/mountfd", "internal/sandbox/driver/native/protocol"}, "it is a command of a cell, and asks its first process"},
		{"internal/sandbox/driver/control", nil, "names only"},
		{"internal/sandbox/driver/fault", nil, "one error, for the contract and for the first process"},
		{"internal/policy", []string{"internal/policy/match", "internal/text/quote"}, "a policy is pure: it asks nothing of the host"},
		{"internal/policy/suggest", []string{"internal/api", "internal/evidence/event", "internal/policy/match", "internal/policy", "internal/text/quote"}, "a suggestion is made of events, command lines and a policy"},
		{"internal/evidence/eventquery", []string{"internal/api", "internal/evidence/event"}, "it is handed the runs and their journals"},
		{
			"internal/sandbox/live/supervise",
			[]string{
				"internal/api", "internal/api/execwire", "internal/sandbox/incell/carry", "internal/sandbox/driver", "internal/sandbox/driver/fault", "internal/sandbox/driver/packages", "internal/evidence/event", "internal/testkit/failpoint", "internal/sandbox/incell/files", "internal/sandbox/incell/forward", "internal/sandbox/incell/ready", "internal/storage/fsx",
				"internal/sandbox/live/wire", "internal/storage/mount", "internal/text/quote", "internal/text/redact",
			},
			"a supervisor serves a driver's cell; the run that it is records, seals and decides",
		},
		{"internal/publish", []string{"internal/api", "internal/testkit/failpoint", "internal/storage/fsx", "internal/storage/gitconfig", "internal/storage/gitread", "internal/storage/hosttool", "internal/storage/secretfiles", "internal/storage/outgoing", "internal/publish/forge", "internal/text/quote", "internal/text/redact"}, "a publication knows git and names of files: no cells, receipts or databases"},
		{"internal/engine/mask", []string{"internal/storage/fsx", "internal/testkit/failpoint", "internal/storage/gitconfig", "internal/storage/gitread", "internal/storage/secretfiles", "internal/text/quote"}, "masks are made of names and of git settings: no cells, states or mounts"},
		{"internal/publish/forge", []string{"internal/text/quote"}, "it knows HTTP and the services: no git, no files, no source of tokens"},
		{"internal/front/mcp", []string{"internal/api", "internal/api/answer", "internal/api/call", "internal/api/hint", "internal/api/op", "internal/api/sse"}, "a tool is a request of the API: it knows documents, and neither engine nor tokens"},
		{"internal/front/otlp", []string{"internal/testkit/otlptest"}, "it knows spans and an address: no requests, cells or runs"},
		{"internal/engine/token", []string{"internal/api", "internal/api/op", "internal/testkit/failpoint", "internal/storage/fsx", "internal/policy/match", "internal/policy", "internal/text/quote"}, "a token is a hash with rights: it knows no HTTP, no cell and no home"},
		{"internal/front/warm", []string{"internal/api", "internal/text/quote", "sdk/python"}, "it knows which program makes an interpreter warm: no cells, flags or HTTP"},
		{"internal/storage/hosttool", []string{"internal/storage/fsx", "internal/testkit/failpoint"}, "a finder knows directories: no cells, and not what is started"},
		{"internal/engine/grant", []string{"internal/storage/fsx", "internal/text/quote", "internal/testkit/failpoint"}, "a grant is text: it knows no policy and no cell"},
		{
			"internal/session/credentials",
			[]string{
				"internal/session/adapter", "internal/api", "internal/network/egress/credential", "internal/testkit/failpoint", "internal/storage/fsx", "internal/storage/hosttool", "internal/policy/injection", "internal/policy/match", "internal/policy", "internal/text/quote", "internal/text/redact",
				"internal/network/sshagent", "internal/network/sshkey",
			},
			"it decides about credentials: it knows no cell, no session and no value",
		},
		{"internal/policy/injection", []string{"internal/api", "internal/testkit/failpoint", "internal/storage/fsx", "internal/policy/match", "internal/text/quote"}, "an injection policy is a file of sources: it knows no cell, no session and no value"},
		{"internal/network/sshagent", []string{"internal/network/sshkey"}, "an agent knows keys and hosts: no cells, no policies"},
		{"internal/network/sshkey", nil, "formats of keys"},
		{"internal/front/web/highlight", nil, "it knows text: no pages, files or cells"},
		{"internal/api/execwire", []string{"internal/api"}, "a stream is frames: it knows no socket and no command"},
		{"internal/api/op", []string{"internal/api"}, "operations are values: the lean program links them"},
		{"internal/policy/match", nil, "matching knows text only"},
		{"internal/evidence/event", nil, "a journal knows records, not who writes them"},
		{"internal/sandbox/kernel/cgroup", nil, "control groups are numbers and files"},
		{"internal/sandbox/kernel/landlock", nil, "it is handed descriptors"},
		{"internal/sandbox/kernel/seccomp", []string{"internal/sandbox/kernel/syscalls"}, "a filter knows system calls"},
		{"internal/sandbox/kernel/syscalls", nil, "data only"},
		{"internal/sandbox/kernel/capture", nil, "it is linked into every cell's first process"},
		{"internal/network/egress/names", []string{"internal/policy/match"}, "it answers for names, and knows no policy"},
		{"internal/network/egress/dial", []string{"internal/policy/match"}, "it knows addresses, and no policy"},
		{"internal/storage/moments", []string{"internal/storage/fsx", "internal/storage/tree", "internal/testkit/failpoint"}, "an image is directories and digests"},
		{"internal/sandbox/incell/files", []string{"internal/api"}, "the end in a cell knows paths and its streams"},
		{"internal/sandbox/incell/forward", nil, "the end of a port knows its streams and a number"},
		{"internal/sandbox/incell/ready", nil, "the end of a wait knows what it waits for"},
		{"internal/sandbox/incell/carry", []string{"internal/storage/fsx", "internal/testkit/failpoint", "internal/text/quote"}, "a copy knows two sides and a stream"},
		{"internal/sandbox/live/wire", []string{"internal/api", "internal/api/execwire", "internal/storage/fsx", "internal/testkit/failpoint"}, "the protocol knows no engine: it serves what it is handed"},
		{
			"internal/evidence/statements",
			[]string{
				"internal/storage/store", "internal/storage/workspace", "internal/evidence/event", "internal/api", "internal/text/quote", "internal/testkit/failpoint", "receipt",
				"internal/storage/apply", "internal/storage/fsx", "internal/storage/secretfiles", "internal/storage/gitread", "internal/storage/gitconfig", "internal/storage/mount", "internal/storage/rights", "internal/storage/tree",
			},
			"evidence is statements, rows and manifests: it knows no driver, policy, network or command line",
		},
		{"internal/storage/apply", []string{"internal/storage/fsx", "internal/storage/tree", "internal/testkit/failpoint"}, "apply writes to a directory: it knows no cells, layers or receipts"},
		{"internal/storage/secretfiles", []string{"internal/storage/fsx", "internal/storage/gitconfig", "internal/storage/gitread", "internal/testkit/failpoint", "internal/text/quote"}, "names decide what is left out, not cells or stores"},
		{
			"internal/storage/outgoing",
			[]string{"internal/storage/fsx", "internal/storage/gitconfig", "internal/storage/gitread", "internal/storage/secretfiles", "internal/testkit/failpoint", "internal/text/quote"},
			"what may be written to the host is decided by names and contents, not by cells or states",
		},
		{"internal/storage/archive", []string{"internal/storage/fsx", "internal/storage/tree", "internal/testkit/failpoint", "internal/text/quote"}, "it does not know where contents are kept"},
		{
			"internal/storage/patch",
			[]string{"internal/storage/fsx", "internal/storage/gitread", "internal/storage/rights", "internal/storage/tree", "internal/testkit/failpoint", "internal/text/document", "internal/text/quote"},
			"it shows trees, and does not know where contents are kept",
		},
		{
			"internal/storage/workspace",
			[]string{
				"internal/storage/apply", "internal/storage/fsx", "internal/storage/gitconfig", "internal/storage/gitread", "internal/storage/mount", "internal/storage/rights",
				"internal/storage/secretfiles", "internal/storage/tree", "internal/testkit/failpoint", "internal/text/quote",
			},
			"workspace and driver share a mount description only; states know no receipts",
		},
		{"internal/storage/store", []string{"internal/storage/fsx", "internal/testkit/failpoint"}, "the store knows nothing of processes or of what a statement says"},
		{"internal/storage/tree", []string{"internal/storage/fsx", "internal/testkit/failpoint"}, "what a tree is does not depend on where it is kept"},
		{"client", []string{"internal/api/answer", "internal/api", "internal/api/call", "internal/api/execsocket", "internal/api/execwire", "internal/api/op", "internal/api/sse"}, "programs of others import it: it knows the documents of the API and links nothing of the sandbox"},
		{"examples/go/race", []string{"client", "internal/api/answer", "internal/api", "internal/api/call", "internal/api/execsocket", "internal/api/execwire", "internal/api/op", "internal/api/sse"}, "an example uses what programs of others can use"},
		{"examples/go/session", []string{"client", "internal/api/answer", "internal/api", "internal/api/call", "internal/api/execsocket", "internal/api/execwire", "internal/api/op", "internal/api/sse"}, "an example uses what programs of others can use"},
		{"receipt", nil, "verifiers import it: it links nothing of the sandbox"},
		{"internal/storage/mount", nil, "workspace and driver share data only"},
	}
}

type exception struct {
	pkg string
	may []string
	why string
}

// apart are programs beside the product; nothing of it may know them, and they
// know it by its command line only.
func apart() []string {
	return []string{"bench", "scripts/compat", "scripts/lanes", "scripts/runtests", "internal/testkit/repo"}
}

// pkg is what the rules need of go list.
type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Deps         []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// packages are all of the module, with every file that some build tag adds.
func packages(t *testing.T) []pkg {
	t.Helper()
	seen := map[string]bool{}
	var list []pkg
	for _, tags := range []string{"", "failpoints", "probes"} {
		out := goCommand(t, "list", "-tags", tags, "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps", "./...")
		dec := json.NewDecoder(bytes.NewReader(out))
		for {
			var p pkg
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if !seen[p.ImportPath+tags] {
				seen[p.ImportPath+tags] = true
				list = append(list, p)
			}
		}
	}
	if len(list) < 10 {
		t.Fatalf("go list found %d packages", len(list))
	}
	return list
}

func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	rank := map[string]int{}
	for i, line := range layers() {
		for _, name := range line {
			rank[name] = i
		}
	}
	for _, p := range packages(t) {
		name := p.name()
		own, known := rank[name]
		if !known && !slices.Contains(apart(), name) {
			t.Errorf("%s has no place in rooms(): decide what may import it", name)
			continue
		}
		for _, path := range p.Imports {
			imported, inside := strings.CutPrefix(path, module+"/")
			if !inside {
				continue
			}
			other, ranked := rank[imported]
			switch {
			case slices.Contains(apart(), name):
				t.Errorf("%s imports %s: programs beside the product use its command line", name, imported)
			case !ranked:
				t.Errorf("%s imports %s, which is not part of the product", name, imported)
			case other <= own:
				t.Errorf("%s imports %s: imports go down only, and siblings know nothing of each other", name, imported)
			}
		}
	}
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for _, s := range exceptions() {
		for _, p := range all {
			if p.name() != s.pkg {
				continue
			}
			for _, dep := range p.Deps {
				if name, inside := strings.CutPrefix(dep, module+"/"); inside && !slices.Contains(s.may, name) {
					t.Errorf("%s depends on %s: %s", s.pkg, name, s.why)
				}
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		var docs []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				docs = append(docs, f.Doc.Text())
			}
		}
		want := "Package " + filepath.Base(p.Dir) + " "
		if strings.HasPrefix(p.name(), "cmd/") || slices.Contains([]string{"bench", "scripts/compat", "scripts/lanes", "scripts/runtests"}, p.name()) {
			want = "Command " + filepath.Base(p.Dir) + " "
		}
		if len(docs) != 1 || !strings.HasPrefix(docs[0], want) {
			t.Errorf("%s: want one package comment that begins with %q, have %d", p.name(), want, len(docs))
		}
	}
}

func TestUnsafeFiles(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if i.Path.Value == `"unsafe"` && !strings.HasSuffix(name, "_unsafe.go") {
					t.Errorf("%s/%s imports unsafe: only files called *_unsafe.go may", p.name(), name)
				}
			}
		}
	}
}

// TestDependencies holds docs/internals/dependencies.md to go.mod: a heading for each
// direct requirement, and none besides.
func TestDependencies(t *testing.T) {
	t.Parallel()
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range mod.Require {
		if !r.Indirect {
			want = append(want, r.Path)
		}
	}
	for _, r := range mod.Replace {
		t.Errorf("go.mod replaces %s", r.Old.Path)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "internals", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range regexp.MustCompile("(?m)^### `([^`]+)`$").FindAllSubmatch(text, -1) {
		have = append(have, string(m[1]))
	}
	slices.Sort(want)
	slices.Sort(have)
	for _, path := range want {
		if !slices.Contains(have, path) {
			t.Errorf("docs/internals/dependencies.md has no heading for %s, which go.mod requires", path)
		}
	}
	for i, path := range have {
		if !slices.Contains(want, path) {
			t.Errorf("docs/internals/dependencies.md has a heading for %s, which go.mod does not require directly", path)
		}
		if i > 0 && have[i-1] == path {
			t.Errorf("docs/internals/dependencies.md has two headings for %s", path)
		}
	}
}
