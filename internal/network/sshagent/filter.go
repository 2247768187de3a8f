package sshagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/network/sshkey"
)

// Key is a key of the operator.
type Key interface {
	// Blob returns the public half in the wire format.
	Blob() []byte
	// Sign signs with an algorithm. bind is the request by which the session was
	// bound, for another agent.
	Sign(ctx context.Context, bind, data []byte, algorithm string) ([]byte, error)
}

// Host is a host for which the agent signs.
type Host struct {
	Name string
	Port uint16
	// User is the one to log in as; "" is any.
	User string
	// Keys are those by which the host is known.
	Keys []*sshkey.PublicKey
}

// Decision is the agent's decision about a request.
type Decision struct {
	// Allowed reports that it signed.
	Allowed bool
	// Host and Port are those of the listed host; "" if there is none.
	Host string
	Port uint16
	// User is the one to log in as, if the request names one.
	User string
	// Key is the fingerprint of the key, if the request names one.
	Key string
	// Reason says why it was refused.
	Reason string
	// PID and Binary are those of the program that asked; 0 and "" if it is not known.
	PID    int
	Binary string
}

// Config configures an agent.
type Config struct {
	Keys  []Key
	Hosts []Host
	// Decided is called for each request to sign and each one that is refused, from
	// many goroutines.
	Decided func(Decision)
}

// Agent signs for listed hosts.
type Agent struct {
	cfg    Config
	limits limits
}

// New returns an agent.
func New(cfg Config) *Agent { return &Agent{cfg: cfg, limits: defaultLimits()} }

// connection is the state of one connection of a program.
type connection struct {
	agent *Agent
	// pid and binary are those of the program.
	pid    int
	binary string
	// bound is the session that the connection is bound to, request the message that
	// bound it, and hosts are those with the key of the session.
	bound   *binding
	request []byte
	hosts   []Host
	// closed means that a binding was refused: nothing is listed or signed any more.
	closed bool
}

// answer answers one message.
func (c *connection) answer(ctx context.Context, message []byte) []byte {
	r := sshkey.NewReader(message)
	var reply []byte
	var d Decision
	var err error
	switch kind := r.Byte(); kind {
	case requestIdentities:
		if r.Done() {
			return c.list()
		}
		err = errMalformed
	case extension:
		reply, err = c.extend(r, message)
	case signRequest:
		reply, d, err = c.sign(ctx, r)
	default:
		err = fmt.Errorf("requests of the kind %d are not answered", kind)
	}
	if err == nil && !d.Allowed {
		return reply
	}
	if err != nil {
		d.Allowed, d.Reason, reply = false, err.Error(), []byte{failure}
	}
	c.reportDecision(d)
	return reply
}

// reportDecision reports a decision.
func (c *connection) reportDecision(d Decision) {
	d.PID, d.Binary = c.pid, c.binary
	c.agent.cfg.Decided(d)
}

// list lists the keys.
func (c *connection) list() []byte {
	keys := c.agent.cfg.Keys
	if c.closed {
		keys = nil
	}
	out := []byte{identitiesAnswer, 0, 0, 0, byte(len(keys))}
	for _, k := range keys {
		out = sshkey.AppendString(sshkey.AppendString(out, k.Blob()), "forkcell")
	}
	return out
}

// MaxKeys is how many keys an agent has at most.
const MaxKeys = 64

// extend answers an extension. There is only one.
func (c *connection) extend(r *sshkey.Reader, message []byte) ([]byte, error) {
	name := r.String()
	if name != sessionBind {
		return nil, fmt.Errorf("the extension %.64q is not answered", name)
	}
	b, err := parseBinding(r)
	if err == nil {
		err = c.bind(b)
	}
	if err != nil {
		c.closed = true
		return nil, err
	}
	c.request = bytes.Clone(message)
	return []byte{success}, nil
}

// bind binds the connection to a session with a listed host.
func (c *connection) bind(b binding) error {
	switch {
	case c.closed:
		return errors.New("an earlier binding of this connection was refused")
	case b.forwarding:
		return errors.New("the connection is forwarded to another host")
	case c.bound != nil && !bytes.Equal(c.bound.session, b.session):
		return errors.New("the connection is bound to another session")
	}
	var key *sshkey.PublicKey
	var hosts []Host
	for _, h := range c.agent.cfg.Hosts {
		for _, k := range h.Keys {
			if bytes.Equal(k.Blob(), b.hostKey) {
				key, hosts = k, append(hosts, h)
			}
		}
	}
	if key == nil {
		return fmt.Errorf("the host's key %s is not that of a listed host", sshkey.Fingerprint(b.hostKey))
	}
	if err := key.Verify(b.session, b.signature); err != nil {
		return fmt.Errorf("the host's key %s has not signed the session", key.Fingerprint())
	}
	c.bound = &binding{hostKey: bytes.Clone(b.hostKey), session: bytes.Clone(b.session)}
	c.hosts = hosts
	return nil
}

// sign signs a request to log in to the host of the session.
func (c *connection) sign(ctx context.Context, r *sshkey.Reader) ([]byte, Decision, error) {
	var d Decision
	q, err := parseSigning(r)
	if err != nil {
		return nil, d, err
	}
	if len(c.hosts) > 0 {
		d.Host, d.Port = c.hosts[0].Name, c.hosts[0].Port
	}
	key := c.agent.key(q.key)
	if key == nil {
		return nil, d, errors.New("the key is not listed")
	}
	d.Key = sshkey.Fingerprint(q.key)
	l, err := parseLogin(q.data)
	if err != nil {
		return nil, d, err
	}
	d.User = l.user
	if err := c.check(l, q); err != nil {
		return nil, d, err
	}
	i := slices.IndexFunc(c.hosts, func(h Host) bool { return h.User == "" || h.User == l.user })
	if i < 0 {
		return nil, d, fmt.Errorf("the user %.64q is not listed for the host", l.user)
	}
	d.Host, d.Port = c.hosts[i].Name, c.hosts[i].Port
	signature, err := key.Sign(ctx, c.request, q.data, l.algorithm)
	if err != nil {
		return nil, d, err
	}
	d.Allowed = true
	return sshkey.AppendString([]byte{signResponse}, signature), d, nil
}

// check checks that a request to log in is of the session, with the key that is to
// sign it.
func (c *connection) check(l login, q signing) error {
	switch {
	case c.closed:
		return errors.New("the connection is not to a listed host")
	case c.bound == nil:
		return errors.New("the program has not proved to which host it connects; OpenSSH does so since 8.9")
	case !bytes.Equal(l.session, c.bound.session):
		return errors.New("the request is of another session")
	case l.hostKey != nil && !bytes.Equal(l.hostKey, c.bound.hostKey):
		return errors.New("the request names another host's key")
	case !bytes.Equal(l.key, q.key):
		return errors.New("the request names another key")
	case l.algorithm != algorithm(sshkey.TypeOf(q.key), q.flags):
		return fmt.Errorf("the algorithm %.64q is not that of the key", l.algorithm)
	}
	return nil
}

// algorithm returns the algorithm by which a key signs; "" if there is none, since
// signatures of RSA with SHA-1 are not made.
func algorithm(kind string, flags uint32) string {
	switch {
	case kind != sshkey.RSA:
		return kind
	case flags&flagSHA512 != 0:
		return sshkey.RSASHA512
	case flags&flagSHA256 != 0:
		return sshkey.RSASHA256
	}
	return ""
}

func (a *Agent) key(blob []byte) Key {
	for _, k := range a.cfg.Keys {
		if bytes.Equal(k.Blob(), blob) {
			return k
		}
	}
	return nil
}
