package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// git runs git in the source, with the configuration of a test operator.
func (w *world) git(args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.ctx, "git", args...)
	cmd.Dir, cmd.Env = w.source, append(os.Environ(), "GIT_CONFIG_GLOBAL="+w.source+"-gitconfig", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes the source a repository with the branch main, and a second one that
// is its origin. settings are the operator's.
func (w *world) repository(settings string) {
	w.Helper()
	w.ok(os.WriteFile(w.source+"-gitconfig", []byte("[user]\n\tname = Op\n\temail = op@example.com\n"), 0o600))
	w.ok(os.WriteFile(w.source+"-settings", []byte(settings), 0o600))
	w.git("init", "--quiet", "--initial-branch=main")
	w.git("add", "--all")
	w.git("commit", "--quiet", "-m", "base")
	w.git("init", "--quiet", "--bare", w.source+"-origin.git")
	w.git("remote", "add", "origin", w.source+"-origin.git")
	w.git("push", "--quiet", "origin", "main")
}

// operator returns the engine for the operator of a source.
func operator(e *engine.Engine, source string, env ...string) *engine.Engine {
	caller := tester()
	caller.Env = append(append(os.Environ(), "GIT_CONFIG_GLOBAL="+source+"-gitconfig"), env...)
	return e.As(caller)
}

// codeHost is a service with a repository over HTTP and an API for pull requests.
type codeHost struct {
	*httptest.Server
	asked  map[string]string
	token  string
	status int
	pushed func() // called after a push, before git is answered
}

func newCodeHost(w *world) *codeHost {
	w.Helper()
	path := w.git("--exec-path")
	w.git("--git-dir", w.source+"-origin.git", "config", "http.receivepack", "true")
	h := &codeHost{status: http.StatusCreated}
	mux := http.NewServeMux()
	backend := http.StripPrefix("/team/app.git", &cgi.Handler{
		Path: path + "/git-http-backend", Dir: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + w.source + "-origin.git", "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH")},
	})
	mux.HandleFunc("/team/app.git/", func(rw http.ResponseWriter, r *http.Request) {
		backend.ServeHTTP(rw, r)
		if h.pushed != nil && r.Method == http.MethodPost {
			h.pushed()
		}
	})
	mux.HandleFunc("POST /api/v1/repos/team/app/pulls", func(rw http.ResponseWriter, r *http.Request) {
		h.token, h.asked = r.Header.Get("Authorization"), nil
		if err := json.NewDecoder(r.Body).Decode(&h.asked); err != nil {
			w.Error(err)
		}
		rw.WriteHeader(h.status)
		fmt.Fprintf(rw, `{"html_url":"%s/team/app/pulls/1"}`, h.URL)
	})
	h.Server = httptest.NewServer(mux)
	w.Cleanup(h.Close)
	return h
}

// TestPullRequest: a pull request is made after the push, with the receipt as its
// text. Without service or token nothing is pushed; after a failure the branch stays.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.repository("require_signed: false\n")
	w.sh("demo", "echo first > hello.txt", acceptOnSuccess)
	host := newCodeHost(w)
	name := strings.TrimPrefix(host.URL, "http://")
	w.git("remote", "set-url", "origin", host.URL+"/team/app.git")
	request := func(branch string) (*api.PublishResult, error) {
		return operator(w.e, w.source, "FORGE_SECRET=tok-1").Publish(w.ctx, api.PublishRequest{
			Cell: "demo", Branch: branch, Title: "Say first", Message: "As agreed.", Sign: "off", Push: true, PR: true, Settings: w.source + "-settings",
		})
	}
	refused := func(branch string, code api.Code, part string) {
		t.Helper()
		_, err := request(branch)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != code || !strings.Contains(e.Message, part) {
			t.Errorf("got %v, want %s with %q", err, code, part)
		}
	}
	refused("work", api.CodePullRequest, "is no service that is known")
	settings := "require_signed: false\nforges: [{host: '" + name + "', kind: forgejo, api: '" + host.URL + "/api/v1', token: 'env:%s'}]\n"
	w.ok(os.WriteFile(w.source+"-settings", fmt.Appendf(nil, settings, "NO_SUCH_VARIABLE"), 0o600))
	refused("work", api.CodePullRequest, "there is no token for pull requests")
	if got := w.git("--git-dir", w.source+"-origin.git", "branch", "--list", "work") + w.git("branch", "--list", "work"); got != "" || host.token != "" {
		t.Errorf("something was published: %q, %q", got, host.token)
	}

	w.ok(os.WriteFile(w.source+"-settings", fmt.Appendf(nil, settings, "FORGE_SECRET"), 0o600))
	res, err := request("work")
	w.ok(err)
	if res.PullRequest != host.URL+"/team/app/pulls/1" || host.token != "token tok-1" {
		t.Errorf("made at %s with %s", res.PullRequest, host.token)
	}
	if host.asked["title"] != "Say first" || host.asked["head"] != "work" || host.asked["base"] != "main" ||
		!strings.HasPrefix(host.asked["body"], "As agreed.\n\n# Receipt `"+res.Receipts[0].ReceiptID+"`") {
		t.Errorf("asked for %v", host.asked)
	}

	host.status = http.StatusUnprocessableEntity
	refused("second", api.CodePullRequest, "the branch second stays in "+w.source+" and at "+host.URL+"/team/app.git")
	if here, there := w.git("rev-parse", "second"), w.git("--git-dir", w.source+"-origin.git", "rev-parse", "second"); here != there {
		t.Errorf("the repository has %s, origin %s", here, there)
	}
	w.sound("demo")
}

