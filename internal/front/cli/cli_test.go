package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// lines that every command accepts, with the mode in which it opens the home.
func everyCommand() map[string]Mode {
	return map[string]Mode{
		"init a --from d": Create, "refresh a": Write, "checkpoint a": Write, "restore a": Write, "fork a --name b": Write,
		"accept a": Write, "reject a": Write, "apply a": Write, "apply a --undo": Write, "apply a --dry-run": Read,
		"diff a": Read, "export a -o f.tar": Read, "ls": Read, "status a": Read, "log a": Read, "logs a": Read, "graph": Read,
		"rename a b": Write, "set a --ttl 1h": Write, "rm a": Write, "verify a": Read, "gc": Write, "gc --dry-run": Read, "usage": Read, "expire": Write, "expire --dry-run": Read,
		"receipt show r": Read, "receipt list": Read, "receipt verify r": Read, "receipt export r -o f": Read,
		"decisions list": Read, "decisions show d": Read, "key show": Read, "key init": Create, "key rotate": Write,
		"start a": Write, "stop a": Write, "pause a": Write, "resume a": Write, "exec a -- true": Visit, "shell a": Visit, "ps a": Read, "cp a:f .": Write, "logs -f a": Read,
		"key trust f": Create, "recover": Rescue, "doctor": Read, "run a -- true": Run, "run a --dry-run -- true": Read,
	}
}

func TestEveryCommandOpensTheHomeInItsMode(t *testing.T) {
	t.Parallel()
	for line, mode := range everyCommand() {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := &fakeEngine{mode: -1, diff: &engine.DiffResult{}, verify: &api.VerifyResult{}, run: &api.RunResult{Outcome: "succeeded"}}
			code, _, stderr := call(t, f, append([]string{"--home", "/h"}, strings.Fields(line)...)...)
			if code != 0 || f.mode != mode || f.home != "/h" || f.opened != 1 {
				t.Errorf("exit %d, mode %d (want %d), home %q, opened %d times; %s", code, f.mode, mode, f.home, f.opened, stderr)
			}
		})
	}
}

func TestEveryCommandPrintsOneDocument(t *testing.T) {
	t.Parallel()
	for line := range everyCommand() {
		if line == "decisions list" { // one object per line
			continue
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := &fakeEngine{diff: &engine.DiffResult{}, verify: &api.VerifyResult{}, run: &api.RunResult{Outcome: "succeeded"}}
			code, stdout, stderr := call(t, f, append([]string{"--json"}, strings.Fields(line)...)...)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			dec := json.NewDecoder(strings.NewReader(stdout))
			var doc map[string]any
			if err := dec.Decode(&doc); err != nil {
				t.Fatalf("%v in %q", err, stdout)
			}
			if _, err := dec.Token(); err != io.EOF {
				t.Errorf("more than one document: %q", stdout)
			}
			for k, v := range doc {
				if v == nil {
					t.Errorf("%s is null in %s", k, stdout)
				}
			}
		})
	}
}

