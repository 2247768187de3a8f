package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// newRemote starts a daemon on loopback, besides its socket.
func newRemote(t *testing.T, o api.ServeOptions) *testDaemon {
	t.Helper()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	o.Listen = []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}
	d.start(o)
	return d
}

// token makes a token, and returns a client over TCP that uses it.
func (d *testDaemon) token(b api.TokenBody) *testDaemon {
	d.Helper()
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", b)
	return d.remote(made.Token)
}

// remote is a client over TCP.
func (d *testDaemon) remote(secret string) *testDaemon {
	other := *d
	other.site = "http://" + d.addresses[1]
	other.client = &http.Client{Transport: bearer{secret, &http.Transport{DisableKeepAlives: true}}}
	return &other
}

// bearer adds a token to requests.
type bearer struct {
	secret string
	http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.secret != "" {
		r.Header.Set("Authorization", "Bearer "+b.secret)
	}
	return b.RoundTripper.RoundTrip(r)
}

// TestScopes sends requests with tokens that may do less than is asked.
func TestScopes(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	none, wrong := d.remote(""), d.remote("fct_"+strings.Repeat("x", 43))
	for _, who := range []*testDaemon{none, wrong} {
		who.problem(401, api.CodeUnauthenticated, "GET", "/v1/cells", nil)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "bearer fct_x", "Basic cm9vdDo=", "fct_x"} {
		d.problem(401, api.CodeUnauthenticated, "GET", "/v1/cells", nil, "Authorization", header) // over the socket
	}
	none.want(200, nil, "GET", "/healthz", nil)
	none.want(200, nil, "GET", "/version", nil)
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	decider := d.token(api.TokenBody{Name: "decider", Scopes: []string{"run", "decide"}})
	run := api.RunBody{Command: []string{"true"}}
	reader.want(200, nil, "GET", "/v1/cells/demo", nil)
	reader.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/runs", run)
	var res api.RunAnswer
	runner.want(200, &res, "POST", "/v1/cells/demo/runs", run)
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/accept", nil)
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}, AcceptOnSuccess: true})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/runs",
		api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{AllowDegraded: true}})
	runner.problem(403, api.CodeForbidden, "GET", "/v1/tokens", nil)
	decider.want(200, nil, "POST", "/v1/cells/demo/accept", nil)
	var decisions api.List[api.DecisionInfo]
	reader.want(200, &decisions, "GET", "/v1/decisions", nil)
	if len(decisions.Items) != 1 || decisions.Items[0].Actor != "decider" {
		t.Errorf("%+v", decisions)
	}
}

// TestHostPaths names directories of the host with a token.
func TestHostPaths(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(d.source, "inside")
	d.write("inside/a", "a\n")
	if err := os.Symlink("/", filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}, AllowSource: []string{inside}})
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run", "decide"}})
	runner.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "in", Source: &api.Source{Path: inside}})
	for _, path := range []string{d.source, inside + "/..", inside + "/out/etc", inside + "x", "/etc"} {
		runner.problem(403, api.CodeForbidden, "POST", "/v1/cells", api.CreateCell{Source: &api.Source{Path: path}})
		runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/in/apply", api.ApplyRequest{To: path})
	}
	runner.problem(400, api.CodeUsage, "POST", "/v1/cells", api.CreateCell{Source: &api.Source{Path: "relative"}})
}

// TestSourceInsideSecrets: what the secret rules leave out of an allowed directory is no
// source and no target of its own, and a directory that is one keeps its secrets.
func TestSourceInsideSecrets(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"u/.aws/credentials", "u/.aws/sub/x", "u/.ssh/config", "u/.docker/config.json", "u/.docker/notes", "u/.kube/config", "app/a"} {
		d.write(name, "SECRET\n")
	}
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}, AllowSource: []string{d.source}})
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run", "decide"}, AllowControl: []string{"**"}})
	runner.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "app", Source: &api.Source{Path: filepath.Join(d.source, "app")}})
	for _, dir := range []string{"u/.aws", "u/.aws/sub", "u/.ssh"} {
		path := filepath.Join(d.source, dir)
		runner.problem(403, api.CodeForbidden, "POST", "/v1/cells", api.CreateCell{Source: &api.Source{Path: path}})
		runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/app/apply", api.ApplyRequest{To: path, DryRun: true})
	}
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "aws", Source: &api.Source{Path: filepath.Join(d.source, "u/.aws")}})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/aws/refresh", nil)
	for dir, files := range map[string]int64{"u/.docker": 1, "u/.kube": 0} {
		for who, c := range map[string]*testDaemon{"runner": runner, "operator": d} {
			var made api.InitResult
			c.want(201, &made, "POST", "/v1/cells", api.CreateCell{Source: &api.Source{Path: filepath.Join(d.source, dir)}})
			if made.Files != files || len(made.LeftOut) != 1 {
				t.Errorf("%s: %s: %+v", who, dir, made)
			}
		}
	}
}

