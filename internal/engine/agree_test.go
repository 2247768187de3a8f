package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
)

// agreement is the set-up of TestExplainAgrees: directories of the host that
// policies may list, and a server that allowed requests reach.
type agreement struct {
	*world
	rnd  *rand.Rand
	dirs []string
	pins []string
}

var agreeHosts = []string{"a.example", "b.example", "x.c.example"}

func newAgreement(t *testing.T, seed uint64) *agreement {
	t.Helper()
	a := &agreement{world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 1))}
	caller := tester()
	caller.Env = append(caller.Env, "SEEN=value", "TZ=value")
	a.e = a.e.As(caller)
	vars, err := os.MkdirTemp("/var/tmp", "forkcell-agree-")
	a.ok(err)
	t.Cleanup(func() { _ = os.RemoveAll(vars) })
	for _, base := range []string{t.TempDir(), vars} { // the first is beneath /tmp
		a.ok(os.Chmod(base, 0o755))
		for _, name := range []string{"one", "two"} {
			dir := filepath.Join(base, name)
			a.ok(os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
			for _, file := range []string{"file", "sub/file", ".env", "sub/id_rsa"} {
				a.ok(os.WriteFile(filepath.Join(dir, file), []byte("x\n"), 0o644))
			}
			a.dirs = append(a.dirs, dir)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(s.Close)
	for _, h := range agreeHosts {
		a.pins = append(a.pins, h+":80="+s.Listener.Addr().String())
	}
	return a
}

func (a *agreement) some(list []string) (out []string) {
	for _, x := range list {
		if a.rnd.IntN(2) == 0 {
			out = append(out, x)
		}
	}
	return out
}

// policy makes a random policy. It lists paths, variables and hosts.
func (a *agreement) policy() string {
	var reads, writes []string
	for _, d := range a.some(append(slices.Clone(a.dirs), "/etc", "/opt", a.source)) {
		switch a.rnd.IntN(3) {
		case 0:
			reads = append(reads, d)
		case 1:
			reads = append(reads, d+"/sub")
		default:
			writes = append(writes, d)
		}
	}
	reads = slices.DeleteFunc(append(reads, "/usr"), func(p string) bool { return p == "/etc/sub" || p == "/opt/sub" || strings.HasPrefix(p, a.source) })
	writes = slices.DeleteFunc(writes, func(p string) bool { return p == "/etc" || p == "/opt" })
	text := fmt.Sprintf("version: 1\nfilesystem_policy: { read_only: [%s], read_write: [%s], include_workdir: %v }\n",
		strings.Join(reads, ", "), strings.Join(writes, ", "), a.rnd.IntN(3) > 0)
	text += "environment: { inherit: [" + strings.Join(a.some([]string{"LANG", "SEEN", "TZ"}), ", ") + "] }\n"
	text += "network_policies:\n"
	for i, h := range []string{"a.example", "b.example", "*.c.example"} {
		more := []string{"", ", protocol: rest, access: read-only", `, protocol: rest, rules: [{ allow: { method: POST, path: "/in/**" } }]`}[a.rnd.IntN(3)]
		binary := []string{"/**", "/usr/bin/curl", "/usr/bin/nothing"}[a.rnd.IntN(3)]
		text += fmt.Sprintf("  n%d: { endpoints: [{ host: %q, port: 80%s }], binaries: [{ path: %q }] }\n", i, h, more, binary)
	}
	return text
}

// request asks for one run. One of the grants may be missing.
func (a *agreement) request(name, script string) api.RunRequest {
	all := everything()
	all.Paths = a.dirs
	if a.rnd.IntN(4) == 0 {
		all.Paths = a.some(all.Paths)
	}
	all.Paths = slices.Clone(all.Paths)
	for i := range all.Paths {
		all.Paths[i] += ":rw"
	}
	return api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}, RunOptions: api.RunOptions{Grants: all, Network: api.NetworkRequest{Resolve: a.pins}}}
}

// questions are the paths and requests that a cell is asked about.
func (a *agreement) questions() (paths []string, requests []policy.Request) {
	for _, d := range append(slices.Clone(a.dirs), a.source, "/home/sandbox", "/tmp") {
		for _, below := range []string{"", "/file", "/sub", "/sub/file", "/.env", "/sub/id_rsa", "/new"} {
			paths = append(paths, d+below)
		}
	}
	paths = append(paths, "/usr/bin/env", "/etc", "/etc/passwd", "/opt", "/proc/self", "/dev/null", "/dev/mem", "/run", "/sys", "/root", "/no/such")
	for _, h := range append(slices.Clone(agreeHosts), "c.example", "none.example") {
		for _, q := range []policy.Request{{Method: "GET", Path: "/in/x"}, {Method: "POST", Path: "/in/x"}, {Method: "POST", Path: "/out"}} {
			q.Host, q.Port, q.Binary, q.Scheme = h, 80, "/usr/bin/curl", policy.HTTP
			requests = append(requests, q)
		}
	}
	return paths, requests
}

