package main

import (
	"strings"
	"testing"
)

// via is the address of the proxy for programs that need it configured.
const via = "http://192.0.2.1:64753"

// trick is a request that a careless proxy reads in another way than the server
// behind it.
type trick struct {
	name, script, want string
	seen               []string // by the first host; the second never sees anything
}

func tricks() []trick {
	// Sent by openssl as it stands, after the handshake.
	tls := func(name string, request ...string) string {
		return "printf '" + strings.ReplaceAll(strings.Join(request, "\\r\\n"), "%", "%%") + "' | timeout 10 openssl s_client -quiet -verify_return_error " + name + " -connect api.example.com:443 2>&1"
	}
	api, curl := "-servername api.example.com", "curl -sS -i --path-as-is "
	return []trick{
		{"allowed", tls(api, "GET /public/a HTTP/1.1", "Host: api.example.com", "Connection: close", "", ""), "200 OK", []string{"GET /public/a"}},
		{"SNI of another host", tls("-servername other.example.com", "GET /public/a HTTP/1.1", "Host: other.example.com", "", ""), "", nil},
		{"SNI of another host, Host of this", tls("-servername other.example.com", "GET /public/a HTTP/1.1", "Host: api.example.com", "", ""), "", nil},
		{"no SNI", tls("-noservername", "GET /public/a HTTP/1.1", "Host: api.example.com", "", ""), "", nil},
		{"Host of another", curl + "--http1.1 -H 'Host: other.example.com' https://api.example.com/public/a", " 421", nil},
		{"authority of another", curl + "--http2 -H 'Host: other.example.com' https://api.example.com/public/a", " 421", nil},
		{"port of another", curl + "-H 'Host: api.example.com:8443' https://api.example.com/public/a", " 421", nil},
		{"two hosts", tls(api, "GET /public/a HTTP/1.1", "Host: api.example.com", "Host: other.example.com", "", ""), " 400", nil},
		{"no host", tls(api, "GET /public/a HTTP/1.1", "Connection: close", "", ""), " 4", nil},
		{"absolute form", tls(api, "GET https://other.example.com/public/a HTTP/1.1", "Host: api.example.com", "Connection: close", "", ""), " 421", nil},
		{"absolute form, plain", tls(api, "GET http://api.example.com/public/a HTTP/1.1", "Host: api.example.com", "Connection: close", "", ""), " 4", nil},
		{"CONNECT within", tls(api, "CONNECT other.example.com:443 HTTP/1.1", "Host: other.example.com:443", "Connection: close", "", ""), " 4", nil},
		{"CONNECT to itself", tls(api, "CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com:443", "Connection: close", "", ""), " 4", nil},
		{"h2c", tls(api, "GET /public/a HTTP/1.1", "Host: api.example.com", "Connection: Upgrade, HTTP2-Settings, close", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "", ""), " 403", nil},
		{"plain HTTP on the port of TLS", curl + "http://api.example.com:443/public/a", " 403", nil},
		{"plain HTTP on the port of TLS, by the proxy", curl + "-x " + via + " http://api.example.com:443/public/a", " 403", nil},
		{"h2c at once", "curl -sS -i -m 10 --http2-prior-knowledge http://api.example.com:443/public/a", "", nil},
		{"smuggled in a length", tls(
			api, "POST /public/a HTTP/1.1", "Host: api.example.com", "Content-Length: 48", "Transfer-Encoding: chunked", "",
			"0", "", "GET /secret HTTP/1.1", "Host: api.example.com", "Connection: close", "", ""), " 403", []string{"POST /public/a"}},
		{"two lengths", tls(
			api, "POST /public/a HTTP/1.1", "Host: api.example.com", "Content-Length: 0", "Content-Length: 44", "",
			"GET /secret HTTP/1.1", "Host: api.example.com", "", ""), " 400", nil},
		{"odd encoding", tls(
			api, "POST /public/a HTTP/1.1", "Host: api.example.com", "Transfer-Encoding: xchunked", "Content-Length: 5", "",
			"0", "", "GET /secret HTTP/1.1", "Host: api.example.com", "", ""), " 501", nil},
		{"space before colon", tls(
			api, "POST /public/a HTTP/1.1", "Host: api.example.com", "Transfer-Encoding : chunked", "Content-Length: 5", "",
			"0", "", "GET /secret HTTP/1.1", "Host: api.example.com", "", ""), " 400", nil},
		{"pipelined", tls(
			api, "GET /public/a HTTP/1.1", "Host: api.example.com", "",
			"GET /secret HTTP/1.1", "Host: api.example.com", "Connection: close", "", ""), " 403", []string{"GET /public/a"}},
		{"dots", curl + "https://api.example.com/public/../secret", " 403", nil},
		{"encoded dots", curl + "https://api.example.com/public/%2e%2e/secret", " 403", nil},
		{"encoded slash", curl + "https://api.example.com/public%2f..%2fsecret", " 403", nil},
		{"encoded slash after dots", curl + "https://api.example.com/public/..%2Fsecret", " 403", nil},
		{"dots with parameters", curl + "'https://api.example.com/public/..;x=1/secret'", " 403", nil},
		{"backslash", curl + "'https://api.example.com/public/..\\secret'", " 403", nil},
		{"encoded NUL", curl + "https://api.example.com/public/a%00", " 403", nil},
		{"above the root", curl + "https://api.example.com/../public/a", " 403", nil},
		{"canonical", curl + "https://api.example.com/secret/..//public/./%61", "200", []string{"GET /public/a"}},
		{"method", curl + "-X DELETE https://api.example.com/public/a", " 403", nil},
		{"method in a header", curl + "-H 'X-HTTP-Method-Override: DELETE' https://api.example.com/public/a", " 403", nil},
		{"path in a header", curl + "-H 'X-Original-URL: /secret' https://api.example.com/public/a", " 403", nil},
		{"explicit proxy", curl + "-x " + via + " https://api.example.com/public/a", " 200", []string{"GET /public/a"}},
		{"explicit proxy, other path", curl + "-x " + via + " https://api.example.com/secret", " 403", nil},
		{"explicit proxy, other host", curl + "-x " + via + " https://elsewhere.example.com/", " 403", nil},
		{"explicit proxy, address", curl + "-x " + via + " https://127.0.0.1/", " 403", nil},
		{"explicit proxy, metadata", curl + "-x " + via + " http://169.254.169.254/latest/meta-data/", " 403", nil},
		{"explicit proxy, SNI of another", "printf 'GET /public/a HTTP/1.1\\r\\nHost: other.example.com\\r\\n\\r\\n' | timeout 10 openssl s_client -quiet" +
			" -proxy 192.0.2.1:64753 -servername other.example.com -connect api.example.com:443 2>&1", "", nil},
	}
}

