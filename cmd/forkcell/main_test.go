package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/network/egress/authority"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/landlock"
)

var update = flag.Bool("update", false, "refresh the golden output in the scripts")

func TestMain(m *testing.M) {
	// The test binary acts as the program: it is started under the names with
	// which the program starts itself.
	if code, is := local.Helper(); is {
		os.Exit(code)
	}
	if runtime := os.Getenv("FORKCELL_TEST_GVISOR"); runtime != "" {
		_ = os.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Dir(runtime)) // daemons of scripts look for it there
	}
	if strings.HasSuffix(os.Args[0], ".test") {
		heedInterrupts()
	}
	testscript.Main(m, map[string]func(){"forkcell": main})
}

// heedInterrupts makes interrupts end the tests, if they were started with interrupts
// ignored, as a shell does for commands in the background. Programs that tests start
// would ignore them too, and scripts end their servers by interrupts. Hangups, which
// nohup has ignored, reach these programs as well, and do nothing to the tests.
func heedInterrupts() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	if !signal.Ignored(os.Interrupt) {
		return
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	go func() {
		<-interrupts
		os.Exit(130)
	}()
}

// TestScripts runs the manual: one script per behaviour, against the program
// itself, each with its own home.
func TestScripts(t *testing.T) { runScripts(t, "script", nil) }

// TestTools runs the tools that people need on their first day, unmodified, in a
// cell without a policy.
func TestTools(t *testing.T) {
	missing := ""
	for _, tool := range []string{
		"git", "make", "gcc", "gdb", "strace", "go", "/usr/bin/cargo", "/usr/bin/pytest-3", "node", "npm", "javac", "tmux",
	} {
		if _, err := exec.LookPath(tool); err != nil {
			missing += " " + tool
		}
	}
	if missing != "" {
		t.Skipf("not installed:%s; as root scripts/setup.sh test installs them", missing)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, "tools", map[string]string{"GOROOT": strings.TrimSpace(string(root))})
}

// TestGvisor runs the scripts of the runtime gvisor.
func TestGvisor(t *testing.T) {
	runtime := os.Getenv("FORKCELL_TEST_GVISOR")
	if runtime == "" {
		t.Skip("make test-gvisor builds the runtime and runs this test")
	}
	runScripts(t, "gvisor", map[string]string{"PATH": os.Getenv("PATH") + ":" + filepath.Dir(runtime)})
}

func runScripts(t *testing.T, dir string, vars map[string]string) {
	t.Helper()
	t.Parallel()
	testscript.Run(t, scriptParams(dir, vars))
}

// scriptParams returns the parameters of scripts, with variables for them.
func scriptParams(dir string, vars map[string]string) testscript.Params {
	return testscript.Params{
		Dir:                 filepath.Join("..", "..", "internal", "front", "cli", "testdata", dir),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			for _, dir := range []string{"home", "tmp"} {
				if err := os.MkdirAll(filepath.Join(env.WorkDir, dir), 0o755); err != nil {
					return err
				}
			}
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TMPDIR", filepath.Join(env.WorkDir, "tmp"))
			env.Setenv("FORKCELL_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			for name, value := range vars {
				env.Setenv(name, value)
			}
			env.Defer(func() { stopLive(filepath.Join(env.WorkDir, "state")) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "json": jsonIs, "jsonenv": jsonEnv, "lines": lines, "certificate": certificate, "daemon": new(scriptDaemons).command, "sshd": sshd,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "freezer":
				return canFreeze()
			case "sshd":
				return hasSSHD(), nil
			case "full": // nothing of the usual controls is missing
				return landlock.ABI() >= 6, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	}
}

// exits N COMMAND...: the command ends with exactly this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if args[1] == "forkcell" && got != 0 && ts.Getenv("FORKCELL_URL") == "" {
		followHints(ts, args[2:])
	}
}

// json [FILE] FIELD PATTERN: a field of the JSON document on stdout, or in the
// file, matches. A field is a path such as cells.0.name; len is the length of a list.
func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	file := "stdout"
	if len(args) == 3 {
		file, args = args[0], args[1:]
	}
	if len(args) != 2 {
		ts.Fatalf("usage: json [FILE] FIELD PATTERN")
	}
	got := field(ts, file, args[0])
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	if re.MatchString(got) == neg {
		ts.Fatalf("%s is %s, which does not fit %q", args[0], got, args[1])
	}
}

// jsonenv NAME [FILE] FIELD: a field's value becomes a variable.
func jsonEnv(ts *testscript.TestScript, _ bool, args []string) {
	file := "stdout"
	if len(args) == 3 {
		file, args = args[1], []string{args[0], args[2]}
	}
	if len(args) != 2 {
		ts.Fatalf("usage: jsonenv NAME [FILE] FIELD")
	}
	ts.Setenv(args[0], field(ts, file, args[1]))
}

// certificate HOST FILE: a key, a certificate of a host and that of its authority.
func certificate(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: certificate HOST FILE")
	}
	ca, err := authority.New("test")
	ts.Check(err)
	leaf, err := ca.Leaf(args[0])
	ts.Check(err)
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	ts.Check(err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for _, der := range leaf.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), append(text, ca.PEM()...), 0o600))
}

// lines stdout|stderr N: the stream has exactly so many lines.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: lines stdout|stderr N")
	}
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s has %d lines, want %s", args[0], got, args[1])
	}
}

// field finds a value in the last line of a stream, which is where a run leaves
// its result document.
func field(ts *testscript.TestScript, file, path string) string {
	text := strings.TrimSuffix(ts.ReadFile(file), "\n")
	text = text[strings.LastIndexByte(text, '\n')+1:]
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		ts.Fatalf("%s is no JSON document: %v", file, err)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			var ok bool
			if value, ok = v[part]; !ok {
				ts.Fatalf("no field %s of %s in %s", part, path, text)
			}
		case []any:
			if part == "len" {
				value = float64(len(v))
				continue
			}
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				ts.Fatalf("no element %s of %s in %s", part, path, text)
			}
			value = v[i]
		default:
			ts.Fatalf("no field %s of %s in %s", part, path, text)
		}
	}
	if s, ok := value.(string); ok {
		return s
	}
	b, err := json.Marshal(value)
	ts.Check(err)
	return string(b)
}
