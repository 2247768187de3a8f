package sshagent

import (
	"errors"

	"github.com/forkcell/forkcell/internal/network/sshkey"
)

// Messages of the protocol.
const (
	failure           = 5
	success           = 6
	requestIdentities = 11
	identitiesAnswer  = 12
	signRequest       = 13
	signResponse      = 14
	extension         = 27
)

// Flags of a request to sign: the hash of a signature with RSA.
const (
	flagSHA256 = 2
	flagSHA512 = 4
)

// sessionBind is the extension by which a program names the session.
const sessionBind = "session-bind@openssh.com"

// Methods of a request to log in with a key.
const (
	methodPublicKey = "publickey"
	methodHostBound = "publickey-hostbound-v00@openssh.com"
)

// userauthRequest is the number of a request to log in.
const userauthRequest = 50

// Sizes of the id of a session: the hashes of key exchanges.
const (
	minSessionID = 20
	maxSessionID = 64
)

var errMalformed = errors.New("a malformed request")

// binding has the fields of session-bind@openssh.com.
type binding struct {
	hostKey, session, signature []byte
	forwarding                  bool
}

// parseBinding reads the extension, without its name.
func parseBinding(r *sshkey.Reader) (binding, error) {
	b := binding{hostKey: r.Bytes(), session: r.Bytes(), signature: r.Bytes(), forwarding: r.Bool()}
	if !r.Done() || len(b.session) < minSessionID || len(b.session) > maxSessionID {
		return binding{}, errMalformed
	}
	return b, nil
}

// signing is a request to sign.
type signing struct {
	key, data []byte
	flags     uint32
}

func parseSigning(r *sshkey.Reader) (signing, error) {
	s := signing{key: r.Bytes(), data: r.Bytes(), flags: r.Uint32()}
	if !r.Done() {
		return signing{}, errMalformed
	}
	return s, nil
}

// login is the signed part of a request to log in.
type login struct {
	session         []byte
	user, algorithm string
	key             []byte
	hostKey         []byte // nil if the method does not name it
}

var errNotLogin = errors.New("the data is no request to log in")

// parseLogin reads the data of a request to sign.
func parseLogin(data []byte) (login, error) {
	r := sshkey.NewReader(data)
	l := login{session: r.Bytes()}
	number := r.Byte()
	l.user = r.String()
	service, method, signed := r.String(), r.String(), r.Bool()
	l.algorithm, l.key = r.String(), r.Bytes()
	switch method {
	case methodPublicKey:
	case methodHostBound:
		l.hostKey = r.Bytes()
	default:
		return login{}, errNotLogin
	}
	if !r.Done() || number != userauthRequest || service != "ssh-connection" || !signed {
		return login{}, errNotLogin
	}
	return l, nil
}