func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"ls": `{"cells":[]}`, "log a": `{"log":[]}`, "graph": `{"nodes":[]}`, "graph --format json": `{"nodes":[]}`,
		"receipt list": `{"receipts":[]}`, "doctor": `{"controls":[]}`, "decisions list --cell none": "",
	} {
		f := &fakeEngine{}
		_, stdout, _ := call(t, f, append(strings.Fields(line), "--json")...)
		if strings.HasPrefix(line, "decisions") {
			if strings.Count(stdout, "\n") != 2 || !strings.HasPrefix(stdout, `{"decision_id":"dec_1"`) {
				t.Errorf("%s: %q", line, stdout)
			}
			continue
		}
		if stdout != want+"\n" {
			t.Errorf("%s: %q, want %q", line, stdout, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		err       error
		code, run int
	}{
		{&api.Error{Kind: api.Failed, Message: "m"}, 1, 125},
		{&api.Error{Kind: api.Usage, Message: "m"}, 2, 2},
		{&api.Error{Kind: api.NotFound, Message: "m"}, 3, 3},
		{&api.Error{Kind: api.Refused, Message: "m"}, 4, 4},
		{&api.Error{Kind: api.Busy, Message: "m"}, 4, 4},
		{errPlain, 1, 125},
		{fmt.Errorf("wrapped: %w", &api.Error{Kind: api.NotFound, Message: "m"}), 3, 3},
	}
	for _, k := range kinds {
		if code, _, _ := call(t, &fakeEngine{err: k.err}, "status", "a"); code != k.code {
			t.Errorf("status with %v: exit %d, want %d", k.err, code, k.code)
		}
		if code, _, _ := call(t, &fakeEngine{err: k.err}, "run", "a", "--", "true"); code != k.run {
			t.Errorf("run with %v: exit %d, want %d", k.err, code, k.run)
		}
	}
	if code, _, _ := call(t, &fakeEngine{openErr: errPlain}, "run", "a", "--", "true"); code != 125 {
		t.Errorf("run without a home: exit %d, want 125", code)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                     "forkcell: no command given; forkcell --help lists the commands",
		"nonsense":                             `forkcell: unknown command "nonsense" for "forkcell"; forkcell --help lists the commands`,
		"statu x":                              `forkcell: unknown command "statu" for "forkcell"; did you mean start or status?`,
		"undo":                                 `forkcell: unknown command "undo" for "forkcell"; did you mean restore or apply --undo?`,
		"remove x":                             `forkcell: unknown command "remove" for "forkcell"; did you mean rm?`,
		"status a b":                           "forkcell: status: unexpected argument b; usage: forkcell status [CELL]",
		"status a --bogus":                     "forkcell: status: unknown flag: --bogus; see forkcell status --help",
		"init a":                               "forkcell: init: missing --from; usage: forkcell init NAME --from DIR|FILE.tar[.zst]",
		"init a --from d --backend zfs":        "forkcell: init: bad value zfs for --backend; one of: overlay, clone, delta",
		"fork a":                               "forkcell: fork: missing --name; usage: forkcell fork [CELL] --name NEW",
		"fork a --name b -n 0":                 "forkcell: fork: -n must be at least 1",
		"fork a --name b -n x":                 `forkcell: fork: invalid argument "x" for "-n, --number" flag: strconv.ParseInt: parsing "x": invalid syntax; see forkcell fork --help`,
		"restore a c --run r":                  "forkcell: restore: CHECKPOINT and --run exclude each other; give one of them",
		"apply a --undo --only x":              "forkcell: apply: --undo and --only exclude each other; give one of them",
		"apply a --on-conflict maybe":          "forkcell: apply: bad value maybe for --on-conflict; one of: fail, ours, theirs",
		"diff a --stat --patch":                "forkcell: diff: --stat and --patch exclude each other; give one of them",
		"export a":                             "forkcell: export: missing -o; usage: forkcell export [CELL] [CHECKPOINT] -o FILE.tar[.zst]|DIR",
		"graph --format svg":                   "forkcell: graph: bad value svg for --format; one of: text, json, dot",
		"gc --older-than soon":                 `forkcell: gc: invalid argument "soon" for "--older-than" flag: want a duration such as "90s", "10m", "2h" or "7d"; see forkcell gc --help`,
		"gc --keep-last -1":                    "forkcell: gc: --keep-last must not be negative",
		"receipt":                              "forkcell: receipt: missing subcommand; one of: export, list, show, verify",
		"receipt sho":                          "forkcell: receipt: unknown subcommand sho; did you mean show?",
		"receipt show r --cell a":              "forkcell: receipt show: name one receipt, or a cell; forkcell receipt show RECEIPT, or --cell CELL --latest",
		"receipt verify":                       "forkcell: receipt verify: name one thing to verify; usage: forkcell receipt verify RECEIPT | --cell CELL | --all | --bundle FILE",
		"receipt verify r --all":               "forkcell: receipt verify: name one thing to verify; usage: forkcell receipt verify RECEIPT | --cell CELL | --all | --bundle FILE",
		"help nonsense":                        `forkcell: unknown command "nonsense" for "forkcell"; forkcell --help lists the commands`,
		"completion tcsh":                      "forkcell: completion: unknown shell tcsh; one of: bash, zsh, fish, powershell",
		"run":                                  "forkcell: run: missing command after --; usage: forkcell run [flags] [CELL] [flags] -- COMMAND [ARG]...",
		"run demo":                             "forkcell: run: missing -- before the command; write: forkcell run demo -- COMMAND",
		"run demo make test":                   "forkcell: run: missing -- before the command; write: forkcell run demo -- make test",
		"run --timeout 5s demo sh -lc ls":      "forkcell: run: unknown shorthand flag: 'l' in -lc; write: forkcell run --timeout 5s demo -- sh -lc ls",
		"run demo --":                          "forkcell: run: missing command after --; usage: forkcell run [flags] [CELL] [flags] -- COMMAND [ARG]...",
		"run HEAD~1 x -- true":                 "forkcell: run: unexpected argument x before --; usage: forkcell run [flags] [CELL] [flags] -- COMMAND [ARG]...",
		"verify HEAD~1":                        "forkcell: verify: the first argument names a cell, 'HEAD~1' names a state; write --checkpoint 'HEAD~1'",
		"run demo x -- true":                   "forkcell: run: unexpected argument x before --; usage: forkcell run [flags] [CELL] [flags] -- COMMAND [ARG]...",
		"run --wait 5s demo -- true":           "forkcell: run: unexpected argument demo before --; a time for --wait is written --wait=30s",
		"run --env PATH demo -- true":          `forkcell: run: --env PATH: no value; nothing is inherited: write --env PATH="$PATH"`,
		"run --env =v demo -- true":            "forkcell: run: --env =v: no name; write --env NAME=VALUE",
		"run --timeout 30 demo -- true":        `forkcell: run: invalid argument "30" for "--timeout" flag: want a duration such as "90s", "10m", "2h" or "7d"; see forkcell run --help`,
		"run --backend zfs demo -- true":       "forkcell: run: bad value zfs for --backend; one of: native-overlay, layer-clone, volume-delta, local-overlay, overlay, clone, delta",
		"run --env-file /no/such a -- true":    "forkcell: run: --env-file /no/such: no such file or directory",
		"overlay frobnicate":                   "forkcell: overlay: unknown subcommand frobnicate; one of: accept, checkpoint, delete, doctor, fork, gc, init, restore, run, status, verify",
		"overlay run demo true":                "forkcell: run: missing -- before the command; write: forkcell run demo -- true",
		"--home":                               "forkcell: flag needs an argument: --home; see forkcell --help",
		"decisions list --cell":                "forkcell: decisions list: flag needs an argument: --cell; see forkcell decisions list --help",
		"setup --user no-such-user-anywhere-x": "forkcell: setup: no such user: no-such-user-anywhere-x",
	} {
		f := &fakeEngine{}
		code, stdout, stderr := call(t, f, strings.Fields(line)...)
		last := strings.TrimSuffix(stderr, "\n")
		last = last[strings.LastIndexByte(last, '\n')+1:]
		if code != 2 || last != want || stdout != "" || f.opened != 0 {
			t.Errorf("%q: exit %d, opened %d times, stdout %q\n got %s\nwant %s", line, code, f.opened, stdout, last, want)
		}
	}
}

// TestCellOfDirectory checks which verbs may leave out the name of the cell.
func TestCellOfDirectory(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"run -- x", "diff", "accept", "reject", "restore", "apply", "refresh", "status", "log", "logs", "checkpoint",
		"fork --name n", "start", "exec -- x", "shell", "stop", "pause", "resume", "ps", "export -o x", "verify", "overlay status",
	} {
		f := &fakeEngine{here: "near", below: "sub", run: ended(), backend: "overlay", exec: &api.ExecResult{}, diff: &engine.DiffResult{}}
		if code, _, stderr := call(t, f, strings.Fields(line)...); code != 0 || !strings.Contains(fmt.Sprintf("%+v", f.got), "near") {
			t.Errorf("%s: exit %d, asked %+v, %s", line, code, f.got, stderr)
		}
	}
	for _, line := range []string{"rm", "rename", "policy show"} {
		if code, _, _ := call(t, &fakeEngine{here: "near"}, strings.Fields(line)...); code != 2 {
			t.Errorf("%s: exit %d", line, code)
		}
	}
	for _, line := range []string{"apply -- --to=/x", "apply --undo -- --to=/x", "refresh -- --to=/x", "fork --name n -- --to=/x"} {
		f := &fakeEngine{here: "near"}
		if code, _, stderr := call(t, f, strings.Fields(line)...); code != 0 || strings.Contains(fmt.Sprintf("%+v", f.got), "near") || !strings.Contains(fmt.Sprintf("%+v", f.got), "--to=/x") {
			t.Errorf("%s: exit %d, asked %+v, %s", line, code, f.got, stderr)
		}
	}
	f := &fakeEngine{here: "near", below: "sub", run: ended()}
	call(t, f, "run", "--", "x")
	if got := f.got.(api.RunRequest).Workdir; got != "sub" {
		t.Errorf("the run starts in %q", got)
	}
	call(t, f, "run", "--workdir", "/x", "--", "x")
	if got := f.got.(api.RunRequest).Workdir; got != "/x" {
		t.Errorf("the run starts in %q", got)
	}
}

