// Package network is the network of one cell: it combines the parts of egress,
// serves the sockets that a driver took from the cell, and provides the files
// and variables that make the cell trust its authority.
//
// It connects the parts and decides nothing itself. It must not know cells'
// states, stores, receipts or the command line.
package network

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/authority"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/dial"
	"github.com/forkcell/forkcell/internal/network/egress/login"
	"github.com/forkcell/forkcell/internal/network/egress/names"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Config configures a gateway.
type Config struct {
	// Cell is the cell's name.
	Cell   string
	Policy *policy.Policy
	// Hash names the policy in events.
	Hash string
	// Credentials are the operator's, as NAME=SOURCE. Sources are read once.
	Credentials []string
	// Values are credentials that were already read. The gateway takes
	// ownership of them.
	Values Values
	// Placeholders are those that files of the cell hold already, by the names of
	// credentials.
	Placeholders map[string]string
	// Known is what Known returned of an earlier gateway of the cell; "" if none is to be
	// recalled.
	Known string
	// Logins are those that the cell's programs may renew.
	Logins []api.Login
	// Agent signs for the cell's programs that use SSH; nil if nothing does.
	Agent Agent
	// Unrestricted is the operator's: every host can be reached, and the policy decides
	// only about those that it lists.
	Unrestricted bool
	// Resolve are the operator's grants, as HOST[:PORT]=IP[:PORT].
	Resolve []string
	// CA holds additional certificates for verifying upstreams, as PEM.
	CA []byte
	// Reader reads the sources.
	Reader credential.Reader
	// Event records an event. It is called from many goroutines.
	Event func(event.Event)
	// Source, if set, is the gateway of the cell whose memory this cell begins with.
	// Its programs know that one's authority, addresses and placeholders.
	Source *Gateway
}

// Agent is an ssh agent, which serves a socket of the cell until the context ends. who
// returns the number and the executable of the program that opened a connection, or 0
// and "".
type Agent interface {
	Serve(ctx context.Context, l net.Listener, who func(net.Conn) (int, string))
}

// agentSocket is the path of the agent's socket in a cell that has one.
const agentSocket = "/.forkcell/ssh-agent"

// ErrConfig marks an invalid setting, ErrCredential a credential without a
// value: it has no source, or the source fails.
var (
	ErrConfig     = errors.New("bad network setting")
	ErrCredential = errors.New("a credential has no value")
)

// Gateway is the network of one cell.
type Gateway struct {
	cfg    Config
	table  *names.Table
	ca     *authority.Authority
	dialer *dial.Dialer
	roots  *x509.CertPool

	// policy is the current policy.
	policy atomic.Pointer[policy.Policy]

	// mu is held to change the generation or to keep it unchanged.
	mu    sync.Mutex
	gen   *egress.Generation
	proxy *egress.Proxy // nil while nothing is served
	// listed finds other names of executables in the policy.
	listed *aliases
	// oldCredentials are credentials of earlier generations. Requests that began under
	// them may still use them, so they are dropped at the end.
	oldCredentials []*credential.Set
}

// New reads the credentials and makes the cell's authority. Nothing is served
// yet.
func New(ctx context.Context, cfg Config) (_ *Gateway, err error) {
	g := &Gateway{cfg: cfg, table: &names.Table{}}
	g.policy.Store(cfg.Policy)
	if g.dialer, err = newDialer(cfg.Resolve); err != nil {
		return nil, err
	}
	if g.roots, err = newRoots(cfg.CA); err != nil {
		return nil, err
	}
	secrets, err := newSet(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g.gen = &egress.Generation{Policy: cfg.Policy, Hash: cfg.Hash, Credentials: secrets, Unrestricted: cfg.Unrestricted}
	if from := cfg.Source; from != nil {
		g.ca, g.table, g.cfg.Source = from.ca, from.table.Clone(), nil
		return g, nil
	}
	if g.ca, err = authority.New(cfg.Cell); err != nil {
		return nil, fmt.Errorf("make the cell's authority: %w", err)
	}
	return g, nil
}

func newDialer(grants []string) (*dial.Dialer, error) {
	d := &dial.Dialer{Pins: dial.Pins{}}
	for _, s := range grants {
		from, to, err := dial.ParsePin(s)
		if err != nil {
			return nil, fmt.Errorf("%w: --resolve %q: %w", ErrConfig, s, err)
		}
		d.Pins[from] = append(d.Pins[from], to)
	}
	return d, nil
}

// PinsFor returns the grants, as HOST:PORT=IP, for a host that the operator's
// own tools are configured for: see [dial.PinsFor].
func PinsFor(host string, port uint16, addrs []netip.Addr) []string {
	return dial.PinsFor(host, port, addrs)
}

// newRoots returns the host's roots with the operator's added; nil means only
// the host's.
func newRoots(pem []byte) (*x509.CertPool, error) {
	if len(pem) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the host's roots: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: --ca holds no certificate", ErrConfig)
	}
	return pool, nil
}

