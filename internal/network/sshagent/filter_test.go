package sshagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/network/sshkey"
)

// newKey makes a private key.
func newKey(t testing.TB, kind string) *sshkey.PrivateKey {
	t.Helper()
	var key any
	var err error
	if kind == sshkey.RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := sshkey.ParsePrivate(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// scene is an agent with a host, and a program that asks it properly. Tests change one
// thing of what it asks.
type scene struct {
	agent    *Agent
	key, rsa *sshkey.PrivateKey
	host     *sshkey.PrivateKey
	session  []byte

	mu      sync.Mutex
	decided []Decision
}

func newScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{key: newKey(t, sshkey.Ed25519), rsa: newKey(t, sshkey.RSA), host: newKey(t, sshkey.Ed25519), session: bytes.Repeat([]byte{7}, 32)}
	s.agent = New(Config{
		Keys:  []Key{Local(s.key), Local(s.rsa)},
		Hosts: []Host{{Name: "git.example", Port: 22, User: "git", Keys: []*sshkey.PublicKey{s.host.Public()}}},
		Decided: func(d Decision) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.decided = append(s.decided, d)
		},
	})
	return s
}

// bindRequest binds a session with a host's key, signed by the key of signer.
func bindRequest(host *sshkey.PublicKey, signer *sshkey.PrivateKey, session []byte, forwarding byte) []byte {
	signature, err := signer.Sign(session, signer.Public().Type())
	if err != nil {
		panic(err)
	}
	m := sshkey.AppendString([]byte{extension}, sessionBind)
	m = sshkey.AppendString(sshkey.AppendString(sshkey.AppendString(m, host.Blob()), session), signature)
	return append(m, forwarding)
}

// loginData is what a program wants signed.
type loginData struct {
	session                          []byte
	number                           byte
	user, service, method, algorithm string
	signed                           byte
	key, hostKey                     []byte
	trailing                         string
}

func (s *scene) login() loginData {
	return loginData{
		session: s.session, number: userauthRequest, user: "git", service: "ssh-connection", method: methodHostBound, signed: 1,
		algorithm: sshkey.Ed25519, key: s.key.Public().Blob(), hostKey: s.host.Public().Blob(),
	}
}

func (l loginData) bytes() []byte {
	b := append(sshkey.AppendString(nil, l.session), l.number)
	b = sshkey.AppendString(sshkey.AppendString(sshkey.AppendString(b, l.user), l.service), l.method)
	b = sshkey.AppendString(sshkey.AppendString(append(b, l.signed), l.algorithm), l.key)
	if l.method == methodHostBound {
		b = sshkey.AppendString(b, l.hostKey)
	}
	return append(b, l.trailing...)
}

func signMessage(key, data []byte, flags uint32) []byte {
	return binary.BigEndian.AppendUint32(sshkey.AppendString(sshkey.AppendString([]byte{signRequest}, key), data), flags)
}

// ask sends messages on one connection and returns the last answer.
func (s *scene) ask(messages ...[]byte) (answer []byte) {
	c := &connection{agent: s.agent}
	for _, m := range messages {
		answer = c.answer(context.Background(), m)
	}
	return answer
}

// decisions returns all decisions.
func (s *scene) decisions() []Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.decided)
}

// last returns the last decision.
func (s *scene) last() Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.decided) == 0 {
		return Decision{}
	}
	return s.decided[len(s.decided)-1]
}

// TestSigns: a request to log in to a listed host is signed, with both methods and all
// algorithms.
func TestSigns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	bind := bindRequest(s.host.Public(), s.host, s.session, 0)
	for name, tt := range map[string]struct {
		key    *sshkey.PrivateKey
		change func(*loginData)
		flags  uint32
	}{
		"host bound": {s.key, func(*loginData) {}, 0},
		"plain":      {s.key, func(l *loginData) { l.method = methodPublicKey }, 0},
		"rsa 256":    {s.rsa, func(l *loginData) { l.algorithm = sshkey.RSASHA256 }, flagSHA256},
		"rsa 512":    {s.rsa, func(l *loginData) { l.algorithm = sshkey.RSASHA512 }, flagSHA512},
	} {
		l := s.login()
		l.key = tt.key.Public().Blob()
		tt.change(&l)
		answer := s.ask(bind, signMessage(l.key, l.bytes(), tt.flags))
		r := sshkey.NewReader(answer)
		if kind, signature := r.Byte(), r.Bytes(); kind != signResponse || tt.key.Public().Verify(l.bytes(), signature) != nil {
			t.Errorf("%s: %x, %+v", name, answer, s.last())
		}
		want := Decision{Allowed: true, Host: "git.example", Port: 22, User: "git", Key: tt.key.Public().Fingerprint()}
		if s.last() != want {
			t.Errorf("%s: %+v", name, s.last())
		}
	}
}