func TestHelpTouchesNothing(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{openErr: errPlain}
	for line := range everyCommand() {
		words := strings.Fields(line)
		if i := strings.Index(line, " -- "); i >= 0 {
			words = strings.Fields(line[:i])
		}
		code, stdout, stderr := call(t, f, append(words, "--help")...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "Usage:\n  forkcell") {
			t.Errorf("%s --help: exit %d, %q %q", line, code, stdout, stderr)
		}
	}
	if f.opened != 0 {
		t.Error("help opened the home")
	}
	if code, stdout, _ := call(t, f, "help", "receipt", "show"); code != 0 || !strings.Contains(stdout, "forkcell receipt show") {
		t.Errorf("help receipt show: exit %d, %q", code, stdout)
	}
}

func TestGlobalFlagsStandAnywhere(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"--home /h --json status a", "status --home /h a --json", "status a --json --home=/h", "--json status --home /h a",
	} {
		f := &fakeEngine{}
		code, stdout, _ := call(t, f, strings.Fields(line)...)
		if code != 0 || f.home != "/h" || !strings.HasPrefix(stdout, "{") {
			t.Errorf("%s: exit %d, home %q, %q", line, code, f.home, stdout)
		}
	}
	// After the dashes they are the command's.
	f := &fakeEngine{run: &api.RunResult{Outcome: "succeeded"}}
	call(t, f, "run", "a", "--", "prog", "--json", "--home", "/x", "--", "")
	want := api.Texts{"prog", "--json", "--home", "/x", "--", ""}
	if diff := cmp.Diff(want, f.got.(api.RunRequest).Args); diff != "" || f.home != "" {
		t.Error(diff, f.home)
	}
}

