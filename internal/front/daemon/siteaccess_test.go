package daemon_test

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestSiteName: there are no pages under an address of loopback, since the browser would
// send its cookies to every port of it. Nobody is told the name of the pages there.
func TestSiteName(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r := newReviewer(d)
	at, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		r.base = "http://" + host + ":" + at.Port()
		r.elsewhere("/ui/cells/demo?x=1", at.Hostname())
		r.do(http.StatusMisdirectedRequest, "POST", "/ui/sign-in", url.Values{"token": {"x"}})
	}
	// Every name below localhost leads to this host, and only one is that of the pages.
	r.base = "http://other.localhost:" + at.Port()
	r.get(http.StatusMisdirectedRequest, "/ui/")
}

// elsewhere expects that a page is refused, without the name under which it is.
func (r *reviewer) elsewhere(at, name string) {
	r.Helper()
	r.get(http.StatusMisdirectedRequest, at)
	r.has("forkcell ui")
	for key, values := range r.header {
		if strings.Contains(strings.Join(values, ""), name) {
			r.Errorf("the header %s has the name of the pages: %s", key, values)
		}
	}
	r.lacks(name)
}

// TestSiteNameByToken: who has a token gets a link under the name of the pages, also
// where the address of the daemon is one of loopback.
func TestSiteNameByToken(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	link := signInLink(d.token(api.TokenBody{Name: "viewer", Scopes: []string{"read"}}))
	at, err := url.Parse(link)
	if err != nil || !strings.HasSuffix(d.addresses[1], ":"+at.Port()) {
		t.Fatalf("%s leads to another port than that of %s: %v", link, d.addresses[1], err)
	}
	r := emptyReviewer(d, "http://"+at.Host)
	r.get(http.StatusOK, at.RequestURI())
	r.get(http.StatusOK, "/ui/")
}

// TestSiteNameTLS: an address of loopback has no pages with TLS either.
func TestSiteNameTLS(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	trust := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: writeCertificate(t, cert, key)}, DisableKeepAlives: true}
	d := newRemote(t, api.ServeOptions{TLSCert: cert, TLSKey: key})
	viewer := d.token(api.TokenBody{Name: "viewer", Scopes: []string{"read"}})
	viewer.site = "https://" + d.addresses[1]
	viewer.client = &http.Client{Transport: bearer{viewer.client.Transport.(bearer).secret, trust}}
	at, err := url.Parse(signInLink(viewer))
	if err != nil {
		t.Fatal(err)
	}
	r := emptyReviewer(d, "http://"+at.Host)
	r.get(http.StatusOK, at.RequestURI())
	r.get(http.StatusOK, "/ui/")
	r.base, r.browser.Transport = viewer.site, trust
	r.elsewhere("/ui/", at.Hostname())
}

// TestSiteQuota: to sign in counts as a request of the token. A quota that is used up
// does not sign the visitor out.
func TestSiteQuota(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenBody{Name: "slow", Scopes: []string{"read"}, Quota: &api.Quota{RequestsPerSecond: 0.01}})
	r := emptyReviewer(d, newReviewer(d).base)
	r.do(http.StatusOK, "POST", "/ui/sign-in", url.Values{"token": {made.Token}})
	for range 2 {
		r.get(http.StatusTooManyRequests, "/ui/")
		r.has("requests_per_second")
		r.lacks("Sign in")
		if r.header.Get("Retry-After") == "" {
			t.Errorf("the answer does not say when to try again: %v", r.header)
		}
	}
	r.do(http.StatusTooManyRequests, "POST", "/ui/sign-in", url.Values{"token": {made.Token}})
	if r.header.Get("Retry-After") == "" {
		t.Errorf("the answer does not say when to try again: %v", r.header)
	}
	d.want(http.StatusNoContent, nil, "DELETE", "/v1/tokens/slow", nil)
	r.get(http.StatusUnauthorized, "/ui/")
	r.has("Your token has ended.")
}

// TestSiteSessions: a visitor who signs in often ends its own sessions only.
func TestSiteSessions(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenBody{Name: "viewer", Scopes: []string{"read"}})
	operator := newReviewer(d)
	first := emptyReviewer(d, operator.base)
	first.do(http.StatusOK, "POST", "/ui/sign-in", url.Values{"token": {made.Token}})
	last := emptyReviewer(d, operator.base)
	for range 20 {
		first.get(http.StatusOK, "/ui/")
		last.do(http.StatusOK, "POST", "/ui/sign-in", url.Values{"token": {made.Token}})
	}
	first.get(http.StatusUnauthorized, "/ui/")
	last.get(http.StatusOK, "/ui/")
	operator.get(http.StatusOK, "/ui/")

	codes := make([]string, 6)
	for i := range codes {
		at, err := url.Parse(signInLink(d))
		if err != nil {
			t.Fatal(err)
		}
		codes[i] = at.RequestURI()
	}
	operator.get(http.StatusUnauthorized, codes[0])
	operator.get(http.StatusOK, codes[1])
}
