package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

func (p *Proxy) emit(e event.Event) {
	if p.cfg.Event != nil {
		p.cfg.Event(e)
	}
}

// subject returns the common part of all events of a connection.
func (p *Proxy) subject(c *conn, v event.Verdict) event.Subject {
	s := event.Subject{Verdict: v, Process: event.Process{PID: c.proc.PID, Parent: c.proc.Parent, Binary: c.proc.Binary}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ruling != nil {
		s.Policy = c.ruling.gen.Hash
		s.Rule = c.ruling.connection.Rule
	}
	return s
}

// ruling returns the hash of the current policy.
func (p *Proxy) ruling() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.gen.Hash
}

// denial returns the common part of all events of a denied connection or
// request. The policy is the one that denies it, which may be newer than the
// one that allowed the connection.
func (p *Proxy) denial(c *conn, no *refusal) event.Subject {
	s := p.subject(c, event.Denied)
	if s.Policy = no.policy; s.Policy == "" {
		s.Policy = p.ruling()
	}
	s.Rule, s.Reason = no.Rule, no.layer+": "+no.Reason
	return s
}

// recordConn records a connection that has ended or was not made. A refusal as
// error is a denial, any other error a failure.
func (p *Proxy) recordConn(c *conn, step event.NetworkStep, err error) {
	s := p.subject(c, event.Allowed)
	var no *refusal
	switch {
	case errors.As(err, &no):
		s = p.denial(c, no)
		s.Message = no.hint
	case err != nil:
		s.Reason = err.Error()
	}
	if step != event.Refused {
		s.Message = ""
		switch v := c.last(); {
		case c.secure, v == nil:
		case v.opaque() && v.skipsTLS():
			s.Message = "not inspected (tls: skip)"
		case v.opaque():
			s.Message = "not inspected"
		}
	}
	e := c.to.connection(c.peer.Load())
	e.Traffic = &event.Traffic{Sent: c.in.Load(), Received: c.out.Load(), Took: time.Since(c.start)}
	p.emit(event.Network(s, step, e))
}

func (c *conn) last() *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ruling
}

func (to place) connection(peer *string) event.Connection {
	e := event.Connection{Host: to.host, Port: int(to.port)}
	if to.literal {
		e.Host, e.IP = "", to.host
	}
	if peer != nil {
		if a, err := netip.ParseAddrPort(*peer); err == nil {
			e.IP = a.Addr().String()
		} else if host, _, err := net.SplitHostPort(*peer); err == nil {
			e.IP = host
		}
	}
	return e
}

// event returns a request without the values of its query, which may contain
// secrets. Its traffic is that of the bodies.
func (f *flight) event() event.Request {
	c := f.to.connection(f.peer.Load())
	c.Traffic = &event.Traffic{Sent: f.in.Load(), Received: f.out.Load(), Took: time.Since(f.start)}
	return event.Request{
		Connection: c, Scheme: f.scheme, Method: f.q.Method, Path: f.q.Path,
		Status: int(f.status.Load()), Layer: f.protocol,
	}
}

// recordRequest records a request that was forwarded and has ended.
func (p *Proxy) recordRequest(f *flight) {
	verdict := event.Allowed
	if f.decision.Audited {
		verdict = event.Audited
	}
	s := p.subject(f.c, verdict)
	s.Rule, s.Policy = f.decision.Rule, f.view.gen.Hash
	s.Reason = f.problem
	if f.decision.Audited {
		s.Reason = f.decision.Reason
	}
	if no := f.stopped.Load(); no != nil {
		s = p.denial(f.c, no)
	}
	p.emit(event.HTTP(s, f.event()))
}

// recordMisuse records a placeholder that was sent where its credential may not go.
func (p *Proxy) recordMisuse(f *flight, m *credential.MisuseError) {
	s := p.denial(f.c, refuse(layerCredential, "credentials", m.Error()))
	s.Reason = m.Error()
	p.emit(event.Found(s, event.Finding{
		ID:     "credential_misuse",
		Title:  "Placeholder misuse: a placeholder was sent where its credential may not go",
		Detail: fmt.Sprintf("%s: %s %s on %s", m.Error(), f.q.Method, f.q.Path, f.to.authority(f.scheme)),
	}))
}
