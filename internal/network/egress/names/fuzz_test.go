package names

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// FuzzRespond: whatever bytes come, the answer is a small, whole message to the
// same question, and only allowed names get addresses.
func FuzzRespond(f *testing.F) {
	for _, h := range []string{
		"26ed01000001000000000000036170690765786d706c6503636f6d0000010001",
		"8d800120000100000000000103617069076578616d706c6503636f6d000001000100002904b0000000000000",
		"0001010000010000000000000132013002313803313938 07696e2d61646472046172706100000c0001",
		"000101000001000000000000c00c00010001",
		"00010100000100000000000003617069076578616d706c6503636f6d0000ff0001",
		"00010100000100000000000003617069076578616d706c65036e65740000410001",
		"0001280000010000000000000000060001",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(h, " ", ""))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, req []byte) {
		s := newTestServer()
		s.start()
		out := s.respond(req, testClient)
		if out == nil {
			if len(req) >= headerLen && req[2]&0x80 == 0 {
				t.Fatalf("no answer to %x", req)
			}
			return
		}
		var m dns.Msg
		if err := m.Unpack(out); err != nil {
			t.Fatalf("%x: %v", out, err)
		}
		if len(out) > 512 || out[0] != req[0] || out[1] != req[1] || !m.Response || len(m.Answer) > 1 {
			t.Fatalf("%x is answered %x", req, out)
		}
		var q dns.Msg
		if len(m.Question) == 1 && (q.Unpack(req) != nil || q.Question[0] != m.Question[0]) {
			t.Fatalf("%x is answered with another question: %x", req, out)
		}
		for _, rr := range m.Answer {
			a, ok := rr.(*dns.A)
			if !ok {
				continue
			}
			host, err := hostName(m.Question[0].Name)
			addr, _ := netip.AddrFromSlice(a.A.To4())
			name, bound := s.Table.Name(addr)
			local := addr.IsLoopback() && strings.HasSuffix(host, "localhost")
			if err != nil || !local && (!bound || name != host || !s.Allowed(host)) {
				t.Fatalf("%q is answered %s, which is %q", host, addr, name)
			}
		}
		for _, q := range s.events {
			for _, c := range []byte(q.Name) {
				if c < ' ' || c > '~' {
					t.Fatalf("an event names %q", q.Name)
				}
			}
		}
	})
}

// FuzzName: what Assign takes comes back the same, and is a plain host name.
func FuzzName(f *testing.F) {
	for _, s := range []string{"api.example.com", "A.", "1.2.3.4", "xn--a", "*.a.b", `a\.b.c`, "0x7f.1", "localhost"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var table Table
		v4, _, err := table.Assign(name)
		if err != nil {
			return
		}
		got, ok := table.Name(v4)
		if !ok || got != strings.ToLower(strings.TrimSuffix(name, ".")) || len(got) > 253 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("Assign(%q) is kept as %q", name, got)
		}
		if _, ok := dns.IsDomainName(got); !ok {
			t.Fatalf("%q is no domain name", got)
		}
	})
}