func TestErrorShape(t *testing.T) {
	t.Parallel()
	hostile := &api.Error{
		Kind: api.Refused, Code: api.CodeConflict, Message: "apply: \x1b[2Jboom\nforkcell: fine", Hint: "look\u202e!",
		Details: []string{"a\rb", "plain.txt"},
	}
	_, stdout, stderr := call(t, &fakeEngine{err: hostile}, "apply", "a")
	if stdout != "" || strings.ContainsAny(stderr, "\x1b\r\u202e") || strings.Count(stderr, "\n") != 3 {
		t.Errorf("text: %q", stderr)
	}
	if !strings.HasPrefix(stderr, "forkcell: apply: ") || !strings.Contains(stderr, "\n  plain.txt\n") {
		t.Errorf("text: %q", stderr)
	}
	_, _, stderr = call(t, &fakeEngine{err: hostile}, "apply", "a", "--json")
	if strings.Contains(stderr, "\u202e") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("json: %q", stderr)
	}
	var doc struct{ Error errorBody }
	if err := json.Unmarshal([]byte(stderr), &doc); err != nil {
		t.Fatal(err)
	}
	want := errorBody{Kind: api.Refused, Code: api.CodeConflict, Message: hostile.Message, Hint: hostile.Hint, Details: hostile.Details}
	if diff := cmp.Diff(want, doc.Error); diff != "" {
		t.Error(diff)
	}
	// Also when the command line itself could not be parsed.
	_, _, stderr = call(t, &fakeEngine{}, "status", "a", "--bogus", "--json")
	if err := json.Unmarshal([]byte(stderr), &doc); err != nil || doc.Error.Code != api.CodeUsage || doc.Error.Details == nil {
		t.Errorf("%v %q", err, stderr)
	}
}

func TestNamesCannotDraw(t *testing.T) {
	t.Parallel()
	evil := "x\x1b]0;t\a\u202e\n"
	f := &fakeEngine{info: api.CellInfo{Name: "a", Source: "/s/" + evil, CreatedAt: time.Now()}}
	f.diff = &engine.DiffResult{
		Raw: []tree.Change{
			{Path: evil, Kind: tree.Added, New: &tree.Entry{Kind: tree.KindDir}},
			{Path: "\xff", Kind: tree.Deleted, Old: &tree.Entry{Kind: tree.KindDir}},
		},
	}
	f.verify = &api.VerifyResult{Differences: []api.VerifyProblem{{Path: evil, What: evil}}}
	for _, line := range []string{"ls", "ls --json", "diff a --name-status", "diff a --json", "verify a"} {
		_, stdout, _ := call(t, f, strings.Fields(line)...)
		if strings.ContainsAny(stdout, "\x1b\a\u202e") {
			t.Errorf("%s: %q", line, stdout)
		}
	}
	_, stdout, _ := call(t, f, "diff", "a", "--name-status")
	if strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, `\xff`) {
		t.Errorf("name-status: %q", stdout)
	}
}

