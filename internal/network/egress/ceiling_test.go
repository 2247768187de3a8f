package egress_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress"
)

// under is a list of network policies with a ceiling, for any program.
func under(own, ceiling string) string {
	list := func(endpoints string) string {
		return "{api: {endpoints: [" + endpoints + "], binaries: [{path: \"/**\"}]}}"
	}
	return "network_policies: " + list(own) + "\nceilings: [{network_policies: " + list(ceiling) + "}]\n"
}

const ofAPI = "host: api.example.com, port: 443, "

// TestCeilings sends requests under policies with a ceiling. Both must allow each of them,
// and a request is inspected if one of them inspects it.
func TestCeilings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, own, ceiling string
		want               map[string]int // by method and path
	}{
		{
			"patterns without a common one", "{" + ofAPI + `protocol: rest, rules: [{allow: {method: GET, path: "/a*"}}]}`, "{" + ofAPI + `protocol: rest, rules: [{allow: {method: GET, path: "/*b"}}]}`,
			map[string]int{"GET /ab": 200, "GET /a": 403, "GET /b": 403},
		},
		{"only the ceiling inspects", "{" + ofAPI + "protocol: tcp}", "{" + ofAPI + "protocol: rest, access: read-only}", map[string]int{"GET /a": 200, "POST /a": 403}},
		{"only the policy inspects", "{" + ofAPI + "protocol: rest, access: read-only}", "{" + ofAPI + "protocol: tcp}", map[string]int{"GET /a": 200, "POST /a": 403}},
		{
			"a deny rule of the ceiling", "{" + ofAPI + "protocol: rest, access: full}", "{" + ofAPI + `protocol: rest, access: full, deny_rules: [{method: GET, path: "/x/**"}]}`,
			map[string]int{"GET /a": 200, "GET /x/y": 403},
		},
		{
			"audit beside rules that are enforced", "{" + ofAPI + "protocol: rest, access: read-only, enforcement: audit}", "{" + ofAPI + `protocol: rest, rules: [{allow: {method: "*", path: "/a/**"}}]}`,
			map[string]int{"POST /a/b": 200, "POST /b": 403},
		},
		{
			"contents for one, requests for the other", "{" + ofAPI + `protocol: rest, rules: [{allow: {method: POST, path: "/graphql"}}]}`, "{" + ofAPI + `protocol: graphql, path: "/**", access: read-only}`,
			map[string]int{"POST /graphql": 200, "POST /other": 403, "MUTATE /graphql": 403},
		},
		{"another host", "{" + ofAPI + "protocol: rest, access: full}", "{host: other.example.com, port: 443, protocol: rest, access: full}", map[string]int{"GET /a": 0}},
		{"encoded slashes", "{" + ofAPI + "protocol: rest, access: full, allow_encoded_slash: true}", "{" + ofAPI + "protocol: rest, access: full}", map[string]int{"GET /a%2fb": 403, "GET /a": 200}},
		{"plain HTTP for one only", "{" + ofAPI + "protocol: rest, access: full, tls: off}", "{" + ofAPI + "protocol: rest, access: full}", map[string]int{"GET /a": 403}},
		{
			"contents of two protocols", "{" + ofAPI + `protocol: json-rpc, rules: [{allow: {method: "*"}}]}`, "{" + ofAPI + `protocol: graphql, access: full}`,
			map[string]int{"POST /graphql": 403},
		},
		{
			"signed by one only", "{" + ofAPI + "protocol: rest, access: full, credential_signing: sigv4, signing_service: s3}", "{" + ofAPI + "protocol: rest, access: full}",
			map[string]int{"GET /a": 403},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newCell(t, under(c.own, c.ceiling))
			x.serve(api, 443, http.HandlerFunc(mirror))
			for ask, want := range c.want {
				method, path, _ := strings.Cut(ask, " ")
				body := ""
				switch {
				case method == "MUTATE":
					method, body = "POST", `{"query":"mutation { drop }"}`
				case method == "POST" && strings.Contains(c.ceiling, "graphql"):
					body = `{"query":"query { a }"}`
				}
				if got := x.ask(method, path, body); got != want {
					t.Errorf("%s: %d, want %d", ask, got, want)
				}
			}
		})
	}
}

// ask sends a request to api.example.com and returns the status; 0 if the connection was refused.
func (c *cell) ask(method, path, body string) int {
	req, err := http.NewRequestWithContext(context.Background(), method, "https://"+api+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client(false).Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// recorder is a dialer that records the addresses that a host may have.
type recorder struct{ allowed chan []netip.Prefix }

func (r recorder) Dial(_ context.Context, _ string, _ uint16, allowed []netip.Prefix) (net.Conn, error) {
	r.allowed <- allowed
	return nil, egress.ErrDestination
}

// TestCeilingAddresses: a host may have the addresses that the policy and the ceiling allow. No
// list means public ones, and is not what an empty intersection becomes.
func TestCeilingAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, own, ceiling, want string }{
		{"equal", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8"},
		{"narrower", "10.0.0.0/8, 192.168.0.0/16", "10.1.0.0/16", "10.1.0.0/16"},
		{"narrower policy", "10.1.0.0/16", "10.0.0.0/8, 192.168.0.0/16", "10.1.0.0/16"},
		{"none in common", "10.0.0.0/8", "192.168.0.0/16", "0.0.0.0/32"},
		{"private and public", "10.0.0.0/8", "", "0.0.0.0/32"},
		{"public and private", "", "10.0.0.0/8", "0.0.0.0/32"},
		{"some public", "140.82.112.0/20, 10.0.0.0/8, 8.0.0.0/5", "", "140.82.112.0/20"},
		{"both public", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			endpoint := func(ips string) string {
				if ips == "" {
					return "{" + ofAPI + "protocol: tcp}"
				}
				return "{" + ofAPI + "protocol: tcp, allowed_ips: [" + ips + "]}"
			}
			dials := recorder{make(chan []netip.Prefix, 1)}
			x := newCell(t, under(endpoint(c.own), endpoint(c.ceiling)), func(cfg *egress.Config) { cfg.Dialer = dials })
			if got := x.ask("GET", "/", ""); got != 0 {
				t.Errorf("status %d", got)
			}
			var got []string
			for _, p := range <-dials.allowed {
				got = append(got, p.String())
			}
			if !slices.Equal(got, strings.FieldsFunc(c.want, func(r rune) bool { return r == ' ' })) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestCeilingOfPrograms: a ceiling may list other programs for a host.
func TestCeilingOfPrograms(t *testing.T) {
	t.Parallel()
	const list = "network_policies: {api: {endpoints: [{" + ofAPI + "protocol: rest, access: full}], binaries: [{path: "
	for binary, want := range map[string]int{curl: 200, "/usr/bin/wget": 0, "\"/**\"": 200, "\"/usr/**\"": 200} {
		x := newCell(t, list+curl+"}]}}\nceilings: [{"+list+binary+"}]}}}]")
		x.serve(api, 443, http.HandlerFunc(mirror))
		if got := x.ask("GET", "/", ""); got != want {
			t.Errorf("%s: %d, want %d", binary, got, want)
		}
	}
}
