package gvisor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// connects returns what a cell hears when the runtime writes text, cut in two at a place.
func connects(text string, cut int) (l *limitedText, heard []string) {
	l = &limitedText{connect: func(_ driver.Program, to netip.AddrPort, udp bool) { heard = append(heard, fmt.Sprint(to, udp)) }}
	_, _ = l.Write([]byte(text[:cut]))
	_, _ = l.Write([]byte(text[cut:]))
	l.end(errors.New("ended"))
	return l, heard
}

// TestConnects: the lines of the runtime about connects are told, wherever they are cut,
// and what it says besides is kept.
func TestConnects(t *testing.T) {
	t.Parallel()
	const text = "connect tcp 203.0.113.7:443\nfirst word\nconnect udp [2001:db8::1]:53\nconnect tcp 127.0.0.1:80\nconnect tcp 203.0.113.7:0\nlast word"
	want := []string{"203.0.113.7:443 false", "[2001:db8::1]:53 true"}
	for cut := range len(text) {
		l, heard := connects(text, cut)
		if !slices.Equal(heard, want) {
			t.Errorf("cut at %d: %q", cut, heard)
		}
		if said := l.err().Error(); said != `the runtime has ended: ended: "first word\nlast word"` {
			t.Errorf("cut at %d: %s", cut, said)
		}
	}
}

// TestConnectsOfNobody: without anybody to tell, all lines are kept alike.
func TestConnectsOfNobody(t *testing.T) {
	t.Parallel()
	var l limitedText
	_, _ = l.Write([]byte("connect tcp 203.0.113.7:443\n"))
	if err := l.failure(1); !strings.Contains(err.Error(), "203.0.113.7") {
		t.Error(err)
	}
}

// FuzzConnects reads what a guest could write where the runtime speaks: what is told is an
// address outside of the cell, once for each line, and what is kept is bounded.
func FuzzConnects(f *testing.F) {
	f.Add("connect tcp 203.0.113.7:443\n", 3)
	f.Add("connect udp [fe80::1%eth0]:53\nconnect tcp [::ffff:127.0.0.1]:1\n", 9)
	f.Add(strings.Repeat("x", 3*maxSaid)+"\nconnect tcp 1.2.3.4:5\r\n", maxSaid)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		l, heard := connects(text, max(0, min(cut, len(text))))
		if len(heard) > strings.Count(text, "\n") || len(l.text) > maxSaid || len(l.line) > maxSaid {
			t.Errorf("%d told, %d and %d bytes kept", len(heard), len(l.text), len(l.line))
		}
		for _, h := range heard {
			addr, _, _ := strings.Cut(h, " ")
			to, err := netip.ParseAddrPort(addr)
			if err != nil || to.Addr().IsLoopback() || to.Addr().Zone() != "" || to.Addr().Is4In6() || to.Port() == 0 {
				t.Errorf("told %q", h)
			}
		}
	})
}
