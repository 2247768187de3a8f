package publish

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Remote is where a push goes.
type Remote struct {
	// URL is the push URL, as the repository has it.
	URL string
	// Show is the URL without user and password.
	Show string
	// Host has a port if the URL has one. It is "" for a directory.
	Host string
	// Path is the path of the repository on the host, without slashes around it.
	Path string

	protocol string
}

// hostPath is host:path and user@host:path, as ssh and scp write it.
var hostPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^:/\\].*|/.*)$`)
})

// parseRemote checks a push URL. git would run programs for other forms of it.
func parseRemote(text string) (Remote, error) {
	refused := func(why string) error {
		return api.Refusef(api.CodePush, "use an https or ssh URL, or an absolute path", "the push URL of origin %s", why)
	}
	if strings.HasPrefix(text, "-") || strings.Contains(text, "::") || !quote.Visible(text) {
		return Remote{}, refused("is not a plain URL")
	}
	if filepath.IsAbs(text) {
		return Remote{URL: text, Show: text, protocol: "file"}, nil
	}
	if m := hostPath().FindStringSubmatch(text); m != nil && !strings.Contains(text, "://") {
		return Remote{URL: text, Show: m[1] + ":" + m[2], Host: m[1], Path: repoPath(m[2]), protocol: "ssh"}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return Remote{}, refused("cannot be read")
	}
	switch {
	case u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path):
		return Remote{URL: text, Show: text, protocol: "file"}, nil
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-"):
		return Remote{}, refused("has no host")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return Remote{}, refused("is not encrypted")
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh":
		return Remote{}, refused("has the scheme " + quote.Arg(u.Scheme))
	}
	shown := *u
	shown.User = nil
	return Remote{URL: text, Show: shown.String(), Host: u.Host, Path: repoPath(u.Path), protocol: u.Scheme}, nil
}

func repoPath(p string) string { return strings.TrimSuffix(strings.Trim(p, "/"), ".git") }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Remote returns the one push URL of origin. Rewriting rules of the repository have no
// effect.
func (w *Work) Remote(ctx context.Context) (Remote, error) {
	urls, err := w.repo.values(ctx, w.s.git, "remote.origin.pushurl")
	if err == nil && len(urls) == 0 {
		urls, err = w.repo.values(ctx, w.s.git, "remote.origin.url")
	}
	if err != nil {
		return Remote{}, err
	}
	if len(urls) != 1 {
		return Remote{}, api.Refusef(api.CodePush, "`git remote set-url --push origin URL` sets the one", "origin of %s has %s, and must have one",
			quote.Path(w.repo.path), api.Counted(len(urls), "push URL"))
	}
	return parseRemote(urls[0])
}

// Push sends the commit as a new branch. The other side makes the branch only if it
// does not exist.
func (w *Work) Push(ctx context.Context, to Remote) error {
	ref := "refs/heads/" + w.opt.Branch
	c := w.s.in("push", "--quiet", "--no-verify", "--no-follow-tags", "--no-signed", "--force-with-lease="+ref+":", to.URL, w.Commit+":"+ref)
	c.protocols = to.protocol
	c.config = w.who.with("credential.", "http.", "core.sshcommand", "ssh.variant")
	if to.protocol == "http" {
		c.protocols = "http:https"
	}
	_, err := w.s.git.run(ctx, c)
	if err != nil {
		return pushError(to, w.Base, err)
	}
	failpoint.Hit("publish.pushed")
	return nil
}

// pushError explains why a push failed. The other side got nothing.
func pushError(to Remote, base string, err error) error {
	e := api.Failf(api.CodePush, err, "push to %s; the repository is as it was", quote.Line(to.Show))
	switch text := err.Error(); {
	case strings.Contains(text, "shallow update not allowed"):
		e.Hint = "push the base " + quote.Arg(base) + " first, or give the base that origin has with --base"
	case strings.Contains(text, "stale info"):
		e.Hint = "origin has a branch of this name; choose another with --branch"
	}
	return e
}
