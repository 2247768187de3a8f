package publish

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// origin makes a bare repository beside the host's that has the branch main.
func (d *desk) origin() string {
	d.t.Helper()
	at := filepath.Join(filepath.Dir(d.repo), "srv", "team", "origin.git")
	d.must(os.MkdirAll(at, 0o755))
	d.exec(at, "git", "init", "--quiet", "--bare")
	d.exec(at, "git", "config", "http.receivepack", "true")
	d.git("push", "--quiet", at, "main:main")
	return at
}

// serve serves the repositories of a directory over HTTP as git does, for one user.
func (d *desk) serve(dir string) (url string, requests *atomic.Int64) {
	d.t.Helper()
	requests = new(atomic.Int64)
	backend := &cgi.Handler{
		Path: d.exec("/", "git", "--exec-path") + "/git-http-backend", Dir: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=op", "PATH=" + os.Getenv("PATH"), "HOME=" + d.home},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if user, pass, _ := r.BasicAuth(); user != "op" || pass != "right" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	d.t.Cleanup(s.Close)
	return s.URL, requests
}

// push publishes a change to the branch work of origin.
func (d *desk) push(o Options) (Remote, error) {
	d.t.Helper()
	w, err := d.prepare(o)
	d.must(err)
	to, err := w.Remote(d.t.Context())
	if err != nil {
		return to, err
	}
	if err := w.Push(d.t.Context(), to); err != nil {
		return to, err
	}
	return to, w.AddBranch(d.t.Context())
}

func TestPushHTTP(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	at := d.origin()
	url, requests := d.serve(filepath.Dir(filepath.Dir(at)))
	d.git("remote", "add", "origin", url+"/team/origin.git")
	// A helper of the repository is not asked; without the operator's there is no password.
	d.git("config", "credential.helper", "!"+d.trap())
	before := d.state()
	_, err := d.push(d.options(d.change("a", "two\n")))
	d.isRefused(err, api.CodePush, "the repository is as it was")
	if d.marked() || d.state() != before {
		t.Errorf("marked %v, or the repository changed", d.marked())
	}
	d.git("config", "--global", "credential.helper", "!echo username=op; echo password=right; :")
	to, err := d.push(d.options(d.change("a", "two\n")))
	d.must(err)
	if to.Host != strings.TrimPrefix(url, "http://") || to.Path != "team/origin" || requests.Load() == 0 {
		t.Errorf("remote %+v", to)
	}
	if here, there := d.git("rev-parse", "work"), d.exec(at, "git", "rev-parse", "work"); here != there {
		t.Errorf("origin has %s, the repository %s", there, here)
	}
	d.exec(at, "git", "fsck", "--strict")
}

// TestPushSSH uses the operator's ssh command, and never the repository's.
func TestPushSSH(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	at := d.origin()
	d.git("config", "core.sshCommand", d.trap()+"; false")
	d.git("remote", "add", "origin", "git@code.example.com:"+at)
	stand := d.home + "/ssh"
	d.must(os.WriteFile(stand, []byte("#!/bin/sh\nfor last; do :; done\necho \"$*\" > "+d.home+"/ssh-args\nexec sh -c \"$last\"\n"), 0o755))
	d.git("config", "--global", "core.sshCommand", stand)
	d.git("config", "--global", "ssh.variant", "simple")
	to, err := d.push(d.options(d.change("a", "two\n")))
	d.must(err)
	args, err := os.ReadFile(d.home + "/ssh-args")
	d.must(err)
	if d.marked() || !strings.HasPrefix(string(args), "git@code.example.com git-receive-pack") || to.Show != "code.example.com:"+at {
		t.Errorf("marked %v, ssh was called with %s, %+v", d.marked(), args, to)
	}
	d.exec(at, "git", "rev-parse", "--verify", "work")
}

// TestPushRefused: what the other side refuses leaves both repositories as they were.
func TestPushRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	at := d.origin()
	d.git("remote", "add", "origin", at)
	fails := func(part, hint string) {
		t.Helper()
		before := d.state()
		refs := d.exec(at, "git", "show-ref")
		_, err := d.push(d.options(d.change("a", "two\n")))
		d.isRefused(err, api.CodePush, part)
		if e, ok := err.(*api.Error); !ok || !strings.Contains(e.Hint, hint) { //nolint:errorlint // it is returned as it is
			t.Errorf("hint of %v", err)
		}
		if d.state() != before || d.exec(at, "git", "show-ref") != refs {
			t.Error("a repository changed")
		}
	}
	d.exec(at, "git", "branch", "work", "main")
	fails("stale info", "origin has a branch of this name")
	d.exec(at, "git", "branch", "-D", "work")
	d.must(os.MkdirAll(at+"/hooks", 0o755))
	d.must(os.WriteFile(at+"/hooks/pre-receive", []byte("#!/bin/sh\nprintf 'go\\033[31m away\\n'\nexit 1\n"), 0o755))
	fails("pre-receive hook declined", "")
	d.must(os.Remove(at + "/hooks/pre-receive"))
	d.commit("not pushed", map[string]string{"b": "two\n"})
	fails("shallow update not allowed", "push the base main first")
}