// TestPrefix uses a token that sees some of the cells.
func TestPrefix(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-one")
	d.cell("b-one")
	var foreign api.RunAnswer
	d.want(200, &foreign, "POST", "/v1/cells/b-one/runs", api.RunBody{Command: []string{"true"}})
	team := d.token(api.TokenBody{Name: "team-a", Scopes: []string{"run", "decide"}, Cells: "a-"})
	var cells api.List[api.CellInfo]
	team.want(200, &cells, "GET", "/v1/cells", nil)
	if len(cells.Items) != 1 || cells.Items[0].Name != "a-one" {
		t.Errorf("%+v", cells)
	}
	for _, path := range []string{"/v1/cells/b-one", "/v1/runs/" + foreign.RunID, "/v1/receipts/" + foreign.ReceiptID, "/v1/receipts?cell=b-one"} {
		team.problem(404, api.CodeNotFound, "GET", path, nil)
	}
	team.problem(404, api.CodeNotFound, "POST", "/v1/cells/b-one/runs", api.RunBody{Command: []string{"true"}})
	team.problem(403, api.CodeForbidden, "POST", "/v1/cells/a-one/fork", api.ForkBody{Name: "b-two"})
	team.problem(404, api.CodeNotFound, "POST", "/v1/policies/explain", api.ExplainBody{Cell: "b-one", Path: "/x"})
	var own api.RunAnswer
	team.want(200, &own, "POST", "/v1/cells/a-one/runs", api.RunBody{Command: []string{"true"}})
	d.want(200, nil, "POST", "/v1/cells/b-one/runs", api.RunBody{Command: []string{"true"}})
	var runs api.List[api.RunInfo]
	team.want(200, &runs, "GET", "/v1/runs?limit=1", nil) // others are not counted either
	if len(runs.Items) != 1 || runs.Items[0].RunID != own.RunID || runs.Next != nil {
		t.Errorf("%+v", runs)
	}
	for _, list := range []string{"/v1/runs", "/v1/receipts", "/v1/decisions", "/v1/graph"} {
		if r := team.send("GET", list, nil); strings.Contains(string(r.body), "b-one") {
			t.Errorf("%s: %s", list, r.body)
		}
	}
}

// TestQuotas uses up the quota of a token.
func TestQuotas(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	d.want(201, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "other"})
	one := d.token(api.TokenBody{Name: "one", Scopes: []string{"run"}, Quota: &api.Quota{Runs: 1}})
	var begun api.RunStarted
	one.want(202, &begun, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sleep", "1000"}}, "Prefer", "respond-async")
	one.problem(429, api.CodeQuota, "POST", "/v1/cells/other/runs", api.RunBody{Command: []string{"true"}})
	one.want(202, nil, "POST", "/v1/runs/"+begun.RunID+"/cancel", nil)
	slow := d.token(api.TokenBody{Name: "slow", Scopes: []string{"read"}, Quota: &api.Quota{RequestsPerSecond: 0.01}})
	slow.want(200, nil, "GET", "/v1/cells", nil)
	var p api.Problem
	if h := slow.want(429, &p, "GET", "/v1/cells", nil); h.Get("Retry-After") == "" {
		t.Errorf("%v", h)
	}
	limited := d.token(api.TokenBody{Name: "limited", Scopes: []string{"run"}, Quota: &api.Quota{Memory: 1 << 30}})
	limited.problem(422, api.CodeQuota, "POST", "/v1/cells/other/runs", api.RunBody{Command: []string{"true"}})
	large := api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{Memory: "2GiB"}}
	// More than the whole quota: a client that waits would wait forever.
	if h := limited.want(429, &p, "POST", "/v1/cells/other/runs", large); h.Get("Retry-After") != "" || p.Hint != "ask for less; waiting does not help" {
		t.Errorf("%v %+v", h, p)
	}
}

// TestRevokedInTheMiddle revokes a token while a run streams to its caller.
func TestRevokedInTheMiddle(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	ended := make(chan reply)
	go func() {
		ended <- runner.send("POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sleep", "1000"}}, "Accept", "text/event-stream")
	}()
	var runs api.List[api.RunInfo]
	for len(runs.Items) == 0 {
		d.want(200, &runs, "GET", "/v1/runs", nil)
	}
	d.want(204, nil, "DELETE", "/v1/tokens/runner", nil)
	if r := <-ended; !strings.Contains(string(r.body), `"outcome":"interrupted"`) {
		t.Errorf("%s", r.body)
	}
	runner.problem(401, api.CodeUnauthenticated, "GET", "/v1/cells", nil)
}