// ask is the script that answers in a cell: one word for each path, then one for
// each request.
func ask(paths []string, requests []policy.Request) string {
	script := "set -- " + strings.Join(paths, " ") + `
for p; do
	if [ -d $p ]; then t=$p/.agreed; else t=$p; fi
	existed=no; if [ -e $p ] && [ -r $p ]; then existed=yes; else mkdir -p ${p%/*} 2>/dev/null; fi
	if (: >> $t) 2>/dev/null; then echo read-write; rm -f $p/.agreed; [ $existed = yes ] || rm -f $p
	elif [ $existed = yes ]; then echo read-only
	else echo absent; fi
done
`
	for _, q := range requests {
		script += fmt.Sprintf("[ $(curl -s -o /dev/null -m 20 -w '%%{http_code}' -X %s http://%s:%d%s) = 200 ] && echo allowed || echo denied\n", q.Method, q.Host, q.Port, q.Path)
	}
	return script
}

// TestExplainAgrees: under random policies, explain, a dry run and the run itself
// say the same about paths, variables and requests. Many questions are asked in one
// cell.
func TestExplainAgrees(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("/usr/bin/curl"); err != nil {
		t.Skip("this host has no curl, which asks in the cells")
	}
	seed := seeds(t, 1)[0]
	t.Log("seed", seed)
	a := newAgreement(t, seed)
	ran := 0
	for i := 0; i < 24 && ran < 3; i++ {
		name := fmt.Sprintf("c%d", i)
		text := a.policy()
		_, err := a.e.Init(a.ctx, api.InitRequest{Name: name, From: a.source, Policy: &api.PolicyFile{Name: "p", Text: []byte(text)}})
		a.ok(err)
		if a.agrees(name, text) {
			ran++
		}
	}
	if ran == 0 {
		t.Error("no policy was run")
	}
}

// agrees compares one policy. It reports whether the run was not refused.
func (a *agreement) agrees(name, text string) bool {
	a.Helper()
	paths, requests := a.questions()
	req := a.request(name, ask(paths, requests))
	plan, planErr := a.e.Plan(a.ctx, req)
	var out, errs bytes.Buffer
	res, err := a.e.Run(a.ctx, req, engine.Stdio{Out: &out, Err: &errs})
	if fmt.Sprint(planErr) != fmt.Sprint(err) {
		a.Fatalf("the dry run: %v; the run: %v\n%s", planErr, err, text)
	}
	if err != nil {
		if api.KindOf(err) != api.Refused {
			a.Fatalf("%v\n%s", err, text)
		}
		return false
	}
	if plan.PolicyHash != res.PolicyHash || plan.Controls.Network != res.Controls.Network || !slices.Equal(plan.Degraded, res.Degraded) {
		a.Errorf("the dry run: %+v; the run: %+v\n%s", plan, res, text)
	}
	found := strings.Fields(out.String())
	if len(found) != len(paths)+len(requests) {
		a.Fatalf("%q\n%s\n%s", found, errs.String(), text)
	}
	ref := engine.PolicyRef{Cell: name}
	for i, p := range paths {
		x, err := a.e.ExplainPolicy(a.ctx, ref, engine.PolicyQuestion{Path: p})
		a.ok(err)
		if _, err := os.Lstat(p); err != nil && found[i] == policy.AccessAbsent && x.Access == policy.AccessReadOnly {
			continue // the policy shows the directory, and the host has no such file
		}
		if x.Access != found[i] {
			a.Errorf("%s is %s; explained as %s (%s: %s)\n%s", p, found[i], x.Access, x.Rule, x.Reason, text)
		}
	}
	for i, q := range requests {
		x, err := a.e.ExplainPolicy(a.ctx, ref, engine.PolicyQuestion{Request: &q})
		a.ok(err)
		if got := found[len(paths)+i] == "allowed"; got != x.Allowed {
			a.Errorf("%s %s%s is %s; explained as %v (%s: %s)\n%s", q.Method, q.Host, q.Path, found[len(paths)+i], x.Allowed, x.Rule, x.Reason, text)
		}
	}
	return true
}