// TestEgressRequests sends tricks under a policy that allows /public/ of two
// hosts, and checks what the servers get.
func TestEgressRequests(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/curl", "/usr/bin/openssl")
	var refused []trick
	for _, q := range tricks() {
		if q.seen == nil {
			refused = append(refused, q)
			continue
		}
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			sendTricks(t, q)
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		sendTricks(t, refused...)
	})
}

func sendTricks(t *testing.T, list ...trick) {
	t.Helper()
	l := newLab(t)
	first, second := l.site("api.example.com", says(payload)), l.site("other.example.com", says(payload))
	rules := ", port: 443, protocol: rest, rules: [{allow: {method: GET, path: /public/**}}, {allow: {method: POST, path: /public/**}}]"
	scripts := make([]string, len(list))
	for i, q := range list {
		scripts[i] = q.script
	}
	o, said := l.batch(rule("host: api.example.com"+rules+"}, {host: other.example.com"+rules, "/**"), scripts)
	for i, q := range list {
		if !strings.Contains(said[i], q.want) {
			t.Errorf("%s: want %q in:\n%s", q.name, q.want, said[i])
		}
	}
	second.untouched(t)
	if len(list) == 1 {
		first.saw(t, list[0].seen...)
	} else {
		first.untouched(t)
		// Where the handshake fails there is no answer to look at.
		o.denied(networkActivity, "names the server")
		o.denied(networkActivity, "names no server")
	}
}