func TestRemotes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	w, err := d.prepare(d.options(d.change("a", "two\n")))
	d.must(err)
	_, err = w.Remote(t.Context())
	d.isRefused(err, api.CodePush, "has 0 push URLs, and must have one")
	d.git("remote", "add", "origin", "/x")
	d.git("config", "--add", "remote.origin.pushurl", "https://a.example.com/x")
	d.git("config", "--add", "remote.origin.pushurl", "https://b.example.com/x")
	d.git("config", "url.https://evil.example.com/.insteadOf", "https://")
	w, err = d.prepare(d.options(d.change("a", "two\n")))
	d.must(err)
	_, err = w.Remote(t.Context())
	d.isRefused(err, api.CodePush, "has 2 push URLs")
	d.git("config", "--unset", "remote.origin.pushurl", "b.example")
	w, err = d.prepare(d.options(d.change("a", "two\n")))
	d.must(err)
	if to, err := w.Remote(t.Context()); err != nil || to.URL != "https://a.example.com/x" {
		t.Errorf("got %+v, %v", to, err)
	}
}

func TestParseRemote(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]Remote{
		"https://u:p@h.example.com:8443/a/b.git": {Show: "https://h.example.com:8443/a/b.git", Host: "h.example.com:8443", Path: "a/b", protocol: "https"},
		"ssh://git@h.example.com/a/b.git":        {Show: "ssh://h.example.com/a/b.git", Host: "h.example.com", Path: "a/b", protocol: "ssh"},
		"git@h.example.com:a/b.git":              {Show: "h.example.com:a/b.git", Host: "h.example.com", Path: "a/b", protocol: "ssh"},
		"http://127.0.0.1:80/a/b":                {Show: "http://127.0.0.1:80/a/b", Host: "127.0.0.1:80", Path: "a/b", protocol: "http"},
		"/srv/a.git":                             {Show: "/srv/a.git", protocol: "file"},
		"file:///srv/a.git":                      {Show: "file:///srv/a.git", protocol: "file"},
	} {
		want.URL = url
		if got, err := parseRemote(url); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", url, got, err)
		}
	}
	for _, url := range []string{
		"", "-uext", "--upload-pack=x", "ext::sh -c x", "ext::sh%20x", "http://h.example.com/x", "git://h/x", "ftp://h/x", "https:///x", "ssh://-oProxyCommand=x/y",
		"-oProxyCommand=x:y", "a@-oProxyCommand=x:y", "relative/path", "../up", "file://host/x", "https://h/x?y", "https://h/x#y", "https://h/\x1b[31m", "h\n:x", "fd::17", "host:", "transport::https://h/x",
	} {
		if got, err := parseRemote(url); err == nil {
			t.Errorf("%q was taken: %+v", url, got)
		}
	}
}

func FuzzParseRemote(f *testing.F) {
	f.Add("git@h.example.com:a/b.git")
	f.Add("https://u:p@h/x")
	f.Fuzz(func(t *testing.T, url string) {
		r, err := parseRemote(url)
		if err == nil && (strings.HasPrefix(url, "-") || strings.Contains(url, "::") || r.protocol == "" || r.URL != url) {
			t.Errorf("%q: %+v", url, r)
		}
	})
}
