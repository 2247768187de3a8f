package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The network is measured with this program as client and as upstream: once with
// nothing between them, once with the client in a cell whose policy lets it make
// the same requests, inspected. Nothing leaves the host.

const (
	largeBody  = 1 << 30
	quickLarge = 128 << 20
)

// via is how a client is started, and by which way it reaches the upstream.
type via struct {
	prefix []string // the command that puts it where it is to be
	self   string   // the client, as seen from there
	env    []string
	reach  reach
}

func (b *bench) clientDir() string { return filepath.Join(b.work, "client") }

func (b *bench) policy(name string) string { return filepath.Join(b.work, name+".yaml") }

func (b *bench) directly(s *site) via {
	return via{self: filepath.Join(b.clientDir(), "client"), reach: reach{Dial: s.addr, CA: s.ca}}
}

func (b *bench) inCell(s *site) via {
	return via{self: "./client", prefix: []string{
		b.program, "--quiet", "run", "--resolve", upstream + ":443=" + s.addr, "--ca", s.ca, "client", "--",
	}}
}

// clientCell makes a cell with this program in it, and policies with a network
// and without.
func (b *bench) clientCell(ctx context.Context) error {
	if err := os.MkdirAll(b.clientDir(), 0o755); err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	inspecting := fmt.Sprintf(`version: 1
network_policies:
  bench:
    name: bench
    endpoints: [{ host: %s, port: 443, protocol: rest, access: read-only }]
    binaries: [{ path: "/**" }]
`, upstream)
	for name, data := range map[string][]byte{
		filepath.Join(b.clientDir(), "client"): self,
		b.policy("network"):                    []byte(inspecting),
		b.policy("offline"):                    []byte("version: 1\n"),
	} {
		if err := os.WriteFile(name, data, 0o755); err != nil {
			return err
		}
	}
	_, err = b.forkcell(ctx, 0, nil, "--json", "init", "client", "--from", b.clientDir(), "--policy", b.policy("network"))
	return err
}

// client runs this program as client, and also returns what processor time the
// process that was started used for the kept requests, and the site.
func (b *bench) client(ctx context.Context, s *site, v via, l load) (r clientReport, used mark, err error) {
	args := append(append([]string{}, v.prefix...), v.self, clientName)
	args = append(append(args, v.reach.args()...), l.args()...)
	cmd := b.command(ctx, b.work, args[0], args[1:]...)
	cmd.Env = append(cmd.Env, v.env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := s.watch(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	}); err != nil {
		return r, used, err
	}
	if err := cmd.Wait(); err != nil {
		return r, used, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return r, s.between(), json.Unmarshal(out.Bytes(), &r)
}

// requests compares those through an inspecting rule with direct ones.
func (b *bench) requests(ctx context.Context) ([]row, error) {
	s, err := b.upstream(ctx)
	if err != nil {
		return nil, err
	}
	l := load{Kept: 2000, Fresh: 200, Large: largeBody}
	if b.quick {
		l = load{Kept: 300, Fresh: 30, Large: quickLarge}
	}
	var own, direct series
	for range b.times(3, 1) {
		r, used, err := b.client(ctx, s, b.directly(s), l)
		if err != nil {
			return nil, err
		}
		direct.add(r, used.watched+used.site)
		if r, used, err = b.client(ctx, s, b.inCell(s), l); err != nil {
			return nil, err
		}
		if err := checkInspected(r); err != nil {
			return nil, err
		}
		own.add(r, used.watched)
	}
	return []row{
		rateRow("keep-alive requests of 1 KiB over HTTPS through an inspecting rule", median(own.rates), median(direct.rates), 0.4, "requests/s"),
		infoRow("the same, processor time of the supervisor for each request, user and system", "direct, client and server together", median(own.used), median(direct.used)),
		ratioRow("the same, a new connection each, p50", "direct", median(own.fresh), median(direct.fresh), 3),
		rateRow("a large download through an inspecting rule", median(own.loads)/1e6, median(direct.loads)/1e6, 0.3, "MB/s"),
	}, nil
}

// mostForProgram is what it may cost to find out the program of a connection.
const mostForProgram = 200 * time.Microsecond

// programs compares a call of connect in a cell, during which the program is found
// out, with one that leads nowhere else.
func (b *bench) programs(ctx context.Context) ([]row, error) {
	s, err := b.upstream(ctx)
	if err != nil {
		return nil, err
	}
	l := load{Kept: 1, Bare: 1000}
	if b.quick {
		l.Bare = 200
	}
	var own, direct []time.Duration
	for range b.times(3, 1) {
		r, _, err := b.client(ctx, s, b.directly(s), l)
		if err != nil {
			return nil, err
		}
		direct = append(direct, r.Bare)
		if r, _, err = b.client(ctx, s, b.inCell(s), l); err != nil {
			return nil, err
		}
		own = append(own, r.Bare)
	}
	cost := median(own) - median(direct)
	return []row{{
		"connecting from a cell, with its program found out meanwhile, p50", show(median(own)), show(median(direct)) + " direct",
		show(cost) + " more", "at most " + show(mostForProgram) + " more", verdict(cost <= mostForProgram),
	}}, nil
}

// checkInspected fails when the client talked to the upstream itself: a tunnel is no
// peer of a proxy that reads.
func checkInspected(r clientReport) error {
	if r.Issuer == upstream {
		return fmt.Errorf("the requests were passed on unread")
	}
	return nil
}

// series has the reports of clients that ran one after the other.
type series struct {
	rates, loads []float64 // requests and bytes in a second
	fresh, used  []time.Duration
}

func (s *series) add(r clientReport, used time.Duration) {
	s.rates = append(s.rates, float64(r.Requests)/r.Kept.Seconds())
	s.used = append(s.used, used/time.Duration(r.Requests))
	s.fresh = append(s.fresh, r.Fresh)
	if r.Downloaded > 0 {
		s.loads = append(s.loads, float64(r.Bytes)/r.Downloaded.Seconds())
	}
}
