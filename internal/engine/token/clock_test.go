package token

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRequestsAndAClockThatJumps: a clock that jumps gives nobody more than one burst,
// and lets nobody wait longer than the quota says.
func TestRequestsAndAClockThatJumps(t *testing.T) {
	t.Parallel()
	c := newClock()
	l, g := NewLimiter(c.now), Grant{ID: "a", Quota: api.Quota{RequestsPerSecond: 2}}
	burst := func() (n int) {
		for ; n < 10; n++ {
			if l.Request(g) != nil {
				break
			}
		}
		if e := exceeded(t, l.Request(g)); e.Retry > 500*time.Millisecond {
			t.Errorf("to wait %s", e.Retry)
		}
		return n
	}
	if n := burst(); n != 2 {
		t.Errorf("%d requests", n)
	}
	for _, jump := range []time.Duration{-time.Second, -365 * 24 * time.Hour} {
		c.move(jump)
		if n := burst(); n != 0 {
			t.Errorf("%d requests after a jump of %s", n, jump)
		}
		c.move(500 * time.Millisecond)
		if n := burst(); n != 1 {
			t.Errorf("%d requests half a second later", n)
		}
	}
	c.move(365 * 24 * time.Hour)
	if n := burst(); n != 2 {
		t.Errorf("%d requests after a jump forwards", n)
	}
}

// TestGuessesAndAClockThatJumps is the same of wrong tokens.
func TestGuessesAndAClockThatJumps(t *testing.T) {
	t.Parallel()
	b, _, c := newTestBook(t)
	g, peer := NewGate(b, c.now), netip.MustParseAddr("192.0.2.1")
	guesses := func() (n int) {
		for ; n < 100; n++ {
			_, err := g.Check(peer, "fct_wrong")
			if wait, ok := errors.AsType[*WaitError](err); ok {
				if wait.Retry > time.Second {
					t.Errorf("to wait %s", wait.Retry)
				}
				break
			}
		}
		return n
	}
	if n := guesses(); n != wrongBurst {
		t.Errorf("%d guesses", n)
	}
	c.move(-30 * 24 * time.Hour)
	if n := guesses(); n != 0 {
		t.Errorf("%d guesses after a jump back", n)
	}
	c.move(60 * 24 * time.Hour)
	if n := guesses(); n != wrongBurst {
		t.Errorf("%d guesses after a jump forwards", n)
	}
}

// TestTokensAndAClockThatJumps: a token ends by the clock, and one that was revoked
// stays so whatever the clock says.
func TestTokensAndAClockThatJumps(t *testing.T) {
	t.Parallel()
	b, _, c := newTestBook(t)
	timed := mustCreate(t, b, api.TokenRequest{Name: "timed", Scopes: []string{"read"}, Expires: time.Hour})
	revoked := mustCreate(t, b, api.TokenRequest{Name: "revoked", Scopes: []string{"read"}})
	if _, err := b.Revoke("revoked", "tester"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		jump    time.Duration
		refused bool
	}{{0, false}, {-24 * time.Hour, false}, {25*time.Hour - time.Nanosecond, false}, {time.Nanosecond, true}, {365 * 24 * time.Hour, true}} {
		c.move(step.jump)
		if _, err := b.Check(timed.Token); errors.Is(err, ErrRefused) != step.refused {
			t.Errorf("after a jump of %s: %v", step.jump, err)
		}
		if _, err := b.Check(revoked.Token); !errors.Is(err, ErrRefused) {
			t.Errorf("after a jump of %s a revoked token: %v", step.jump, err)
		}
	}
}
