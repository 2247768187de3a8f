package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// proxy is another program that reads HTTPS requests on their way. None is
// installed for the occasion: those that are there are measured.
type proxy struct {
	name   string
	about  string // with its version
	way    via
	stop   func()
	rates  []float64
	failed error
}

// proxies puts the same requests through whatever else is installed that
// terminates TLS.
func (b *bench) proxies(ctx context.Context) ([]row, error) {
	s, err := b.upstream(ctx)
	if err != nil {
		return nil, err
	}
	peers := b.installedProxies(ctx, s)
	defer func() {
		for _, p := range peers {
			p.stop()
		}
	}()
	if len(peers) == 0 {
		return nil, nil
	}
	own := &proxy{way: b.inCell(s)}
	l := load{Kept: 2000}
	if b.quick {
		l.Kept = 300
	}
	for range b.times(3, 1) {
		if err := b.requestThrough(ctx, s, own, l); err != nil {
			return nil, err
		}
		// One that fails after all does not cost the others their rows.
		for _, p := range peers {
			if p.failed == nil {
				p.failed = b.requestThrough(ctx, s, p, l)
			}
		}
	}
	var rows []row
	for _, p := range peers {
		if p.failed != nil {
			progress("%s is not compared: %v", p.name, p.failed)
			continue
		}
		rows = append(rows, infoRateRow("keep-alive requests of 1 KiB over HTTPS, against "+p.name,
			median(own.rates), median(p.rates), "requests/s", p.about))
	}
	return rows, ctx.Err()
}

// requestThrough makes requests by way of a proxy that must read them.
func (b *bench) requestThrough(ctx context.Context, s *site, p *proxy, l load) error {
	r, _, err := b.client(ctx, s, p.way, l)
	if err != nil {
		return err
	}
	p.rates = append(p.rates, float64(r.Requests)/r.Kept.Seconds())
	return checkInspected(r)
}

// installedProxies are the proxies that are there and answer a request that they have
// read. Why another one is not compared is said.
func (b *bench) installedProxies(ctx context.Context, s *site) []*proxy {
	var peers []*proxy
	for _, candidate := range []struct {
		program string
		prepare func(context.Context, *site) (*proxy, error)
	}{{"mitmdump", b.mitmdump}, {"srt", b.sandboxRuntime}} {
		if _, err := exec.LookPath(candidate.program); err != nil {
			progress("%s is not installed, and not compared", candidate.program)
			continue
		}
		p, err := candidate.prepare(ctx, s)
		if err != nil {
			progress("%s is not compared: %v", candidate.program, err)
			continue
		}
		if err := b.requestThrough(ctx, s, p, load{Kept: 1}); err != nil {
			progress("%s is not compared: %v", candidate.program, err)
			p.stop()
			continue
		}
		p.rates = nil // the first time does not count
		peers = append(peers, p)
	}
	return peers
}

// mitmdump is mitmproxy without a screen. It verifies the upstream, as Forkcell
// does; its own certificates are made anew.
func (b *bench) mitmdump(ctx context.Context, s *site) (*proxy, error) {
	version, err := versionOf(ctx, "mitmdump", "Mitmproxy:")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.work, "mitmproxy")
	cmd := b.command(ctx, b.work, "mitmdump", "--quiet", "--listen-host", host, "--listen-port", port,
		"--set", "confdir="+dir, "--set", "ssl_verify_upstream_trusted_ca="+s.ca)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	running, ended := context.WithCancelCause(ctx)
	go func() { ended(fmt.Errorf("it ended: %w", cmd.Wait())) }()
	p := &proxy{
		name: "mitmproxy", about: "`mitmdump` " + version,
		way: via{self: b.directly(s).self, reach: reach{
			URL: "https://" + s.addr, Proxy: "http://" + addr, CA: filepath.Join(dir, "mitmproxy-ca-cert.pem"),
		}},
		stop: func() {
			_ = cmd.Process.Kill()
			<-running.Done()
		},
	}
	if err := reachable(running, addr); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// sandboxRuntime is Anthropic's, whose proxy terminates TLS when it is told to.
// It runs the client in a sandbox, from which two relays lead to the proxy.
func (b *bench) sandboxRuntime(ctx context.Context, s *site) (*proxy, error) {
	version, err := versionOf(ctx, "srt", "")
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(map[string]any{
		"network": map[string]any{
			"allowedDomains": []string{s.addr}, "deniedDomains": []string{}, "tlsTerminate": map[string]any{},
		},
		"filesystem": map[string]any{"denyRead": []string{}, "allowWrite": []string{}, "denyWrite": []string{}},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.work, "srt.json")
	if err := os.WriteFile(file, settings, 0o644); err != nil {
		return nil, err
	}
	return &proxy{
		name: "sandbox-runtime", about: "`srt` " + version, stop: func() {},
		way: via{
			prefix: []string{"srt", "--settings", file, "--"}, self: b.directly(s).self,
			env: []string{"NODE_EXTRA_CA_CERTS=" + s.ca}, reach: reach{URL: "https://" + s.addr, Proxy: "env"},
		},
	}, nil
}

// versionOf is the first line that a program says about its version, without the
// word before it.
func versionOf(ctx context.Context, program, word string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, word)), nil
}

// freeAddress is one on loopback where nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// reachable waits for a program that says nothing when it is ready.
func reachable(ctx context.Context, addr string) error {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing listens at %s: %w", addr, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
