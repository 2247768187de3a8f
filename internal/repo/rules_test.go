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

// layers lists the packages from top to bottom. A package may import what
// stands below its own line; those on one line are siblings and know nothing of
// each other.
func layers() [][]string {
	return [][]string{
		{"cmd/forkcell", "cmd/forkcell-first", "examples/go/race", "examples/go/session"},
		{"internal/full"},
		{"internal/app", "internal/cli", "internal/server", "internal/review", "internal/mcp", "internal/remote", "internal/otlp", "internal/driver/first"},
		{"internal/race", "internal/session"},
		{"internal/driver/gvisor"},
		{"internal/driver/native", "internal/driver/gvisor/minder"},
		{"internal/driver/gvisor/frames", "internal/driver/native/cellinit", "internal/driver/native/shim"},
		{"internal/driver/native/protocol", "internal/driver/native/spawn"},
		{"internal/driver/native/mountfd"},
		{"internal/driver/drivertest"},
		{"internal/cell"},
		{"internal/history"},
		{"internal/transfer"},
		{"internal/inventory"},
		{"internal/home"},
		{"internal/evidence", "internal/caller"},
		{"internal/gateway", "internal/supervise"},
		{"internal/egress", "internal/auth"},
		{"internal/egress/login"},
		{"internal/egress/names", "internal/egress/dial", "internal/egress/authority", "internal/egress/credential", "internal/egress/inspect"},
		{"internal/workspace", "internal/driver", "internal/store", "internal/archive", "internal/patch", "internal/live", "internal/carry", "internal/files", "internal/forward", "internal/ready", "internal/suggest", "internal/eventquery", "internal/publish", "internal/mask", "internal/token", "internal/warm", "internal/injection", "internal/memory", "client", "receipt"},
		{"internal/preset", "internal/publish/forge", "internal/agent", "internal/outgoing"},
		{"internal/policy"},
		{"internal/apply", "internal/leftout", "internal/grant", "internal/seccomp", "internal/landlock", "internal/cgroup", "internal/event", "internal/capture/origin", "internal/capture/capturetest"},
		{"internal/rights", "internal/hosttool"},
		{"internal/tree"},
		{"internal/fsx", "internal/match", "internal/syscalls", "internal/capture", "internal/sshagent", "internal/terminal/terminaltest"},
		{"internal/answer", "internal/api", "internal/document", "internal/clone", "internal/mount", "internal/quote", "internal/redact", "internal/failpoint", "internal/gitread", "internal/gosum", "internal/gitconfig", "sdk/python", "internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/driver/firstprogram", "internal/mcp/mcptest", "internal/otlp/otlptest", "internal/session/standin", "internal/disktest", "internal/golden", "internal/highlight", "internal/sshkey", "internal/sse", "internal/score", "internal/hint", "internal/terminal", "docs"},
	}
}

