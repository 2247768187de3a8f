package daemon

import (
	"cmp"
	"net"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// signInPath is the path of the page that signs a browser in.
const signInPath = "/ui/sign-in"

// checkLink returns the link that signs a browser in, from the answer of a daemon. The
// browser goes there, so it must lead to the daemon: to the host of its address, or to
// this machine if the daemon is reached on it. Of the rest only the code is the daemon's.
func checkLink(answer, daemon string) (string, error) {
	link, err := url.Parse(answer)
	if err != nil || link.Scheme != "http" && link.Scheme != "https" || link.User != nil || link.Path != signInPath {
		return "", notDaemonsLink(answer)
	}
	code := link.Query().Get("code")
	if code == "" || !atDaemon(link, daemon) {
		return "", notDaemonsLink(answer)
	}
	to := url.URL{Scheme: link.Scheme, Host: link.Host, Path: signInPath, RawQuery: url.Values{"code": {code}}.Encode()}
	return to.String(), nil
}

func notDaemonsLink(answer string) error {
	return &api.Error{
		Kind: api.Failed, Code: api.CodeProtocol, Hint: "what answers is no daemon of forkcell, or a hostile one",
		Message: "the daemon answered a link that does not lead to it: " + quote.Line(answer),
	}
}

// atDaemon reports whether a link leads to a daemon. One that is reached on this machine
// has its pages under another name of loopback, and may have them on another port.
func atDaemon(link *url.URL, daemon string) bool {
	at, err := url.Parse(daemon)
	if err != nil {
		return false
	}
	if at.Scheme == "unix" || isLoopback(at.Hostname()) {
		return isLoopback(link.Hostname())
	}
	return link.Scheme == at.Scheme && strings.EqualFold(link.Hostname(), at.Hostname()) && portOf(link) == portOf(at)
}

// isLoopback reports whether a host is this machine, by its name alone.
func isLoopback(host string) bool {
	host = strings.ToLower(host)
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}
