package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
)

func policyText(text string) *api.PolicyFile {
	return &api.PolicyFile{Name: "test.yaml", Text: []byte("version: 1\n" + text)}
}

func under(text string) func(*api.RunRequest) {
	return func(r *api.RunRequest) { r.Policy = policyText(text) }
}

// try runs a script that may be refused.
func (w *world) try(name, script string, change ...func(*api.RunRequest)) (*api.RunResult, string, error) {
	req := api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}}
	for _, c := range change {
		c(&req)
	}
	var out bytes.Buffer
	res, err := w.e.Run(w.ctx, req, engine.Stdio{Out: &out, Err: &out})
	return res, out.String(), err
}

func TestPolicyOfCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.e.Init(w.ctx, api.InitRequest{Name: "demo", From: w.source, Policy: policyText("limits: { open_files: 99 }\n")})
	w.ok(err)
	shown, err := w.e.Policy(w.ctx, "demo")
	w.ok(err)
	sum := sha256.Sum256(shown.Text)
	if shown.PolicyHash != hex.EncodeToString(sum[:]) {
		t.Errorf("the hash %s is not that of the text", shown.PolicyHash)
	}
	res, out := w.sh("demo", "ulimit -n")
	if out != "99\n" || res.PolicyHash != shown.PolicyHash {
		t.Errorf("%q under %s, want %s", out, res.PolicyHash, shown.PolicyHash)
	}
	// A fork keeps the policy; a new policy applies from the next run.
	_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "twin"})
	w.ok(err)
	applied, err := w.e.ApplyPolicy(w.ctx, "demo", *policyText("limits: { open_files: 77 }\n"), nil)
	w.ok(err)
	if applied.Before != shown.PolicyHash {
		t.Errorf("before: %s", applied.Before)
	}
	if _, out = w.sh("demo", "ulimit -n"); out != "77\n" {
		t.Errorf("after apply: %q", out)
	}
	if _, out = w.sh("twin", "ulimit -n"); out != "99\n" {
		t.Errorf("the twin: %q", out)
	}
	// A database that is rebuilt from the log has it too.
	_, err = w.e.ApplyPolicy(w.ctx, "demo", api.PolicyFile{Name: "bad.yaml", Text: []byte("version: 1\nno: 1\nnor: 2\n")}, nil)
	w.refused(err, api.Usage, "bad.yaml:2:1: ")
	var e *api.Error
	if !errors.As(err, &e) || len(e.Details) != 1 || !strings.HasPrefix(e.Details[0], "bad.yaml:3:1: ") {
		t.Errorf("details: %+v", e)
	}
	w.sound("demo", "twin")
}

// A run is recorded with its actual policy, narrowed by flags.
func TestFlagsOnlyNarrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	wide := under("limits: { memory: 1GiB, cpus: 2, pids: 100, wall_time: 1h }\n")
	ask := func(change ...func(*api.RunRequest)) *api.RunPlan {
		t.Helper()
		req := api.RunRequest{Cell: "demo", Args: []string{"true"}, RunOptions: api.RunOptions{AllowDegraded: true}}
		for _, c := range change {
			c(&req)
		}
		plan, err := w.e.Plan(w.ctx, req)
		w.ok(err)
		return plan
	}
	plain := ask(wide)
	more := ask(wide, func(r *api.RunRequest) { r.Memory, r.CPUs, r.PIDs, r.Timeout = 2<<30, 4000, 200, 2*time.Hour })
	if plain.PolicyHash != more.PolicyHash || plain.TimeoutUS != time.Hour.Microseconds() {
		t.Errorf("flags widened the policy: %+v", more)
	}
	less := ask(wide, func(r *api.RunRequest) { r.Memory, r.Timeout = 1<<29, time.Minute })
	narrow := ask(under("limits: { memory: 512MiB, cpus: 2, pids: 100, wall_time: 1m }\n"))
	// What this host cannot enforce is not claimed.
	missing := slices.ContainsFunc(less.Controls.Degraded, func(s string) bool { return strings.HasPrefix(s, "limit memory is not enforced: ") })
	if less.PolicyHash != narrow.PolicyHash || strings.Contains(less.Controls.Limits, "memory 536870912 bytes") == missing {
		t.Errorf("flags did not narrow the policy: %+v", less)
	}
}

func TestEnvironmentOfPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	caller := tester()
	caller.Env = []string{"SEEN=caller", "HIDDEN=caller"}
	w.e = w.e.As(caller)
	p := under("environment: { inherit: [SEEN, UNSET], set: { MODE: policy, LANG: C } }\n")
	_, out := w.sh("demo", `echo "$SEEN|$HIDDEN|${UNSET-unset}|$MODE|$LANG"`, p)
	if out != "caller||unset|policy|C\n" {
		t.Errorf("%q", out)
	}
	_, out = w.sh("demo", `echo "$SEEN|$MODE"`, p, func(r *api.RunRequest) { r.Env = []string{"MODE=operator", "SEEN=mine"} })
	if out != "mine|operator\n" {
		t.Errorf("the operator's: %q", out)
	}
	if _, out = w.sh("demo", `echo "$SEEN"`); out != "\n" {
		t.Errorf("without a policy: %q", out)
	}
	w.sound("demo")
}

// TestExplainedPaths: a command finds a path as explain describes it.
func TestExplainedPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tools := filepath.Join(t.TempDir(), "tools")
	w.ok(os.MkdirAll(tools, 0o755))
	paths := []string{
		"/", "/usr", "/usr/bin", "/bin", "/bin/sh", "/lib", "/opt", "/etc", "/etc/passwd", "/etc/ssl", "/root", "/home", "/home/sandbox",
		"/home/sandbox/x", "/var", "/var/tmp", "/run", "/sys", "/boot", "/proc", "/proc/self", "/dev", "/dev/null", "/dev/mem", "/dev/shm",
		"/tmp", "/tmp/x", w.source, w.source + "/hello.txt", tools, "/no/such", "/var/lib", "/etc/ld.so.conf", "/etc/os-release", "/etc/shells",
	}
	for name, p := range map[string]*api.PolicyFile{
		"usual":  nil,
		"listed": policyText("filesystem_policy: { read_only: [/usr] }\n"),
		"more":   policyText("filesystem_policy: { read_only: [/usr, /var/lib] }\n"),
		"single": policyText("filesystem_policy: { read_only: [/usr, /etc/ssl, /etc/ld.so.conf, /etc/os-release] }\n"),
		"wide":   policyText("filesystem_policy: { include_workdir: false, read_only: [/usr], read_write: [/var/tmp] }\n"),
	} {
		_, err := w.e.Init(w.ctx, api.InitRequest{Name: name, From: w.source, ReadOnly: []string{tools}, Policy: p})
		w.ok(err)
		w.explained(name, paths)
	}
}

// explained compares the explanations of paths with the cell.
func (w *world) explained(name string, paths []string) {
	w.Helper()
	// A writable path can be made, with the directories above it; an existing
	// file only has to be opened.
	_, out := w.sh(name, "set -- "+strings.Join(paths, " ")+`
for p; do
	if [ -d $p ]; then t=$p/.explained; else t=$p; fi
	existed=no; if [ -e $p ]; then existed=yes; fi
	if (mkdir -p "${t%/*}/" && : >> $t) 2>/dev/null; then echo read-write; [ $existed = yes ] || rm $t
	elif [ $existed = yes ]; then echo read-only
	else echo absent; fi
done`)
	found := strings.Fields(out)
	if len(found) != len(paths) {
		w.Fatalf("%s: %q", name, out)
	}
	for i, path := range paths {
		x, err := w.e.ExplainPolicy(w.ctx, engine.PolicyRef{Cell: name}, engine.PolicyQuestion{Path: path})
		w.ok(err)
		if found[i] != x.Access {
			w.Errorf("%s: %s is %s in the cell; explained as %s (%s: %s)", name, path, found[i], x.Access, x.Rule, x.Reason)
		}
		if x.Allowed != (x.Access != policy.AccessAbsent) || x.Rule == "" || x.Reason == "" {
			w.Errorf("%s: %s: %+v", name, path, x)
		}
	}
}

func TestExplainOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	ask := func(ref engine.PolicyRef, q engine.PolicyQuestion) *policy.Explanation {
		t.Helper()
		x, err := w.e.ExplainPolicy(w.ctx, ref, q)
		w.ok(err)
		return x
	}
	demo := engine.PolicyRef{Cell: "demo"}
	if x := ask(demo, engine.PolicyQuestion{Syscall: "mount"}); x.Allowed || x.Reason == "" {
		t.Errorf("mount: %+v", x)
	}
	if x := ask(demo, engine.PolicyQuestion{Syscall: "openat"}); !x.Allowed {
		t.Errorf("openat: %+v", x)
	}
	net := engine.PolicyRef{File: policyText("network_policies: { a: { endpoints: [{ host: h.example.org, port: 443 }], binaries: [{ path: /usr/bin/curl }] } }\n")}
	for _, c := range []struct {
		ref     engine.PolicyRef
		q       policy.Request
		allowed bool
	}{
		{demo, policy.Request{Host: "h.example.org", Port: 443}, false},
		{net, policy.Request{Host: "h.example.org", Port: 443, Binary: "/usr/bin/curl"}, true},
		{net, policy.Request{Host: "h.example.org", Port: 80}, false},
		{net, policy.Request{Host: "h.example.org", Port: 443, Binary: "/usr/bin/wget"}, false},
	} {
		x := ask(c.ref, engine.PolicyQuestion{Request: &c.q})
		if x.Allowed != c.allowed || x.Reason == "" {
			t.Errorf("%+v: %+v", c.q, x)
		}
	}
	for _, q := range []engine.PolicyQuestion{{Path: "relative"}, {Syscall: "nosuch"}} {
		_, err := w.e.ExplainPolicy(w.ctx, demo, q)
		w.refused(err, api.Usage, "")
	}
	_, err := w.e.ExplainPolicy(w.ctx, engine.PolicyRef{Cell: "nosuch"}, engine.PolicyQuestion{Path: "/"})
	w.refused(err, api.NotFound, "nosuch")
	d, err := w.e.DiffPolicies(w.ctx, demo, net)
	w.ok(err)
	if len(d.Differences) == 0 || d.HashA == d.HashB {
		t.Errorf("%+v", d)
	}
}

// TestDegradedIsRecorded: a control that is not enforced as asked is in the
// result and in the receipt, word for word.
func TestDegradedIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	allow := func(r *api.RunRequest) { r.AllowDegraded = true }
	for _, c := range []struct {
		name, policy, says string
		change             []func(*api.RunRequest)
	}{
		{"a call taken out of the deny set", "process: { allow_syscalls: [unshare] }\n", "unshare", nil}, // sh grants it
		{"a disk limit", "limits: { disk: 1GiB }\n", "limit disk", []func(*api.RunRequest){allow}},
		{"a path that is missing", "filesystem_policy: { read_only: [/usr, /no/such] }\nlandlock: { compatibility: best_effort }\n", "/no/such", []func(*api.RunRequest){allow}},
	} {
		res, _ := w.sh("demo", "true", append(c.change, under(c.policy))...)
		if len(res.Degraded) != 1 || !strings.Contains(res.Degraded[0], c.says) {
			t.Errorf("%s: %q", c.name, res.Degraded)
			continue
		}
		doc, err := w.e.Receipt(w.ctx, res.ReceiptID, "", false)
		w.ok(err)
		if !bytes.Contains(doc.Markdown, []byte("| Degraded | `")) || !bytes.Contains(doc.Markdown, []byte(c.says)) {
			t.Errorf("%s: not in the receipt:\n%s", c.name, doc.Markdown)
		}
	}
	for text, says := range map[string]string{
		"limits: { disk: 1GiB }\n":                             "limit disk",
		"filesystem_policy: { read_only: [/usr, /no/such] }\n": "/no/such",
		"filesystem_policy: { read_only: [/usr, /no/such] }\nlandlock: { compatibility: best_effort }\n": "/no/such",
		"filesystem_policy: { read_write: [/no/such] }\nlandlock: { compatibility: best_effort }\n":      "/no/such",
		"process: { run_as_user: nobody }\n":            "nobody",
		"process: { allow_syscalls: [unshare, bpf] }\n": "not granted: the system call bpf, the system call unshare",
		"credentials: { a: { endpoints: [{ host: h.example.org, port: 443 }], expose_as: A, replace_in_headers: [Authorization] } }\n": "--credential a=SOURCE",
	} {
		_, _, err := w.try("demo", "touch ran", under(text))
		w.refused(err, api.Refused, says)
	}
	if _, out := w.sh("demo", "ls"); strings.Contains(out, "ran") {
		t.Error("a run that was refused ran")
	}
	w.sound("demo")
}
