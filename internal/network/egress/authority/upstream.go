package authority

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// ErrRoots is returned for a file of extra roots that holds no certificate.
var ErrRoots = errors.New("holds no certificate in PEM form")

// VerifyError is the error for an upstream whose certificate does not prove
// that it is the host.
type VerifyError struct {
	Host string
	Err  error
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("%s does not verify: %v", e.Host, e.Err)
}

func (e *VerifyError) Unwrap() error { return e.Err }

// UpstreamConfig returns the settings for connecting to a host, which is
// verified against roots (nil: the host's own), and against extra, more roots in
// PEM form, if there are any. The caller sets NextProtos.
func UpstreamConfig(host string, roots *x509.CertPool, extra []byte) (*tls.Config, error) {
	name, _, err := hostName(host)
	if err != nil {
		return nil, err
	}
	if len(extra) > 0 {
		if roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				return nil, fmt.Errorf("read the host's certificates: %w", err)
			}
		} else {
			roots = roots.Clone()
		}
		if !roots.AppendCertsFromPEM(extra) {
			return nil, ErrRoots
		}
	}
	return &tls.Config{ServerName: name, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// Handshake starts TLS on a connection to an upstream, with settings of
// UpstreamConfig. The error is a VerifyError where the certificate is the reason. After
// an error the connection must be closed.
//
// Some upstreams, such as Kubernetes, request a client certificate but do not
// require it: Handshake calls requested, and sends none. With TLS 1.3, an upstream that
// requires one fails only after the handshake: see WantsClientCertificate.
func Handshake(ctx context.Context, raw net.Conn, config *tls.Config, requested func()) (*tls.Conn, error) {
	config = config.Clone()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		requested()
		return &tls.Certificate{}, nil
	}
	conn := tls.Client(raw, config)
	err := conn.HandshakeContext(ctx)
	var verify *tls.CertificateVerificationError
	switch {
	case err == nil:
		return conn, nil
	case errors.As(err, &verify):
		return nil, &VerifyError{Host: config.ServerName, Err: verify.Err}
	}
	return nil, fmt.Errorf("start TLS: %w", err)
}

// WantsClientCertificate reports whether an error is the upstream's alert of TLS 1.3
// that it requires a client certificate. The error may be wrapped, and may come later
// than the handshake.
func WantsClientCertificate(err error) bool {
	var op *net.OpError
	// The alert's type is not exported; compare the text of crypto/tls.
	return errors.As(err, &op) && op.Op == "remote error" && op.Err != nil && op.Err.Error() == "tls: certificate required"
}
