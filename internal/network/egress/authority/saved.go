package authority

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Saved is an authority as it can be kept, with its key.
type Saved struct {
	Key         []byte `json:"key"`
	Certificate []byte `json:"certificate"`
}

// Save returns the authority with its key, for the memory of a cell that is kept on
// disk: its programs trust no other one. The caller keeps it as private as that memory.
func (a *Authority) Save() (Saved, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return Saved{}, fmt.Errorf("save a certificate authority: %w", err)
	}
	return Saved{Key: key, Certificate: a.certificate().Raw}, nil
}

// Load returns an authority that was saved.
func Load(s Saved) (*Authority, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("a saved certificate authority: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("a saved certificate authority: its key is of another kind")
	}
	cert, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return nil, fmt.Errorf("a saved certificate authority: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("a saved certificate authority: its key is not that of its certificate")
	}
	a := &Authority{key: key, subject: cert.Subject, now: time.Now, cert: cert, leaves: map[string]*list.Element{}, used: list.New()}
	if a.now().After(cert.NotAfter) {
		return a, a.Renew()
	}
	return a, nil
}