// TestRefused changes one thing of a request that is signed otherwise.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := newKey(t, sshkey.Ed25519)
	elsewhere := bytes.Repeat([]byte{8}, 32)
	bind := bindRequest(s.host.Public(), s.host, s.session, 0)
	login := func(change func(*loginData)) []byte {
		l := s.login()
		change(&l)
		return signMessage(s.key.Public().Blob(), l.bytes(), 0)
	}
	good := login(func(*loginData) {})
	for name, tt := range map[string]struct {
		messages [][]byte
		reason   string
	}{
		"not bound":                {[][]byte{good}, "has not proved"},
		"unlisted host":            {[][]byte{bindRequest(other.Public(), other, s.session, 0), good}, "not to a listed host"},
		"host's key not its own":   {[][]byte{bindRequest(s.host.Public(), other, s.session, 0), good}, "not to a listed host"},
		"forwarded":                {[][]byte{bindRequest(s.host.Public(), s.host, s.session, 1), good}, "not to a listed host"},
		"forwarded after all":      {[][]byte{bind, bindRequest(s.host.Public(), s.host, s.session, 1), good}, "not to a listed host"},
		"bound to another session": {[][]byte{bindRequest(s.host.Public(), s.host, elsewhere, 0), good}, "of another session"},
		"bound twice":              {[][]byte{bind, bindRequest(s.host.Public(), s.host, elsewhere, 0), good}, "not to a listed host"},
		"bound after a refusal":    {[][]byte{bindRequest(other.Public(), other, s.session, 0), bind, good}, "not to a listed host"},
		"a short session":          {[][]byte{bindRequest(s.host.Public(), s.host, []byte("short"), 0), good}, "not to a listed host"},
		"another session":          {[][]byte{bind, login(func(l *loginData) { l.session = elsewhere })}, "of another session"},
		"another user":             {[][]byte{bind, login(func(l *loginData) { l.user = "root" })}, "the user"},
		"another message":          {[][]byte{bind, login(func(l *loginData) { l.number = 80 })}, "no request to log in"},
		"another service":          {[][]byte{bind, login(func(l *loginData) { l.service = "ssh-userauth" })}, "no request to log in"},
		"another method":           {[][]byte{bind, login(func(l *loginData) { l.method = "hostbased" })}, "no request to log in"},
		"no signature wanted":      {[][]byte{bind, login(func(l *loginData) { l.signed = 0 })}, "no request to log in"},
		"another key in it":        {[][]byte{bind, login(func(l *loginData) { l.key = other.Public().Blob() })}, "another key"},
		"another host's key in it": {[][]byte{bind, login(func(l *loginData) { l.hostKey = other.Public().Blob() })}, "another host's key"},
		"another algorithm":        {[][]byte{bind, login(func(l *loginData) { l.algorithm = sshkey.RSASHA256 })}, "the algorithm"},
		"more than the request":    {[][]byte{bind, login(func(l *loginData) { l.trailing = "x" })}, "no request to log in"},
		"an unlisted key":          {[][]byte{bind, signMessage(other.Public().Blob(), s.login().bytes(), 0)}, "not listed"},
		"a signature of git":       {[][]byte{bind, signMessage(s.key.Public().Blob(), []byte("SSHSIG\x00\x00\x00\x03git"), 0)}, "no request to log in"},
		"empty data":               {[][]byte{bind, signMessage(s.key.Public().Blob(), nil, 0)}, "no request to log in"},
		"rsa with SHA-1": {[][]byte{bind, func() []byte {
			l := s.login()
			l.key, l.algorithm = s.rsa.Public().Blob(), sshkey.RSA
			return signMessage(l.key, l.bytes(), 0)
		}()}, "the algorithm"},
		"add a key":         {[][]byte{{17, 0}}, "kind 17"},
		"remove all keys":   {[][]byte{{19}}, "kind 19"},
		"lock":              {[][]byte{{22, 0, 0, 0, 0}}, "kind 22"},
		"another extension": {[][]byte{sshkey.AppendString([]byte{extension}, "query")}, "the extension"},
		"empty":             {[][]byte{{}}, "kind 0"},
		"torn":              {[][]byte{bind, good[:len(good)-5]}, "malformed"},
		"long list":         {[][]byte{{requestIdentities, 0}}, "malformed"},
	} {
		answer := s.ask(tt.messages...)
		if d := s.last(); !bytes.Equal(answer, []byte{failure}) || d.Allowed || !strings.Contains(d.Reason, tt.reason) {
			t.Errorf("%s: %x, %+v", name, answer, d)
		}
	}
	for _, d := range s.decided {
		if d.Allowed {
			t.Errorf("%+v", d)
		}
	}
	// The same request is signed without the change.
	if answer := s.ask(bind, good); answer[0] != signResponse {
		t.Errorf("%x, %+v", answer, s.last())
	}
}

