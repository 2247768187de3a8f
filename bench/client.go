package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"
)

// clientName is the argument by which this program knows that it is the client.
const clientName = "measure-client"

// load describes the requests that a client makes.
type load struct {
	Kept  int   // requests of 1 KiB on one connection, one after the other
	Fresh int   // requests of 1 KiB on a connection each
	Large int64 // bytes of one download
	Held  int   // connections that are open at once
	Bare  int   // connections over which nothing is sent, one after the other
}

// reach is how a client gets at the upstream. In a cell it needs to be told
// nothing: there the name leads to the upstream, and the system's roots verify it.
type reach struct {
	URL   string // what to ask instead of the upstream's name
	Dial  string // where the upstream really is
	CA    string // the file with the certificates that verify what answers
	Proxy string // the proxy to go through; "env" takes it from HTTPS_PROXY
}

func (l *load) define(f *flag.FlagSet) {
	f.IntVar(&l.Kept, "kept", 0, "requests on one connection")
	f.IntVar(&l.Fresh, "fresh", 0, "requests on a connection each")
	f.Int64Var(&l.Large, "large", 0, "bytes of one download")
	f.IntVar(&l.Held, "held", 0, "connections open at once")
	f.IntVar(&l.Bare, "bare", 0, "connections over which nothing is sent")
}

func (l load) args() []string {
	return []string{
		"-kept=" + strconv.Itoa(l.Kept), "-fresh=" + strconv.Itoa(l.Fresh),
		"-large=" + strconv.FormatInt(l.Large, 10), "-held=" + strconv.Itoa(l.Held), "-bare=" + strconv.Itoa(l.Bare),
	}
}

func (r *reach) define(f *flag.FlagSet) {
	f.StringVar(&r.URL, "url", "https://"+upstream, "what to ask")
	f.StringVar(&r.Dial, "dial", "", "where the upstream is")
	f.StringVar(&r.CA, "ca", "", "certificates")
	f.StringVar(&r.Proxy, "proxy", "", "proxy")
}

func (r reach) args() []string {
	var args []string
	for _, a := range [][2]string{{"url", r.URL}, {"dial", r.Dial}, {"ca", r.CA}, {"proxy", r.Proxy}} {
		if a[1] != "" {
			args = append(args, "-"+a[0]+"="+a[1])
		}
	}
	return args
}

// clientReport has the measurements of a client.
type clientReport struct {
	// Issuer is who vouched for the certificate that the client saw: the
	// upstream itself, unless a proxy inspects.
	Issuer     string        `json:"issuer"`
	Requests   int           `json:"requests"`
	Kept       time.Duration `json:"kept"`
	Fresh      time.Duration `json:"fresh"` // the median of single ones
	Bytes      int64         `json:"bytes"`
	Downloaded time.Duration `json:"downloaded"`
	Held       heldReport    `json:"held"`
	Bare       time.Duration `json:"bare"` // the median of single ones
}

// clientMain is the client.
func clientMain(args []string) error {
	var l load
	var where reach
	f := flag.NewFlagSet(clientName, flag.ContinueOnError)
	l.define(f)
	where.define(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := where.measure(l)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// transport speaks HTTP/1.1 everywhere. Left alone, Go would take HTTP/2 where a
// proxy offers it and the client dials by itself, and compare two protocols.
func (r reach) transport() (*http.Transport, error) {
	t := &http.Transport{MaxIdleConnsPerHost: 1, Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	t.Protocols.SetHTTP1(true)
	t.DialContext = r.dial
	if r.CA != "" {
		pem, err := os.ReadFile(r.CA)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	proxy := r.Proxy
	if proxy == "env" {
		// Not http.ProxyFromEnvironment, which goes to loopback directly.
		if proxy = os.Getenv("HTTPS_PROXY"); proxy == "" {
			return nil, fmt.Errorf("HTTPS_PROXY is not set")
		}
	}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return nil, err
		}
		t.Proxy = http.ProxyURL(u)
	}
	return t, nil
}

func (r reach) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if r.Dial != "" {
		addr = r.Dial
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (r reach) measure(l load) (report clientReport, err error) {
	t, err := r.transport()
	if err != nil {
		return report, err
	}
	if l.Held > 0 {
		report.Held, err = r.hold(t.TLSClientConfig, l.Held)
		return report, err
	}
	c := &session{client: &http.Client{Transport: t}, url: r.URL}
	if err = c.first(); err != nil {
		return report, err
	}
	report.Issuer = c.issuer
	if err = c.kept(l.Kept, &report); err != nil {
		return report, err
	}
	if l.Large > 0 {
		if report.Bytes, report.Downloaded, err = c.get(strconv.FormatInt(l.Large, 10)); err != nil {
			return report, err
		}
	}
	t.DisableKeepAlives = true
	var fresh []time.Duration
	for range l.Fresh {
		t.CloseIdleConnections()
		_, took, err := c.get(small)
		if err != nil {
			return report, err
		}
		fresh = append(fresh, took)
	}
	report.Fresh = median(fresh)
	if l.Bare > 0 {
		report.Bare, err = r.connect(l.Bare)
	}
	return report, err
}

// connect measures how long it takes to make a connection.
func (r reach) connect(n int) (time.Duration, error) {
	to := r.Dial
	if to == "" {
		// Names are not what is measured.
		addrs, err := net.DefaultResolver.LookupHost(context.Background(), upstream)
		if err != nil {
			return 0, err
		}
		to = net.JoinHostPort(addrs[0], "443")
	}
	var took []time.Duration
	for range n {
		begin := time.Now()
		c, err := net.Dial("tcp", to)
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
		if err := c.Close(); err != nil {
			return 0, err
		}
	}
	return median(took), nil
}

// session is a client that has measured something.
type session struct {
	client *http.Client
	url    string
	issuer string
}

// first makes a request that is not measured. Who is put in front of a proxy may
// be there before the proxy is, and asks again.
func (s *session) first() error {
	const patience = 10 * time.Second
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, _, err := s.get(small)
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begin) > patience {
			return err
		}
	}
}

// kept notifies the upstream of its start and end, which then looks at clocks
// that a client in a cell cannot see.
func (s *session) kept(n int, report *clientReport) error {
	if _, _, err := s.get(markPath); err != nil {
		return err
	}
	for range n {
		_, took, err := s.get(small)
		if err != nil {
			return err
		}
		report.Kept += took
	}
	report.Requests = n
	_, _, err := s.get(markPath)
	return err
}

func (s *session) get(path string) (int64, time.Duration, error) {
	begin := time.Now()
	resp, err := s.client.Get(s.url + "/" + path)
	if err != nil {
		return 0, 0, err
	}
	if chain := resp.TLS.PeerCertificates; s.issuer == "" && len(chain) > 0 {
		s.issuer = chain[0].Issuer.CommonName
	}
	n, err := drain(resp)
	return n, time.Since(begin), err
}

// drain reads an answer to its end.
func drain(r *http.Response) (int64, error) {
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", r.Status)
	}
	return io.Copy(io.Discard, r.Body)
}
