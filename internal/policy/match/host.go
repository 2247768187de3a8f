package match

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Host matches names of hosts, label by label and without regard to case. "*"
// stands for any characters within the first label; as a whole label anywhere
// it is exactly one label; "**" as the whole first label is one or more labels.
// A pattern with a wildcard ends in two labels without one, so that no rule
// allows a whole top-level domain. "*.a.b" does not match "a.b". An address
// matches itself only, in whatever spelling. The zero Host is no pattern and
// matches nothing.
type Host struct {
	src    string
	addr   netip.Addr
	deep   bool
	labels [][]string
}

// NewHost compiles a pattern.
func NewHost(p string) (Host, error) {
	if p == "" {
		return Host{}, errors.New("is empty")
	}
	if addr, ok := parseAddr(p); ok {
		switch {
		case addr.Zone() != "":
			return Host{}, errors.New("an address of a policy has no zone")
		case addr.Is4In6():
			return Host{}, fmt.Errorf("write the address as %s", addr.Unmap())
		}
		return Host{src: addr.String(), addr: addr}, nil
	}
	src := lower(p)
	labels := strings.Split(src, ".")
	if err := checkLabels(src, labels); err != nil {
		return Host{}, err
	}
	h := Host{src: src}
	if labels[0] == "**" {
		h.deep = true
		labels = labels[1:]
	}
	for _, l := range labels {
		h.labels = append(h.labels, strings.Split(l, "*"))
	}
	return h, nil
}

func checkLabels(src string, labels []string) error {
	if len(src) > 253 {
		return errors.New("longer than 253 characters")
	}
	for i, l := range labels {
		switch {
		case l == "" && i == len(labels)-1 && i > 0:
			return errors.New("ends with a dot; write the name without it")
		case l == "":
			return errors.New("has an empty label")
		case l == "**" && i == 0, l == "*":
		case strings.Contains(l, "**"):
			return errors.New("** may only be the whole first label")
		case strings.Contains(l, "*") && i > 0:
			return errors.New("* may be part of the first label only; elsewhere it is a whole label")
		}
		if err := checkLabel(l); err != nil {
			return err
		}
	}
	last := labels[len(labels)-1]
	if strings.Contains(src, "*") && (len(labels) < 3 || strings.Contains(last, "*") || strings.Contains(labels[len(labels)-2], "*")) {
		return errors.New("matches too much: a host with a wildcard ends in two labels without one, as in *.example.com")
	}
	if numeric(last) {
		return errors.New("ends in a number but is not an address such as 192.0.2.1")
	}
	return nil
}

func checkLabel(l string) error {
	if len(l) > 63 {
		return errors.New("has a label longer than 63 characters")
	}
	for i := range len(l) {
		c := l[i]
		switch {
		case alphanumeric(c), c == '-', c == '_', c == '*':
		case c >= 0x80:
			return errors.New("is not ASCII; write the name in its xn-- form")
		case c == ':':
			return errors.New("holds a colon; the port is a separate key")
		case c == '/':
			return errors.New("holds a slash; a host is a name without scheme and path")
		default:
			return fmt.Errorf("holds %q, which no host name has", c)
		}
	}
	if l[0] == '-' || l[len(l)-1] == '-' {
		return errors.New("has a label that starts or ends with -")
	}
	return nil
}

// lower changes ASCII letters only: Unicode has letters, such as the Kelvin
// sign, whose lower case is an ASCII one.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// numeric reports whether resolvers could take a name that ends in this label
// for an address ("127.1", "0x7f.1").
func numeric(label string) bool {
	digits, set := label, "0123456789"
	if strings.HasPrefix(label, "0x") {
		digits, set = label[2:], "0123456789abcdef"
	}
	return strings.Trim(digits, set) == ""
}

func parseAddr(s string) (netip.Addr, bool) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
		if !strings.Contains(s, ":") {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(s)
	return addr, err == nil
}

// Match reports whether a host matches: a name, with or without the dot at its
// end, or an address.
func (h Host) Match(host string) bool {
	if addr, ok := parseAddr(host); ok {
		return h.addr.IsValid() && h.addr == addr
	}
	if h.labels == nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(lower(host), ".")
	for _, l := range labels {
		if l == "" || strings.Contains(l, "*") || checkLabel(l) != nil {
			return false
		}
	}
	switch {
	case h.deep && len(labels) <= len(h.labels):
		return false
	case h.deep:
		labels = labels[len(labels)-len(h.labels):]
	case len(labels) != len(h.labels):
		return false
	}
	for i, parts := range h.labels {
		if !matchWild(parts, labels[i]) {
			return false
		}
	}
	return true
}

// Addr returns the address if the pattern is one.
func (h Host) Addr() (netip.Addr, bool) { return h.addr, h.addr.IsValid() }

// Exact reports whether the pattern has no wildcard.
func (h Host) Exact() bool { return h.src != "" && !strings.Contains(h.src, "*") }

// String returns the pattern; two patterns with one text mean the same.
func (h Host) String() string { return h.src }

// IsZero reports whether there is no pattern.
func (h Host) IsZero() bool { return h.src == "" }

// Equal reports whether two patterns are the same.
func (h Host) Equal(o Host) bool { return h.src == o.src }