func TestResultAndErrorTogether(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{
		err:    &api.Error{Kind: api.Refused, Code: "verify", Message: "verify a: 1 difference", Details: []string{"detail"}},
		verify: &api.VerifyResult{Differences: []api.VerifyProblem{{CheckpointID: "chk_1", Path: "f", What: "content"}, {CheckpointID: "chk_1", What: "memory"}}},
	}
	code, stdout, stderr := call(t, f, "verify", "a")
	if code != 4 || stdout != "  chk_1  f: content\n  chk_1  memory\n" || stderr != "forkcell: verify a: 1 difference\n" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, stderr = call(t, f, "verify", "a", "--json")
	if code != 4 || !strings.Contains(stdout, `"what":"content"`) || !strings.Contains(stderr, `"details":["detail"]`) {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBrokenPipeEndsQuietly(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	f := &fakeEngine{}
	code := Main(t.Context(), []string{"doctor", "--json"}, Streams{Out: brokenWriter{unix.EPIPE}, Err: &errs}, f.open, Programs{}, "v")
	if code != 0 || errs.Len() != 0 {
		t.Errorf("exit %d, %q", code, errs.String())
	}
	code = Main(t.Context(), []string{"doctor"}, Streams{Out: brokenWriter{unix.ENOSPC}, Err: &errs}, f.open, Programs{}, "v")
	if code != 1 || errs.String() != "forkcell: write the output: no space left on device\n" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"version", "--version"} {
		code, stdout, _ := call(t, &fakeEngine{openErr: errPlain}, line)
		if code != 0 || !strings.HasPrefix(stdout, "forkcell v0-test") {
			t.Errorf("%s: exit %d, %q", line, code, stdout)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{names: []string{"demo", "other"}}
	for _, line := range []string{"__complete status d", "__complete --home /h run d", "__complete receipt list --cell d"} {
		code, stdout, _ := call(t, f, strings.Fields(line)...)
		if code != 0 || !strings.HasPrefix(stdout, "demo\n") || strings.Contains(stdout, "other") {
			t.Errorf("%s: exit %d, %q", line, code, stdout)
		}
	}
	for line, want := range map[string]string{"run --policy cl": "claude-code", "init --policy d": "dev", "policy show of": "offline"} {
		code, stdout, _ := call(t, f, strings.Fields("__complete "+line)...)
		if got, _, _ := strings.Cut(stdout, "\n"); code != 0 || got != want {
			t.Errorf("%s: exit %d, %q", line, code, stdout)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, _ := call(t, &fakeEngine{openErr: errPlain}, "completion", shell)
		if code != 0 || !strings.Contains(stdout, "forkcell") {
			t.Errorf("%s: exit %d", shell, code)
		}
	}
	if code, _, _ := call(t, &fakeEngine{openErr: errPlain}, "__complete", "status", ""); code != 0 {
		t.Errorf("completion without a home: exit %d", code)
	}
}

func TestOnlyTheCommandThatIsMeantIsBuilt(t *testing.T) {
	t.Parallel()
	all := entries()
	for line, want := range map[string]string{
		"run demo -- ls": "run", "--home ls status a": "status", "--json --home=x log a": "log", "ls": "ls",
		"": "", "--help": "", "help run": "", "runn": "", "__complete run": "", "completion bash": "", "-- run": "",
	} {
		got := neededCommands(all, strings.Fields(line))
		if (want == "" && len(got) != len(all)) || (want != "" && (len(got) != 1 || got[0].name != want)) {
			t.Errorf("%q: %d commands", line, len(got))
		}
	}
	for _, e := range all {
		if c := e.make(newSession(nil, Streams{}, "v")); c.Name() != e.name {
			t.Errorf("%s is called %s", e.name, c.Name())
		}
	}
}

func TestInterruptedCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	f := &fakeEngine{err: fmt.Errorf("import: %w", context.Canceled)}
	code := Main(ctx, []string{"init", "a", "--from", "d"}, Streams{Out: io.Discard, Err: &errs}, f.open, Programs{}, "v")
	if code != 130 || errs.String() != "forkcell: interrupted\n" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}
