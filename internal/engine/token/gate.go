package token

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Wrong secrets of one peer: the first ones are answered at once, the others at this
// rate.
const (
	wrongBurst     = 10
	wrongPerSecond = 1
)

// maxPeers bounds the peers that are remembered; those beyond it share one count.
const maxPeers = 4096

// WaitError says that a peer has sent too many wrong secrets.
type WaitError struct{ Retry time.Duration }

func (e *WaitError) Error() string {
	return fmt.Sprintf("too many requests with wrong tokens; try again in %s", e.Retry.Round(time.Millisecond))
}

// Checker finds out what a secret allows; a Book does.
type Checker interface {
	Check(secret string) (Grant, error)
}

// Gate checks the secrets of peers, and makes guessing slow. A peer that has sent
// too many wrong secrets gets no answer about another one until it has waited. A
// token that was used before passes always, so that a peer who guesses does not lock
// out those who share its address. A Gate is safe for concurrent use.
type Gate struct {
	tokens Checker
	now    func() time.Time

	mu    sync.Mutex
	wrong map[netip.Addr]*rate.Limiter
	rest  *rate.Limiter   // of the peers beyond maxPeers
	swept time.Time       // when peers were forgotten last
	known map[string]bool // ids of tokens that were used; there are as many as tokens
}

// NewGate returns a gate before tokens.
func NewGate(tokens Checker, now func() time.Time) *Gate {
	return &Gate{tokens: tokens, now: now, wrong: map[netip.Addr]*rate.Limiter{}, rest: newWrong(), known: map[string]bool{}}
}

func newWrong() *rate.Limiter { return rate.NewLimiter(wrongPerSecond, wrongBurst) }

// Check returns what a secret of a peer allows. The error is ErrRefused, or a
// *WaitError, or says that the tokens could not be read.
func (g *Gate) Check(peer netip.Addr, secret string) (Grant, error) {
	grant, err := g.tokens.Check(secret)
	if err != nil && !errors.Is(err, ErrRefused) {
		return Grant{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && g.known[grant.ID] {
		return grant, nil
	}
	now := g.now()
	count := g.of(peer, now)
	if wait := untilNext(count, now); wait > 0 {
		return Grant{}, &WaitError{Retry: wait}
	}
	if err != nil {
		count.AllowN(now, 1)
		return Grant{}, err
	}
	g.known[grant.ID] = true
	return grant, nil
}

// untilNext returns the time until one more is allowed.
func untilNext(r *rate.Limiter, now time.Time) time.Duration {
	reserved := r.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	reserved.CancelAt(now)
	return wait
}

// of returns the count of a peer. Addresses of one IPv6 network count as one peer,
// because one host has all of them.
func (g *Gate) of(peer netip.Addr, now time.Time) *rate.Limiter {
	peer = peer.Unmap().WithZone("")
	if peer.Is6() {
		peer = netip.PrefixFrom(peer, 64).Masked().Addr()
	}
	if r := g.wrong[peer]; r != nil {
		return r
	}
	if len(g.wrong) >= maxPeers && now.Sub(g.swept) >= sweepEvery {
		g.swept = now
		for addr, r := range g.wrong {
			if isFull(r, now) {
				delete(g.wrong, addr)
			}
		}
	}
	if len(g.wrong) >= maxPeers {
		return g.rest
	}
	r := newWrong()
	g.wrong[peer] = r
	return r
}
