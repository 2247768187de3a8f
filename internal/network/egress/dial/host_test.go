package dial

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"api.example.com":   "api.example.com",
		"API.Example.COM.":  "api.example.com",
		"db":                "db",
		"_x._tcp.a.b":       "_x._tcp.a.b",
		"xn--bcher-kva.ch":  "xn--bcher-kva.ch",
		"1.2.3.4":           "1.2.3.4",
		"127.0.0.1":         "127.0.0.1", // Dial refuses it by its class
		"2001:DB8::1":       "2001:db8::1",
		"[2001:db8:0:0::1]": "2001:db8::1",
		"1.2.3.4.example":   "1.2.3.4.example",
		"0x7f.com":          "0x7f.com",
	} {
		h, err := parseHost(in)
		if err != nil || h.String() != want || (h.Name == "") != h.Addr.IsValid() {
			t.Errorf("ParseHost(%q) = %+v, %v; want %s", in, h, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "..", "a..b", "a.b..", ".a",
		// Spellings of 127.0.0.1 that some resolver takes.
		"127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.01",
		"127.0.0.1.", "127.0.0.1%lo", "1.2.3.4.5", "1.2.3", "1.2.3.256", "0", "1", "[127.0.0.1]", "127。0。0。1", "①②⑦.0.0.1", "127.0.0.0x1",
		"::ffff:127.0.0.1", "[::ffff:1.2.3.4]", "::ffff:7f00:1", "fe80::1%eth0", "[fe80::1%25eth0]", "[::1", "::1]", "[]", "[::1]:80", "::1.", ":::1",
		"*.example.com", "**.a.b", "a*.example.com", "*",
		"a b", "a\x00.com", "a\n.com", "a/b", "a@b.com", "a:80", "a%2ecom", "a\\b", "ä.com", "a_b.\u212aelvin.com", "-a.com", "a-.com", "http://a.com",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com",
	} {
		if h, err := parseHost(in); !errors.Is(err, ErrHost) {
			t.Errorf("ParseHost(%q) = %+v, %v; want ErrHost", in, h, err)
		}
	}
	for _, in := range []string{"localhost", "LOCALHOST.", "app.localhost", "a.b.localhost."} {
		if h, err := parseHost(in); !errors.Is(err, ErrRefused) {
			t.Errorf("ParseHost(%q) = %+v, %v; want ErrRefused", in, h, err)
		}
	}
}

func TestParsePin(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		from Endpoint
		to   string
	}{
		"api.example.com=127.0.0.1":             {Endpoint{"api.example.com", 0}, "127.0.0.1:0"},
		"API.example.com.:443=127.0.0.1:8443":   {Endpoint{"api.example.com", 443}, "127.0.0.1:8443"},
		"a.b:443=10.0.0.1":                      {Endpoint{"a.b", 443}, "10.0.0.1:0"},
		"a.b=::1":                               {Endpoint{"a.b", 0}, "[::1]:0"},
		"a.b:1=[::1]:65535":                     {Endpoint{"a.b", 1}, "[::1]:65535"},
		"a.b=[fd00::1]":                         {Endpoint{"a.b", 0}, "[fd00::1]:0"},
		"192.0.2.7:80=192.168.1.1:8080":         {Endpoint{"192.0.2.7", 80}, "192.168.1.1:8080"},
		"[2001:db8::1]:80=8.8.8.8":              {Endpoint{"2001:db8::1", 80}, "8.8.8.8:0"},
		"2001:db8::1=8.8.8.8":                   {Endpoint{"2001:db8::1", 0}, "8.8.8.8:0"},
		"db=127.0.0.1:5432":                     {Endpoint{"db", 0}, "127.0.0.1:5432"},
		"a.b=100.64.0.1":                        {Endpoint{"a.b", 0}, "100.64.0.1:0"},
		"a.b=198.18.0.1":                        {Endpoint{"a.b", 0}, "198.18.0.1:0"},
		"a.b=127.255.0.1":                       {Endpoint{"a.b", 0}, "127.255.0.1:0"},
		"xn--bcher-kva.example:8080=10.0.0.1:1": {Endpoint{"xn--bcher-kva.example", 8080}, "10.0.0.1:1"},
	} {
		from, to, err := ParsePin(in)
		if err != nil || from != want.from || to != netip.MustParseAddrPort(want.to) {
			t.Errorf("ParsePin(%q) = %v, %v, %v; want %v, %s", in, from, to, err, want.from, want.to)
		}
	}
	for _, in := range []string{
		"", "=", "a.b", "a.b=", "=127.0.0.1", "a.b=c.d", "a.b=127.1", "a.b=0.0.0.0", "a.b=::", "a.b=224.0.0.1", "a.b=255.255.255.255",
		"a.b=169.254.169.254", "a.b=169.254.1.1", "a.b=fe80::1", "a.b=fe80::1%eth0", "a.b=fd00:ec2::254", "a.b=::ffff:127.0.0.1", "a.b=64:ff9b::7f00:1",
		"a.b:0=127.0.0.1", "a.b:080=127.0.0.1", "a.b:65536=127.0.0.1", "a.b:=127.0.0.1", "a.b:+1=127.0.0.1", "a.b=127.0.0.1:0", "a.b=127.0.0.1:",
		"a.b:http=127.0.0.1", "*.a.b=127.0.0.1", "a.b=127.0.0.1=1", "a.b=[127.0.0.1]:1", "a.b=[::1]x:1", "localhost=127.0.0.1", " a.b=127.0.0.1", "a.b = 127.0.0.1",
	} {
		if from, to, err := ParsePin(in); err == nil {
			t.Errorf("ParsePin(%q) = %v, %v; want an error", in, from, to)
		}
	}
}