// TestSites sends what a browser would send for a foreign page.
func TestSites(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{Hosts: []string{"cells.example.com"}})
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	get := func(host, origin string) int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", reader.site+"/v1/cells", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := reader.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	own := d.addresses[1]
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{own, "", 200},
		{"localhost:1", "", 200},
		{"cells.example.com", "", 200},
		{"evil.example.com", "", 421},
		{own, "http://" + own, 200},
		{own, "https://" + own, 403},
		{own, "http://evil.example.com", 403},
		{own, "null", 403},
	} {
		if got := get(c.host, c.origin); got != c.want {
			t.Errorf("host %q, origin %q: %d, want %d", c.host, c.origin, got, c.want)
		}
	}
}

// TestTLS serves over TLS, and refuses a network without it.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := writeCertificate(t, cert, key)
	d := newRemote(t, api.ServeOptions{TLSCert: cert, TLSKey: key})
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	secret := reader.client.Transport.(bearer).secret
	reader.site = "https://" + d.addresses[1]
	reader.client = &http.Client{Transport: bearer{secret, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}}
	reader.want(200, nil, "GET", "/v1/cells", nil)

	err := daemon.Serve(t.Context(), filepath.Join(dir, "home"), api.ServeOptions{Listen: []string{"0.0.0.0:0"}}, os.Stderr, func([]string) error { return nil })
	if api.KindOf(err) != api.Refused {
		t.Errorf("plain TCP on a network: %v", err)
	}
}

func writeCertificate(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// TestNoDecisionByOtherMeans: a token that may not decide leaves no accepted work, and
// changes no directory of the host.
func TestNoDecisionByOtherMeans(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"touch", "new"}, AcceptOnSuccess: true})
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "live", Source: &api.Source{Path: d.source}, Backend: "delta"})
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/restore", api.RestoreRequest{Checkpoint: "base"})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/live/runs", api.RunBody{Command: []string{"true"}})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/live/fork", api.ForkBody{Name: "made"})
	execute := api.ExecBody{Command: []string{"touch", "made"}}
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/live/start", nil)
	d.want(200, nil, "POST", "/v1/cells/live/start", nil)
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/live/exec", execute)
	d.want(200, nil, "POST", "/v1/cells/live/pause", api.PauseRequest{FSOnly: true})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/live/resume", nil)
	d.want(200, nil, "POST", "/v1/cells/live/stop", nil)
	if _, err := os.Stat(filepath.Join(d.source, "made")); err == nil {
		t.Error("a token without decide has written to the directory")
	}
	decider := d.token(api.TokenBody{Name: "decider", Scopes: []string{"run", "decide"}})
	for _, path := range []string{"/v1/cells/demo", "/v1/cells/demo?force=true"} {
		runner.problem(403, api.CodeForbidden, "DELETE", path, nil)
	}
	d.want(201, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "copy"}) // demo has its work too
	runner.want(204, nil, "DELETE", "/v1/cells/copy", nil)
	decider.want(200, nil, "POST", "/v1/cells/demo/restore", api.RestoreRequest{Checkpoint: "base"})
	decider.problem(403, api.CodeForbidden, "POST", "/v1/cells/live/runs", api.RunBody{Command: []string{"true"}}) // outside of --allow-source
	// The directory of a fork belongs to the home, and is none that --allow-source names.
	decider.want(201, nil, "POST", "/v1/cells/live/fork", api.ForkBody{Name: "forked"})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/forked/runs", api.RunBody{Command: []string{"true"}})
	decider.want(200, nil, "POST", "/v1/cells/forked/runs", api.RunBody{Command: []string{"touch", "made"}})
	decider.want(204, nil, "DELETE", "/v1/cells/forked?force=true", nil)
}

// TestOwnPolicyIsBounded sends a policy that allows more than that of the cell.
func TestOwnPolicyIsBounded(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	wide := "version: 1\nprocess:\n  allow_syscalls: [io_uring_setup]\n"
	run := api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{Policy: wide}}
	granted := run
	granted.GrantSyscalls = []string{"io_uring_setup"}
	var own, bounded, ceiling api.RunAnswer
	d.problem(422, api.CodeGrant, "POST", "/v1/cells/demo/runs", run)
	d.want(200, &own, "POST", "/v1/cells/demo/runs", granted)
	runner.want(200, &bounded, "POST", "/v1/cells/demo/runs", run)
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/runs", granted)
	allowed := d.token(api.TokenBody{Name: "allowed", Scopes: []string{"run"}, Policy: wide})
	for _, body := range []api.RunBody{run, granted} {
		allowed.want(200, &ceiling, "POST", "/v1/cells/demo/runs", body)
		if ceiling.PolicyHash != own.PolicyHash || ceiling.Controls.Seccomp != own.Controls.Seccomp {
			t.Errorf("%+v\n%+v", own, ceiling)
		}
	}
	granted.GrantSyscalls = []string{"bpf"}
	allowed.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/runs", granted)
	if own.PolicyHash == bounded.PolicyHash || own.Controls.Seccomp == bounded.Controls.Seccomp {
		t.Errorf("%+v\n%+v", own, bounded)
	}
}
