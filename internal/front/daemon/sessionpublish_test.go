package daemon_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// git runs git in the source directory of a daemon.
func (d *testDaemon) git(args ...string) string {
	d.Helper()
	cmd := exec.CommandContext(d.Context(), "git", append([]string{"-C", d.source, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// TestSessionPublish: accepted work goes to a branch with the operator's name; for a
// token only if the operator allowed that.
func TestSessionPublish(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	o := newOperator(t)
	o.write(".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n", 0o600)
	o.write("config/publish.yaml", "require_signed: false\n", 0o600)
	options := api.ServeOptions{Operator: o.options()}
	options.Operator.Env = []string{"HOME=" + o.dir, "PATH=" + os.Getenv("PATH")}
	d := newRemote(t, options)
	options.AllowSource = []string{d.source}
	d.git("init", "-q", "-b", "main")
	d.git("add", ".")
	d.git("commit", "-qm", "first")
	d.cell("demo")
	b := listener("demo")
	b.AllowNonGit, b.Arguments = false, []string{"sh", "-c", "echo changed > hello.txt"}
	var i api.AgentSession
	d.want(http.StatusCreated, &i, "POST", "/v1/sessions", b) // it ends by itself
	for i.LiveStatus != "stopped" {
		d.want(http.StatusOK, &i, "GET", "/v1/sessions/demo-generic", nil)
	}
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/demo-generic/accept", nil)
	body := api.PublishBody{Branch: "work/one", Sign: "off", Title: "Change it"}
	decider := api.TokenBody{Name: "decider", Scopes: []string{"run", "decide"}}
	p := d.token(decider).problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions/demo-generic/publish", body)
	if !strings.Contains(p.Hint, "--allow-publish") || strings.Contains(d.git("branch"), "work/") {
		t.Errorf("%+v", p)
	}
	var res api.PublishResult
	d.want(http.StatusOK, &res, "POST", "/v1/sessions/demo-generic/publish", body)
	if said := d.git("log", "-1", "--format=%an %s", "work/one"); said != "Ada Change it\n" || res.Files != 1 {
		t.Errorf("%q: %+v", said, res)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	options.AllowPublish = true
	options.Listen = []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}
	d.start(options)
	allowed := d.token(api.TokenBody{Name: "allowed", Scopes: []string{"run", "decide"}})
	body.Branch = "work/two"
	allowed.want(http.StatusOK, nil, "POST", "/v1/sessions/demo-generic/publish", body)
	if !strings.Contains(d.git("branch"), "work/two") {
		t.Error("no branch")
	}
}
