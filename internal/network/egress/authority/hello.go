package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The reasons why a ClientHello cannot be read. PeekHello returns the bytes
// read so far with each.
var (
	// ErrNotTLS is returned when the first byte belongs to another protocol.
	ErrNotTLS = errors.New("not TLS")
	// ErrHelloTooLong is returned when the ClientHello exceeds the bound.
	ErrHelloTooLong = errors.New("the ClientHello is too long")
	// ErrHello is returned for bytes that are not a ClientHello, or for one
	// that could be read in two ways.
	ErrHello = errors.New("not a valid ClientHello")
)

// Hello holds the unencrypted fields of a ClientHello.
type Hello struct {
	// ServerName is in lower case, "" if none was sent. It is an address if the
	// client sent one; some clients do, although the standard forbids it. A
	// name that ends with a dot or has invalid characters is ErrHello.
	ServerName string
	// ALPN lists the protocols that the client supports, in order of
	// preference.
	ALPN []string
}

// recordHandshake is the first byte of every TLS connection.
const recordHandshake = 22

// PeekHello reads a ClientHello of at most max bytes, in any number of records
// and pieces. It answers nothing. replay holds every byte that was read from r,
// also with an error, and possibly some beyond the ClientHello: the caller must
// read it first when it goes on with the connection. The reader sets time-outs.
//
// The first byte decides whether it is TLS, so a client of another protocol is
// not kept waiting for more.
func PeekHello(r io.Reader, max int) (hello Hello, replay []byte, err error) {
	p := &peek{r: r, left: max}
	var first [1]byte
	if _, err := io.ReadFull(p, first[:]); err != nil {
		return Hello{}, p.seen.Bytes(), p.cause(err)
	}
	if first[0] != recordHandshake {
		return Hello{}, p.seen.Bytes(), ErrNotTLS
	}
	p.again = first[:]
	found := false
	config := &tls.Config{
		// The version is negotiated after the hello was returned, so the hello
		// of an old client is read too. The handshake refuses it later and can
		// report that to the client.
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			found = true
			hello = Hello{ServerName: h.ServerName, ALPN: h.SupportedProtos}
			return nil, errHaveHello
		},
	}
	err = tls.Server(p, config).HandshakeContext(context.Background())
	switch {
	case !found:
		return Hello{}, p.seen.Bytes(), p.cause(err)
	case hello.ServerName == "":
		return hello, p.seen.Bytes(), nil
	}
	name, _, err := hostName(hello.ServerName)
	if err != nil {
		return Hello{}, p.seen.Bytes(), fmt.Errorf("%w: the server name is %w", ErrHello, err)
	}
	hello.ServerName = name
	return hello, p.seen.Bytes(), nil
}

var errHaveHello = errors.New("the hello has been read")

// peek is a connection that keeps what it reads and drops what is written.
type peek struct {
	r     io.Reader
	seen  bytes.Buffer
	again []byte // read before, to be read once more
	left  int
	err   error // the reader's own
	full  bool
}

func (p *peek) Read(b []byte) (int, error) {
	if len(p.again) > 0 {
		n := copy(b, p.again)
		p.again = p.again[n:]
		return n, nil
	}
	if p.left <= 0 {
		p.full = true
		return 0, ErrHelloTooLong
	}
	if len(b) > p.left {
		b = b[:p.left]
	}
	n, err := p.r.Read(b)
	p.seen.Write(b[:n])
	p.left -= n
	if err != nil {
		p.err = err
	}
	return n, err
}

// cause prefers the reader's error to what the parser made of it.
func (p *peek) cause(err error) error {
	switch {
	case p.full:
		return ErrHelloTooLong
	case errors.Is(p.err, io.EOF):
		return fmt.Errorf("%w: %w", ErrHello, io.ErrUnexpectedEOF)
	case p.err != nil:
		return fmt.Errorf("read the ClientHello: %w", p.err)
	}
	return fmt.Errorf("%w: %w", ErrHello, err)
}

func (p *peek) Write(b []byte) (int, error)      { return len(b), nil }
func (p *peek) Close() error                     { return nil }
func (p *peek) LocalAddr() net.Addr              { return nil }
func (p *peek) RemoteAddr() net.Addr             { return nil }
func (p *peek) SetDeadline(time.Time) error      { return nil }
func (p *peek) SetReadDeadline(time.Time) error  { return nil }
func (p *peek) SetWriteDeadline(time.Time) error { return nil }
