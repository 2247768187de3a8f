package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/authority"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	synthetic "github.com/forkcell/forkcell/internal/network/egress/names"
	"github.com/forkcell/forkcell/internal/policy"
)

// proxied is a real proxy under a policy. One listener replaces the capture,
// and one upstream replaces all servers.
type proxied struct {
	at, upstream string
	table        synthetic.Table
	to           egress.Destination
}

func (p *proxied) Dial(ctx context.Context, _ string, _ uint16, _ []netip.Prefix) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", p.upstream)
}

const (
	proxiedHost   = "api.example"
	proxiedBinary = "/usr/bin/curl"
)

func newProxied(t *testing.T, rules string) *proxied {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "upstream") }))
	t.Cleanup(server.Close)
	p := &proxied{upstream: server.Listener.Addr().String()}
	addr, _, err := p.table.Assign(proxiedHost)
	must(err)
	p.to = egress.Destination{Addr: netip.AddrPortFrom(addr, 80)}
	parsed, err := policy.Parse("p.yaml", []byte(rules), policy.Options{})
	must(err)
	none, err := credential.NewSet(nil, nil)
	must(err)
	ca, err := authority.New("test")
	must(err)
	proxy, err := egress.New(egress.Config{
		Generation: &egress.Generation{Policy: parsed, Hash: parsed.Hash(), Credentials: none}, Names: &p.table,
		Destination: func(net.Conn) (egress.Destination, error) { return p.to, nil },
		Attribute:   func(net.Conn) (egress.Process, error) { return egress.Process{PID: 7, Binary: proxiedBinary}, nil },
		Dialer:      p, Authority: ca,
	})
	must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	p.at = l.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = proxy.Serve(context.Background(), l) }()
	t.Cleanup(func() { _ = l.Close(); _ = proxy.Close(); <-done })
	return p
}

// answer sends a request byte for byte. Status 0 for none.
func (p *proxied) answer(t *testing.T, method, target string, header []string) (status int, said policy.Explanation) {
	t.Helper()
	// A connection that is refused is reset, which may show at any step.
	conn, err := net.Dial("tcp", p.at)
	if err != nil {
		return 0, said
	}
	defer conn.Close()
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: " + p.host(), "Connection: close"}, header...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return 0, said
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, said
	}
	defer res.Body.Close()
	if res.Header.Get("X-Forkcell-Policy") == "denied" && method != http.MethodHead {
		if err := json.NewDecoder(res.Body).Decode(&said); err != nil {
			t.Error(err)
		}
	}
	return res.StatusCode, said
}

// host is the Host header of requests to it.
func (p *proxied) host() string {
	return net.JoinHostPort(proxiedHost, strconv.Itoa(int(p.to.Addr.Port())))
}

// TestExplainScheme asks both about plain HTTP on a port other than 80.
func TestExplainScheme(t *testing.T) {
	t.Parallel()
	for _, tls := range []string{"auto", "off"} {
		rules := "version: 1\nnetwork_policies: {api: {binaries: [{path: " + proxiedBinary + "}], endpoints: [" +
			"{host: api.example, port: 443, protocol: rest, access: read-only, tls: " + tls + "}]}}\n"
		p := newProxied(t, rules)
		p.to.Addr = netip.AddrPortFrom(p.to.Addr.Addr(), 443)
		same(t, p, rules, "GET", "/a")
		same(t, p, rules, "POST", "/a")
	}
}

