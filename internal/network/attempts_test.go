package network_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// attempts returns the number of the events that f causes, and the journal of them.
func attempts(t *testing.T, f func(*driver.Attempts)) (count int, text string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	journal, err := event.Create(file, event.Meta{}, event.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	a, finish := network.Attempts(func(e event.Event) {
		count++
		if err := journal.Append(e); err != nil {
			t.Error(err)
		}
	})
	f(a)
	finish()
	if _, err := journal.Seal(); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return count, string(all)
}

func question(t *testing.T, name string) []byte {
	t.Helper()
	q, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestAttempts: what a cell without a network tries is denied, whatever its bytes are.
func TestAttempts(t *testing.T) {
	t.Parallel()
	count, all := attempts(t, func(a *driver.Attempts) {
		a.Connect(driver.Program{PID: 7, Binary: "/usr/bin/curl"}, netip.MustParseAddrPort("203.0.113.7:443"), false)
		a.Question(question(t, "registry.test."))
		a.Question(question(t, "registry.test."))
		for _, hostile := range []string{"", "x", strings.Repeat("\xff", 512), "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"} {
			a.Question([]byte(hostile))
		}
	})
	for _, want := range []string{"203.0.113.7", "/usr/bin/curl", "registry.test", "the cell has no network"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if count != 3 { // the repeated question is counted
		t.Errorf("%d events:\n%s", count, all)
	}
}

// TestManyAttempts: a cell that asks for ever new names makes a bounded number of events.
func TestManyAttempts(t *testing.T) {
	t.Parallel()
	const bound = 300 // four seconds' worth, and what comes while the test runs
	count, _ := attempts(t, func(a *driver.Attempts) {
		for i := range 900 {
			a.Question(question(t, fmt.Sprintf("n%d.test.", i)))
		}
	})
	if count > bound {
		t.Errorf("%d events", count)
	}
}