// newSet uses the values that were already read, and reads the others.
func newSet(ctx context.Context, cfg Config) (*credential.Set, error) {
	values, err := ReadValues(ctx, cfg.Policy, cfg.Credentials, cfg.Reader)
	if err != nil {
		return nil, err
	}
	maps.Copy(values, cfg.Values)
	if cfg.Source != nil {
		set, err := cfg.Source.branchSet(cfg.Policy, values)
		if err == nil {
			groupLogins(set, cfg.Logins)
		}
		return set, err
	}
	if err := values.complete(cfg.Policy); err != nil {
		values.Drop()
		return nil, err
	}
	set, err := credential.NewSet(cfg.Policy.Credentials, values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := set.Shape(cfg.Placeholders); err != nil {
		set.Drop()
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := recall(set, cfg.Known); err != nil {
		set.Drop()
		return nil, err
	}
	groupLogins(set, cfg.Logins)
	return set, nil
}

// groupLogins marks in a Set the credentials of each login.
func groupLogins(set *credential.Set, logins []api.Login) {
	for _, l := range logins {
		var names []string
		for _, t := range l.Tokens {
			names = append(names, t.Credential)
		}
		set.GroupLogin(l.Key, names)
	}
}

// branchSet makes the credentials of a branch of this gateway's cell. It takes
// ownership of the values.
func (g *Gateway) branchSet(p *policy.Policy, values Values) (*credential.Set, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	set, err := g.gen.Credentials.Branch(p.Credentials, values)
	if err != nil {
		values.Drop()
		return nil, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	return set, nil
}

// Environment returns the variables with which commands find the authority's
// certificate, and those with the placeholders of credentials.
func (g *Gateway) Environment() []string {
	var env []string
	for _, v := range authority.Variables(bundlePath) {
		env = append(env, v.Name+"="+v.Value)
	}
	if g.cfg.Agent != nil {
		env = append(env, "SSH_AUTH_SOCK="+agentSocket)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, value := range g.gen.Credentials.Environment() {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// Socket returns the path of the socket that the cell needs; "" if it needs none.
func (g *Gateway) Socket() string {
	if g.cfg.Agent == nil {
		return ""
	}
	return agentSocket
}

// Serve starts to serve a cell. The gateway owns the sockets, also when Serve
// fails. stop ends the service.
func (g *Gateway) Serve(c driver.Captured) (stop func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	listed := newAliases(c.Origin, g.policy.Load())
	proxy, err := egress.New(egress.Config{
		Generation: g.gen,
		Names:      g.table, Destination: destinations(c.Origin), Attribute: g.programs(c.Origin, listed), Dialer: egress.Dials(g.dialer),
		Authority: g.ca, Roots: g.roots, Event: g.cfg.Event, Logins: login.Logins{List: g.cfg.Logins},
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	s := &service{sockets: c, proxy: proxy, dns: g.resolver(len(c.Names) > 1, c.Origin), agent: g.cfg.Agent}
	s.begin()
	g.proxy, g.listed = proxy, listed
	return func() {
		s.end()
		g.drop()
	}, nil
}

// destinations returns a function for the proxy that finds the original
// destination of a connection.
func destinations(o driver.Origin) func(net.Conn) (egress.Destination, error) {
	return func(c net.Conn) (egress.Destination, error) {
		d, err := o.Destination(c)
		return egress.Destination(d), err
	}
}

// programs returns a function for the proxy that finds the program of a
// connection.
func (g *Gateway) programs(o driver.Origin, listed *aliases) func(net.Conn) (egress.Process, error) {
	return func(c net.Conn) (egress.Process, error) {
		found, err := o.Opener(c)
		if err != nil {
			return egress.Process{}, err
		}
		p := egress.Process{PID: found.PID, Binary: found.Binary, Untrusted: !found.Trusted}
		if found.Trusted {
			p.Also = listed.of(found.Binary, g.policy.Load())
		}
		return p, nil
	}
}

// Reload replaces the policy for names, connections and requests. It cuts what
// the new policy does not allow. Credentials that stay keep their placeholders,
// and their values where values has no new one. If Reload fails, the previous
// policy is kept. The gateway takes ownership of the values. ruling is called
// before the first decision under the new policy, and may refuse it.
func (g *Gateway) Reload(p *policy.Policy, hash string, values Values, ruling func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.proxy == nil {
		values.Drop()
		return errors.New("the cell's network is not served")
	}
	set, err := g.gen.Credentials.Reload(p.Credentials, values)
	if err != nil {
		values.Drop()
		return fmt.Errorf("%w: %w", ErrCredential, err)
	}
	if err := ruling(); err != nil {
		set.Drop()
		return err
	}
	next := &egress.Generation{Policy: p, Hash: hash, Credentials: set, Unrestricted: g.cfg.Unrestricted}
	// Resolve the names first, so that the proxy finds the executables that the
	// new rules list.
	g.listed.lookUp(p)
	g.policy.Store(p)
	if err := g.proxy.Reload(next); err != nil {
		return err // not reached: the generation has a policy
	}
	g.oldCredentials = append(g.oldCredentials, g.gen.Credentials)
	g.gen = next
	return nil
}

// Reveal calls f with every current and earlier value, so that values can be
// removed from stored text.
func (g *Gateway) Reveal(f func(name, value string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, set := range append(slices.Clone(g.oldCredentials), g.gen.Credentials) {
		set.Reveal(f)
	}
}

// drop overwrites every value.
func (g *Gateway) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.proxy = nil
	for _, set := range append(g.oldCredentials, g.gen.Credentials) {
		set.Drop()
	}
	g.oldCredentials = nil
}

// resolver answers the cell's DNS questions.
func (g *Gateway) resolver(six bool, o driver.Origin) *names.Server {
	who := func(c names.Client) (int, string) {
		// The process may be unknown: it is only reported, and decides nothing.
		p, err := driver.Program{}, error(nil)
		if c.Conn != nil {
			p, err = o.Opener(c.Conn)
		} else {
			p, err = o.Asker(c.Addr)
		}
		if err != nil {
			return 0, ""
		}
		return p.PID, p.Binary
	}
	return &names.Server{Table: g.table, Allowed: g.couldAllow, IPv6: six, Who: who, Event: func(q names.Query) {
		s := event.Subject{Verdict: event.Allowed, Rule: "dns", Process: event.Process{PID: q.PID, Binary: q.Binary}}
		if len(q.Answers) == 0 && q.Rcode != 0 {
			s.Verdict, s.Reason = event.Denied, fmt.Sprint(q.Reason)
		}
		answers := make([]string, len(q.Answers))
		for i, a := range q.Answers {
			answers[i] = a.String()
		}
		g.cfg.Event(event.DNS(s, event.Query{
			Name: q.Name, Type: q.Type, Rcode: q.Rcode, Answers: answers, Count: q.Count, From: q.From, To: q.To,
		}))
	}}
}

// couldAllow reports whether some rule lists a host, of the policy and of each of its
// ceilings. The connection is decided when it is made.
func (g *Gateway) couldAllow(name string) bool {
	if g.cfg.Unrestricted {
		return true
	}
	return !slices.ContainsFunc(g.policy.Load().Lists(), func(list []policy.NetworkPolicy) bool { return !listsHost(list, name) })
}

// listsHost reports whether a rule of a list has a host.
func listsHost(list []policy.NetworkPolicy, name string) bool {
	return slices.ContainsFunc(list, func(n policy.NetworkPolicy) bool {
		return slices.ContainsFunc(n.Endpoints, func(e policy.Endpoint) bool { return e.Host.Match(name) })
	})
}

// Content returns the content of a hypothetical request: see [egress.Content].
func Content(body []byte) policy.Content { return egress.Content(body) }
