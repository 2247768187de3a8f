package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// clientName is the argument by which this program knows that it is the client.
const clientName = "measure-client"

// client runs this program as client, on the host or behind a prefix that puts
// it into a cell.
func (b *bench) client(ctx context.Context, addr, self string, prefix []string) (clientReport, error) {
	requests, large := 2000, largeBody
	if b.quick {
		requests, large = 300, quickLarge
	}
	args := append(prefix, self, clientName, strconv.Itoa(requests), strconv.Itoa(large))
	if len(prefix) == 0 {
		args = append(args, addr, filepath.Join(b.work, "ca.pem"))
	}
	cmd := b.command(ctx, b.work, args[0], args[1:]...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	var r clientReport
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%v: %w: %s", args, err, stderr.String())
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// clientMain is the client: requests, body, and on the host where the upstream
// really is and how it is verified. In a cell it needs to know neither.
func clientMain(args []string) error {
	requests, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	t := &http.Transport{ForceAttemptHTTP2: false, MaxIdleConnsPerHost: 1}
	if len(args) == 4 {
		pem, err := os.ReadFile(args[3])
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, args[2])
		}
	}
	c := &http.Client{Transport: t}
	r, err := measureClient(c, t, requests, args[1])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func measureClient(c *http.Client, t *http.Transport, requests int, large string) (r clientReport, err error) {
	get := func(size string) (int64, time.Duration, error) {
		begin := time.Now()
		resp, err := c.Get("https://" + upstream + "/" + size) //nolint:gosec // the upstream is this program too
		if err != nil {
			return 0, 0, err
		}
		n, err := drain(resp)
		return n, time.Since(begin), err
	}
	small := strconv.Itoa(smallBody)
	if _, _, err = get(small); err != nil {
		return r, err
	}
	for range requests {
		_, took, err := get(small)
		if err != nil {
			return r, err
		}
		r.Kept += took
	}
	r.Requests = requests
	if r.Bytes, r.Downloaded, err = get(large); err != nil {
		return r, err
	}
	t.DisableKeepAlives = true
	var fresh []time.Duration
	for range requests / 10 {
		t.CloseIdleConnections()
		_, took, err := get(small)
		if err != nil {
			return r, err
		}
		fresh = append(fresh, took)
	}
	r.Fresh = median(fresh)
	return r, nil
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