// archive returns the path of a tar archive of one file.
func (w *world) archive(name, text string) string {
	w.Helper()
	dir := w.TempDir()
	w.ok(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	w.ok(exec.CommandContext(w.ctx, "tar", "-C", dir, "-cf", dir+".tar", name).Run())
	return dir + ".tar"
}

// has compares a text with parts that it must have.
func (w *world) has(got string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			w.Errorf("%q lacks %q", got, part)
		}
	}
}

// TestPublishPart: once the branch is pushed, the rest is tried, whatever of it fails: the
// pull request is made although the daemon is not told, or the repository cannot have the
// branch. The error names what is there and what is missing, with a next step for each.
func TestPublishPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("mirror", "overlay")
	w.repository("")
	host := newCodeHost(w)
	w.ok(os.WriteFile(w.source+"-settings", fmt.Appendf(nil, "require_signed: false\nforges: [{host: '%s', kind: forgejo, api: '%s/api/v1', token: 'env:FORGE_SECRET'}]\n",
		strings.TrimPrefix(host.URL, "http://"), host.URL), 0o600))
	w.git("remote", "set-url", "origin", host.URL+"/team/app.git")
	archive := w.archive("hello.txt", "first\n")
	var told []api.PublicationRequest
	unreachable := 0 // so many reports fail
	publish := func(branch string) (string, string) {
		t.Helper()
		told = nil
		work := engine.ReceivedWork{Cell: "demo", Checkpoint: "chk_x", Report: func(_ context.Context, b api.PublicationRequest) error {
			told = append(told, b)
			if len(told) <= unreachable {
				return errors.New("connection refused")
			}
			return nil
		}}
		_, err := operator(w.e, w.source, "FORGE_SECRET=tok-1").PublishReceived(w.ctx, work, api.PublishRequest{
			Cell: "mirror", Branch: branch, Sign: "off", Push: true, PR: true, Settings: w.source + "-settings",
		}, func() (io.ReadCloser, error) { return os.Open(archive) })
		if e, ok := errors.AsType[*api.Error](err); ok {
			return e.Message, e.Hint
		}
		w.ok(err)
		return "", ""
	}
	pull, there := host.URL+"/team/app/pulls/1", host.URL+"/team/app.git"

	unreachable = 2
	said, hint := publish("work")
	w.has(said, "the branch work stays in "+w.source+" and at "+there+", and the pull request is "+pull, "the daemon has not recorded it: connection refused")
	w.has(hint, "daemon's operator")
	if host.asked["head"] != "work" {
		t.Errorf("asked for %v", host.asked)
	}

	unreachable = 1 // the second report has all
	if said, _ := publish("late"); said != "" || len(told) != 2 || told[1].PullRequest != pull {
		t.Errorf("%q: told %+v", said, told)
	}

	unreachable, host.status = 2, http.StatusForbidden
	said, hint = publish("closed")
	w.has(said, "the branch closed stays in "+w.source+" and at "+there+", but", "the service answered 403", "the daemon has not recorded it")
	w.has(hint, "on the pages of the service", "daemon's operator")

	unreachable, host.status = 0, http.StatusCreated
	host.pushed = func() { w.git("branch", "raced", "main") } // the name is taken meanwhile
	said, hint = publish("raced")
	w.has(said, "the branch raced stays at "+there+", and the pull request is "+pull, "it could not be made in "+w.source)
	w.has(hint, "`git -C "+w.source+" fetch origin`")
	if len(told) != 2 || told[1].PullRequest != pull || !strings.Contains(told[1].State, "without the branch") {
		t.Errorf("told %+v", told)
	}
	w.sound("mirror")
}

// TestPublishThenPush: for a branch that was published without a push, the refusal says how
// to push it. Any other branch is not for that.
func TestPublishThenPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.repository("require_signed: false\n")
	w.sh("demo", "echo first > hello.txt", acceptOnSuccess)
	hint := func(branch string, push bool) string {
		t.Helper()
		_, err := operator(w.e, w.source).Publish(w.ctx, api.PublishRequest{
			Cell: "demo", Branch: branch, Sign: "off", Push: push, Settings: w.source + "-settings",
		})
		e, _ := errors.AsType[*api.Error](err)
		if e == nil {
			w.ok(err)
			return ""
		}
		return e.Hint
	}
	if got := hint("work", false); got != "" {
		t.Fatalf("not published: %s", got)
	}
	if got, want := hint("work", true), "`git -C "+w.source+" push origin work` pushes it"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	const other = "choose another name with --branch"
	if got := hint("work", false); got != other {
		t.Errorf("without a push: %q", got)
	}
	w.git("branch", "-f", "work", "main")
	if got := hint("work", true); got != other {
		t.Errorf("of another commit: %q", got)
	}
}
