package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/rest"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// listeners are where a daemon is reached.
type listeners struct {
	all   []net.Listener
	names []string // as they were asked for
	hosts []string // names by which callers over TCP address the daemon
}

// openListeners makes the listeners: those that the service manager hands over, else those of
// the addresses, else the socket of the home.
func openListeners(home string, o api.ServeOptions, cert *certificate) (d *listeners, err error) {
	d = &listeners{hosts: append([]string{"localhost", "127.0.0.1", "::1"}, o.Hosts...)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	inherited, err := activation.Listeners()
	if err != nil {
		return d, api.Failf(api.CodeSocket, err, "take the sockets of the service manager")
	}
	for i, l := range inherited {
		d.add(l, l.Addr().Network()+":"+l.Addr().String(), cert)
		d.all[i] = rest.InheritedListener{Listener: d.all[i]}
	}
	addresses := o.Listen
	if len(addresses) == 0 && len(inherited) == 0 {
		addresses = []string{"unix:" + home + "/" + SocketName}
	}
	for _, a := range addresses {
		if err := d.listen(a, cert); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d *listeners) listen(address string, cert *certificate) error {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		l, err := rest.ListenUnix(path)
		if err == nil {
			d.add(l, address, nil)
		}
		return err
	}
	if err := checkTCP(address, cert != nil); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return api.Failf(api.CodeSocket, err, "listen on %s", quote.Arg(address))
	}
	d.add(l, l.Addr().String(), cert)
	return nil
}

// checkTCP refuses what would send tokens over a network in the clear.
func checkTCP(address string, encrypted bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return api.Usagef("write unix:PATH or HOST:PORT", "--listen %s: %v", quote.Arg(address), err)
	}
	ip, err := netip.ParseAddr(host)
	if encrypted || host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return api.Refusef(api.CodeUnsupported, "give --tls-cert and --tls-key, or listen on 127.0.0.1", "--listen %s: only loopback works without TLS", quote.Arg(address))
}

func (d *listeners) add(l net.Listener, name string, cert *certificate) {
	if host, _, err := net.SplitHostPort(l.Addr().String()); err == nil {
		d.hosts = append(d.hosts, host)
	}
	if _, isTCP := l.(*net.TCPListener); isTCP && cert != nil {
		l = tls.NewListener(l, cert.config())
	}
	d.all, d.names = append(d.all, l), append(d.names, name)
}

func (d *listeners) close() error {
	var err error
	for _, l := range d.all {
		err = errors.Join(err, l.Close())
	}
	return err
}

// certificate is the daemon's, which can be replaced while it serves.
type certificate struct {
	cert, key string // files in PEM
	current   atomic.Pointer[tls.Certificate]
}

// readCertificate reads the files of the options; it is nil if there are none.
func readCertificate(o api.ServeOptions) (c *certificate, err error) {
	if o.TLSCert == "" && o.TLSKey == "" {
		return c, nil
	}
	if o.TLSCert == "" || o.TLSKey == "" {
		return nil, api.Usagef("give both", "--tls-cert and --tls-key go together")
	}
	c = &certificate{cert: o.TLSCert, key: o.TLSKey}
	return c, c.reload()
}

// reload reads the files again. After an error the certificate is as it was.
func (c *certificate) reload() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return api.Usagef("give files in PEM", "the certificate: %v", err)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if pair := c.current.Load(); pair != nil {
				return pair, nil
			}
			return nil, fmt.Errorf("no certificate")
		},
	}
}