// FuzzParseHost: what is taken is a plain name or one address, and reads back
// the same.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"api.example.com", "1.2.3.4", "[::1]", "0x7f.1", "a.b.", "fe80::1%lo", "::ffff:1.2.3.4", "*.a.b", "localhost"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHost(s)
		if err != nil {
			if !errors.Is(err, ErrHost) && !errors.Is(err, ErrRefused) || h != (host{}) {
				t.Fatalf("ParseHost(%q) = %+v, %v", s, h, err)
			}
			return
		}
		if again, err := parseHost(h.String()); err != nil || again != h {
			t.Fatalf("%q reads as %+v, which reads as %+v, %v", s, h, again, err)
		}
		if h.Addr.IsValid() {
			if h.Name != "" || h.Addr.Zone() != "" || h.Addr.Is4In6() {
				t.Fatalf("%q is %+v", s, h)
			}
			return
		}
		label := h.Name[strings.LastIndexByte(h.Name, '.')+1:]
		if strings.Trim(h.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || len(h.Name) > 253 || strings.Trim(label, "0123456789") == "" {
			t.Fatalf("%q is the name %q", s, h.Name)
		}
	})
}

// FuzzParsePin: what is taken can be granted.
func FuzzParsePin(f *testing.F) {
	for _, s := range []string{"a.b=127.0.0.1", "a.b:443=[::1]:8443", "[2001:db8::1]:80=8.8.8.8", "a:=1", "=:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		from, to, err := ParsePin(s)
		if err != nil {
			return
		}
		if h, err := parseHost(from.Host); err != nil || h.String() != from.Host || !to.Addr().IsValid() || !pinnable(classify(to.Addr())) {
			t.Fatalf("ParsePin(%q) = %v, %v", s, from, to)
		}
		got := Pins{from: {to}}.lookup(from.Host, max(from.Port, 1))
		if len(got) != 1 || got[0].Addr() != to.Addr() || got[0].Port() == 0 {
			t.Fatalf("%q leads to %v", s, got)
		}
	})
}

// TestPinsFor: what the operator's tools use is pinned where it is not public, and
// never to where no host may lead.
func TestPinsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host  string
		addrs string
		want  string
	}{
		{"r.example", "93.184.216.34 2606:4700::1", ""},
		{"r.example", "10.0.0.1", "r.example:443=10.0.0.1"},
		{"r.example", "198.18.0.7 93.184.216.34", "r.example:443=198.18.0.7 r.example:443=93.184.216.34"},
		{"r.example", "127.0.0.1 ::1", "r.example:443=127.0.0.1 r.example:443=[::1]"},
		{"r.example", "100.64.1.1 fd12::1", "r.example:443=100.64.1.1 r.example:443=[fd12::1]"},
		{"r.example", "169.254.169.254 169.254.1.1 fe80::1 100.100.100.200 0.0.0.0 224.0.0.1", ""},
		{"r.example", "169.254.169.254 10.0.0.1", "r.example:443=10.0.0.1"},
		{"10.0.0.1", "10.0.0.1", ""},
		{"bad host", "10.0.0.1", ""},
		{"r.example", "", ""},
	} {
		var addrs []netip.Addr
		for a := range strings.FieldsSeq(c.addrs) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		got := PinsFor(c.host, 443, addrs)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s at %s: %v", c.host, c.addrs, got)
		}
		for _, pin := range got {
			if _, _, err := ParsePin(pin); err != nil {
				t.Error(err)
			}
		}
	}
}