// exceptions lists packages that must not import what their layer would allow, also not through
// another package, and why.
func exceptions() []exception {
	return []exception{
		{
			"internal/driver",
			[]string{"internal/mount", "internal/driver/fault", "internal/driver/packages"},
			"the contract is data: it knows no driver",
		},
		{"internal/driver/drivertest", []string{"internal/driver", "internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/mount", "internal/landlock", "internal/seccomp", "internal/syscalls", "internal/terminal", "internal/terminal/terminaltest"}, "the suite knows the contract and what a kernel can refuse, and no driver"},
		{
			"internal/driver/native",
			[]string{
				"internal/driver", "internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/driver/native/cellinit", "internal/driver/native/mountfd",
				"internal/driver/native/protocol", "internal/driver/native/spawn", "internal/clone", "internal/mount", "internal/capture", "internal/capture/origin", "internal/cgroup", "internal/landlock", "internal/seccomp", "internal/syscalls", "internal/terminal",
			},
			"a driver knows processes, the kernel's controls and a mount description: no trees, policies, receipts or databases",
		},
		{
			"internal/driver/gvisor",
			[]string{
				"internal/driver", "internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/driver/gvisor/frames", "internal/driver/gvisor/minder",
				"internal/driver/native", "internal/driver/native/cellinit", "internal/driver/native/mountfd", "internal/driver/native/protocol", "internal/driver/native/spawn",
				"internal/clone", "internal/mount", "internal/capture", "internal/capture/origin", "internal/cgroup", "internal/landlock", "internal/seccomp", "internal/syscalls", "internal/terminal",
			},
			"a guest is in a cell of the native driver: no trees, policies, receipts or databases",
		},
		{
			"internal/driver/gvisor/minder",
			[]string{
				"internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/driver/gvisor/frames", "internal/driver/native/cellinit", "internal/driver/native/mountfd",
				"internal/driver/native/protocol", "internal/driver/native/spawn", "internal/clone", "internal/capture", "internal/landlock", "internal/seccomp", "internal/syscalls", "internal/terminal",
			},
			"it is the first process of a guest: it knows neither the contract nor the side of the host",
		},
		{"internal/driver/gvisor/frames", nil, "both ends link it: it knows bytes"},
		{
			"internal/driver/native/cellinit",
			[]string{
				"internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/driver/native/mountfd", "internal/driver/native/protocol", "internal/driver/native/spawn", "internal/clone",
				"internal/capture", "internal/landlock", "internal/seccomp", "internal/syscalls", "internal/terminal",
			},
			"it is initialised at every start of a cell: it knows neither the contract nor the side of the host",
		},
		{"internal/driver/native/protocol", []string{"internal/driver/control", "internal/driver/fault", "internal/driver/native/mountfd"}, "both ends link it"},
		{"internal/driver/native/spawn", []string{"internal/clone", "internal/driver/native/mountfd"}, "both ends link it"},
		{"internal/driver/native/mountfd", nil, "it knows descriptors"},
		{"sdk/python", nil, "it holds text"},
		{"internal/driver/packages", nil, "names only"},
		{"internal/driver/native/shim", []string{"internal/driver/control", "internal/driver/fault", "internal/driver/packages", "internal/driver/native/mountfd", "internal/driver/native/protocol"}, "it is a command of a cell, and asks its first process"},
		{"internal/driver/control", nil, "names only"},
		{"internal/driver/fault", nil, "one error, for the contract and for the first process"},
		{"internal/policy", []string{"internal/match", "internal/quote"}, "a policy is pure: it asks nothing of the host"},
		{"internal/suggest", []string{"internal/api", "internal/event", "internal/match", "internal/policy", "internal/quote"}, "a suggestion is made of events, command lines and a policy"},
		{"internal/eventquery", []string{"internal/api", "internal/event"}, "it is handed the runs and their journals"},
		{
			"internal/supervise",
			[]string{
				"internal/api", "internal/carry", "internal/driver", "internal/driver/fault", "internal/driver/packages", "internal/event", "internal/failpoint", "internal/files", "internal/forward", "internal/ready", "internal/fsx",
				"internal/live", "internal/mount", "internal/quote", "internal/redact",
			},
			"a supervisor serves a driver's cell; the run that it is records, seals and decides",
		},
		{"internal/publish", []string{"internal/api", "internal/failpoint", "internal/fsx", "internal/gitconfig", "internal/gitread", "internal/hosttool", "internal/leftout", "internal/outgoing", "internal/publish/forge", "internal/quote", "internal/redact"}, "a publication knows git and names of files: no cells, receipts or databases"},
		{"internal/mask", []string{"internal/fsx", "internal/failpoint", "internal/gitconfig", "internal/gitread", "internal/leftout", "internal/quote"}, "masks are made of names and of git settings: no cells, states or mounts"},
		{"internal/publish/forge", []string{"internal/quote"}, "it knows HTTP and the services: no git, no files, no source of tokens"},
		{"internal/mcp", []string{"internal/api", "internal/hint", "internal/sse"}, "a tool is a request of the API: it knows documents, and neither engine nor tokens"},
		{"internal/otlp", []string{"internal/otlp/otlptest"}, "it knows spans and an address: no requests, cells or runs"},
		{"internal/token", []string{"internal/api", "internal/failpoint", "internal/fsx", "internal/match", "internal/policy", "internal/quote"}, "a token is a hash with rights: it knows no HTTP, no cell and no home"},
		{"internal/warm", []string{"internal/api", "internal/quote", "sdk/python"}, "it knows which program makes an interpreter warm: no cells, flags or HTTP"},
		{"internal/hosttool", []string{"internal/fsx", "internal/failpoint"}, "a finder knows directories: no cells, and not what is started"},
		{"internal/grant", []string{"internal/fsx", "internal/quote", "internal/failpoint"}, "a grant is text: it knows no policy and no cell"},
		{
			"internal/auth",
			[]string{
				"internal/agent", "internal/api", "internal/egress/credential", "internal/failpoint", "internal/fsx", "internal/hosttool", "internal/injection", "internal/match", "internal/policy", "internal/quote", "internal/redact",
				"internal/sshagent", "internal/sshkey",
			},
			"it decides about credentials: it knows no cell, no session and no value",
		},
		{"internal/injection", []string{"internal/api", "internal/failpoint", "internal/fsx", "internal/match", "internal/quote"}, "an injection policy is a file of sources: it knows no cell, no session and no value"},
		{"internal/sshagent", []string{"internal/sshkey"}, "an agent knows keys and hosts: no cells, no policies"},
		{"internal/sshkey", nil, "formats of keys"},
		{"internal/highlight", nil, "it knows text: no pages, files or cells"},
		{"internal/match", nil, "matching knows text only"},
		{"internal/event", nil, "a journal knows records, not who writes them"},
		{"internal/cgroup", nil, "control groups are numbers and files"},
		{"internal/landlock", nil, "it is handed descriptors"},
		{"internal/seccomp", []string{"internal/syscalls"}, "a filter knows system calls"},
		{"internal/syscalls", nil, "data only"},
		{"internal/capture", nil, "it is linked into every cell's first process"},
		{"internal/egress/names", []string{"internal/match"}, "it answers for names, and knows no policy"},
		{"internal/egress/dial", []string{"internal/match"}, "it knows addresses, and no policy"},
		{"internal/memory", []string{"internal/fsx", "internal/failpoint"}, "an image is directories and digests"},
		{"internal/files", []string{"internal/api"}, "the end in a cell knows paths and its streams"},
		{"internal/forward", nil, "the end of a port knows its streams and a number"},
		{"internal/ready", nil, "the end of a wait knows what it waits for"},
		{"internal/carry", []string{"internal/fsx", "internal/failpoint", "internal/quote"}, "a copy knows two sides and a stream"},
		{"internal/live", []string{"internal/api", "internal/fsx", "internal/failpoint"}, "the protocol knows no engine: it serves what it is handed"},
		{
			"internal/evidence",
			[]string{
				"internal/store", "internal/workspace", "internal/event", "internal/api", "internal/quote", "internal/failpoint", "receipt",
				"internal/apply", "internal/fsx", "internal/leftout", "internal/gitread", "internal/gitconfig", "internal/mount", "internal/rights", "internal/tree",
			},
			"evidence is statements, rows and manifests: it knows no driver, policy, network or command line",
		},
		{"internal/store", []string{"internal/fsx", "internal/failpoint"}, "the store knows nothing of processes or of what a statement says"},
		{"internal/tree", []string{"internal/fsx", "internal/failpoint"}, "what a tree is does not depend on where it is kept"},
		{"client", []string{"internal/answer", "internal/api", "internal/sse"}, "programs of others import it: it knows the documents of the API and links nothing of the sandbox"},
		{"examples/go/race", []string{"client", "internal/answer", "internal/api", "internal/sse"}, "an example uses what programs of others can use"},
		{"examples/go/session", []string{"client", "internal/answer", "internal/api", "internal/sse"}, "an example uses what programs of others can use"},
		{"receipt", nil, "verifiers import it: it links nothing of the sandbox"},
		{"internal/mount", nil, "workspace and driver share data only"},
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
	return []string{"bench", "scripts/compat", "scripts/lanes", "scripts/runtests", "internal/repo"}
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
	cmd.Dir = filepath.Join("..", "..")
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
			t.Errorf("%s has no place in layers(): decide what may import it", name)
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
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "dependencies.md"))
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