// TestExplainIsTheProxy asks `policy explain` and a proxy the same questions.
func TestExplainIsTheProxy(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nnetwork_policies: {api: {binaries: [{path: " + proxiedBinary + "}], endpoints: ["
	for name, entries := range map[string]string{
		"rules": `{host: api.example, port: 80, protocol: rest, rules: [
			{allow: {method: GET, path: "/ok/**"}}, {allow: {method: PUT, path: "/ok/put"}}, {allow: {method: GET, path: "/q", query: {n: {any: ["1"]}}}},
			{allow: {method: GET, path: "/at/%40"}}, {allow: {method: GET, path: "/both/%40"}}, {allow: {method: GET, path: "/both/@"}}, {allow: {method: GET, path: "/odd/%7B"}}]}`,
		"deny":   `{host: api.example, port: 80, protocol: rest, access: full, deny_rules: [{method: "*", path: "/ok/secret"}, {method: DELETE, path: "/**"}, {method: "*", path: "/at/@"}]}`,
		"slash":  `{host: api.example, port: 80, protocol: rest, allow_encoded_slash: true, rules: [{allow: {method: GET, path: "/ok/*"}}, {allow: {method: GET, path: "/ok/put/**"}}]}`,
		"audit":  `{host: api.example, port: 80, protocol: rest, enforcement: audit, rules: [{allow: {method: GET, path: "/ok/**"}}]}`,
		"paths":  `{host: api.example, port: 80, path: "/ok/**", protocol: rest, access: read-only}, {host: api.example, port: 80, path: "/ok/put", protocol: rest, access: read-write}`,
		"socket": `{host: api.example, port: 80, protocol: websocket, access: read-only}`,
		"other":  `{host: other.example, port: 80, protocol: rest, access: full}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := head + entries + "]}}\n"
			p := newProxied(t, rules)
			for i, target := range targets() {
				same(t, p, rules, "GET", target)
				if i >= 12 {
					continue // the rest differ by their paths alone
				}
				for _, method := range []string{"HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get", "WEBSOCKET_TEXT", "FROB"} {
					same(t, p, rules, method, target)
				}
				for _, header := range headers() {
					same(t, p, rules, "GET", target, header)
				}
			}
		})
	}
}

func targets() []string {
	return []string{
		"/", "/ok/", "/ok/a", "/ok/put", "/ok/secret", "/ok/%73ecret", "/ok/SECRET", "/nope", "/ok/../nope", "/nope/../ok/a", "/ok/%2e%2e/nope", "/ok/..;x/nope",
		"/ok/..%2fnope", "/ok/a%2Fb", "/ok/a%2fb", "/ok/put/a%2Fb", "/ok/a\\b", "/ok/a%5Cb", "/ok/%00", "/ok/%0a", "/ok/%7f", "/ok/%zz", "/ok/%", "/ok/\xc3\xa9", "/ok/%C3%A9",
		"/ok/a#b", "//ok/a", "/ok//a", "/ok/./a", "/../ok/a", "/ok/" + strings.Repeat("a", 4100), "/ok/%252e%252e/nope", "/ok/a;b=c",
		"/ok/%2573ecret", "/%256fk/a", "/ok%2Fsecret", "/ok/a%2Fsecret", "/ok/a%2f..%5csecret", "/at%2F%2540",
		"/at/%40", "/at/@", "/both/%40", "/both/@", "/odd/{", "/odd/%7b", "/odd/\"<>^`{|}[]", "/ok/%21%24%26", "/ok/%2A", "/ok/*",
		"/q", "/q?n=1", "/q?n=2", "/q?n=1&n=2", "/q?n=%31", "/q?n=1;m=2", "/q?n=%zz", "/q?n=1#x", "/q?n=\xc3", "/ok/a?", "/ok/a?b?c",
	}
}

func headers() []string {
	return []string{
		"X-HTTP-Method-Override: PUT", "X-HTTP-Method: delete", "X-Method-Override:  GET ", "x-http-method-override: FROB", "X-HTTP-Method-Override:",
		"X-Original-URL: /ok/a", "X_Original_URL: /ok/a", "X_HTTP-Method: GET", "X_Plain: a", "X-Rewrite-Url: /", "Upgrade: h2c", "Upgrade: websocket", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", "X-Forwarded-Method: PUT",
	}
}

// same compares decision, rule and reason. A request that net/http itself
// refuses has no reason from the policy, and must not be allowed.
func same(t *testing.T, p *proxied, rules, method, target string, header ...string) {
	t.Helper()
	status, said := p.answer(t, method, target, header)
	q := engine.PolicyQuestion{Request: &policy.Request{Host: proxiedHost, Port: p.to.Addr.Port(), Scheme: policy.HTTP, Binary: proxiedBinary, Method: method}, Header: map[string][]string{}}
	q.Request.Path, q.RawQuery, _ = strings.Cut(target, "?")
	for _, h := range header {
		key, value, _ := strings.Cut(h, ":")
		key = textproto.CanonicalMIMEHeaderKey(key)
		q.Header[key] = append(q.Header[key], strings.TrimSpace(value))
	}
	ref := engine.PolicyRef{File: &api.PolicyFile{Name: "p.yaml", Text: []byte(rules)}}
	x, err := engine.New(engine.Config{}).ExplainPolicy(t.Context(), ref, q)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSpace(method + " " + target[:min(len(target), 60)] + " " + strings.Join(header, " "))
	forwarded := status == http.StatusOK || status == http.StatusBadGateway
	switch {
	case x.Allowed != forwarded:
		t.Errorf("%s: explain says %+v, the proxy %d %+v", line, x, status, said)
	case status == http.StatusForbidden && method != http.MethodHead && (x.Rule != said.Rule || x.Reason != said.Reason):
		t.Errorf("%s: explain says %q, %q; the proxy %q, %q", line, x.Rule, x.Reason, said.Rule, said.Reason)
	}
}

// TestDenialDocument: the answer to a denied program.
func TestDenialDocument(t *testing.T) {
	t.Parallel()
	p := newProxied(t, "version: 1\nnetwork_policies: {api: {binaries: [{path: "+proxiedBinary+"}], endpoints: ["+
		"{host: api.example, port: 80, protocol: rest, rules: [{allow: {method: GET, path: /ok}}]}]}}\n")
	res, err := p.client().Post("http://"+proxiedHost+"/a/../b?secret=1", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"error": "denied_by_policy", "reason": `no rule of the entry allows POST "/b"`, "rule": "network_policies.api.endpoints[0]",
		"layer": "request", "protocol": "rest", "method": "POST", "host": proxiedHost, "port": 80.0, "path": "/b", "binary": proxiedBinary,
		"hint": `rules: [{allow: {method: POST, path: "/b"}}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" || res.StatusCode != http.StatusForbidden || res.Header.Get("X-Forkcell-Policy") != "denied" {
		t.Errorf("%d %v\n%s", res.StatusCode, res.Header, diff)
	}
}

// client connects to the proxy for every destination.
func (p *proxied) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", p.at)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}
