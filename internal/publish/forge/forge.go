// Package forge makes pull requests through the API of the services that keep
// repositories: GitHub, GitLab, Forgejo and Gitea.
//
// It knows HTTP and these APIs. It knows nothing of git, of files and of where a
// token comes from. What a service answers is foreign text.
package forge

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// Forge is a service that has pull requests.
type Forge struct {
	// Host is that of the push URL, with the port if it has one.
	Host string `yaml:"host"`
	// Kind is github, gitlab, forgejo or gitea.
	Kind string `yaml:"kind"`
	// API is the URL of the API; "" is the usual one of the host.
	API string `yaml:"api"`
	// Token says where the token is: env:NAME, file:PATH or command:JSON. "" is the
	// usual variables of the kind.
	Token string `yaml:"token"`
}

// The kinds of services. Forgejo and Gitea have the same API.
const (
	github  = "github"
	gitlab  = "gitlab"
	forgejo = "forgejo"
	gitea   = "gitea"
)

// wellKnown lists the services that need no configuration.
func wellKnown() []Forge {
	return []Forge{
		{Host: "github.com", Kind: github, API: "https://api.github.com"},
		{Host: "gitlab.com", Kind: gitlab},
		{Host: "codeberg.org", Kind: forgejo},
	}
}

// Check refuses a service that cannot be used.
func (f Forge) Check() error {
	switch {
	case f.Host == "" || strings.ContainsAny(f.Host, "/@ "):
		return errors.New("host must be a host name, with its port if the push URL has one")
	case !slices.Contains([]string{github, gitlab, forgejo, gitea}, f.Kind):
		return fmt.Errorf("kind of %s must be github, gitlab, forgejo or gitea", quote.Arg(f.Host))
	case f.API != "" && !isTrusted(f.API):
		return fmt.Errorf("api of %s must be an https URL", quote.Arg(f.Host))
	}
	return nil
}

// isTrusted reports whether a URL is one that a token may be sent to: encrypted, or on
// this machine.
func isTrusted(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Find returns the service of a host. Configured ones come before the well-known.
func Find(configured []Forge, host string) (Forge, bool) {
	all := append(slices.Clone(configured), wellKnown()...)
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	for _, h := range []string{host, name} {
		if i := slices.IndexFunc(all, func(f Forge) bool { return strings.EqualFold(f.Host, h) }); i >= 0 {
			return all[i], true
		}
	}
	return Forge{}, false
}

// Sources lists the places where a token may be, in order.
func (f Forge) Sources() []string {
	if f.Token != "" {
		return []string{f.Token}
	}
	switch f.Kind {
	case github:
		return []string{"env:GH_TOKEN", "env:GITHUB_TOKEN"}
	case gitlab:
		return []string{"env:GITLAB_TOKEN"}
	}
	return []string{"env:FORGEJO_TOKEN", "env:GITEA_TOKEN"}
}

// base returns the URL of the API, without a slash at its end.
func (f Forge) base() string {
	if f.API != "" {
		return strings.TrimRight(f.API, "/")
	}
	return "https://" + f.Host + map[string]string{github: "/api/v3", gitlab: "/api/v4", forgejo: "/api/v1", gitea: "/api/v1"}[f.Kind]
}