// TestList: keys are listed without what the operator calls them, and not to a program
// that talks to another host.
func TestList(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := sshkey.NewReader(s.ask([]byte{requestIdentities}))
	kind, count := r.Byte(), r.Uint32()
	first, comment := r.Bytes(), r.String()
	if kind != identitiesAnswer || count != 2 || !bytes.Equal(first, s.key.Public().Blob()) || comment != "forkcell" {
		t.Errorf("%d, %d, %x, %s", kind, count, first, comment)
	}
	other := newKey(t, sshkey.Ed25519)
	if answer := s.ask(bindRequest(other.Public(), other, s.session, 0), []byte{requestIdentities}); !bytes.Equal(answer, []byte{identitiesAnswer, 0, 0, 0, 0}) {
		t.Errorf("%x", answer)
	}
}

// TestUsers: of hosts with the same key, the one that lists the user counts.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	hosts := s.agent.cfg.Hosts
	s.agent.cfg.Hosts = append(hosts, Host{Name: "alt.example", Port: 443, User: "deploy", Keys: hosts[0].Keys})
	bind := bindRequest(s.host.Public(), s.host, s.session, 0)
	l := s.login()
	l.user = "deploy"
	if s.ask(bind, signMessage(l.key, l.bytes(), 0)); s.last().Host != "alt.example" || !s.last().Allowed {
		t.Errorf("%+v", s.last())
	}
	s.agent.cfg.Hosts[0].User = ""
	l.user = "anybody"
	if s.ask(bind, signMessage(l.key, l.bytes(), 0)); s.last().Host != "git.example" || !s.last().Allowed {
		t.Errorf("%+v", s.last())
	}
}

// FuzzAnswer: whatever a program sends, what is signed is a request to log in of the
// bound session.
func FuzzAnswer(f *testing.F) {
	s := newScene(f)
	bind := bindRequest(s.host.Public(), s.host, s.session, 0)
	l := s.login()
	f.Add(bind, signMessage(l.key, l.bytes(), 0))
	f.Add([]byte{requestIdentities}, []byte{extension})
	l.method = methodPublicKey
	f.Add(signMessage(l.key, l.bytes(), 2), bind)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, before := range [][][]byte{nil, {bind}} {
			answer := s.ask(append(before, first, second)...)
			if len(answer) == 0 {
				t.Fatal("no answer")
			}
			if answer[0] != signResponse {
				continue
			}
			q, err := parseSigning(sshkey.NewReader(second[1:]))
			if err != nil {
				t.Fatal(err)
			}
			if l, err := parseLogin(q.data); err != nil || !bytes.Equal(l.session, s.session) || l.user != "git" {
				t.Fatalf("signed %x, %v", q.data, err)
			}
		}
	})
}
