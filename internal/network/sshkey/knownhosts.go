package sshkey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the format of hashed names; it protects nothing here
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// KnownHosts is a list of hosts with their keys.
type KnownHosts struct{ lines []hostLine }

type hostLine struct {
	marker string
	names  []string
	key    *PublicKey
}

// ParseKnownHosts reads a file known_hosts. As ssh does, it ignores lines that it
// cannot read, and keys of types that it does not know.
func ParseKnownHosts(text []byte) KnownHosts {
	var k KnownHosts
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		var l hostLine
		if strings.HasPrefix(f[0], "@") {
			l.marker, f = f[0], f[1:]
		}
		if len(f) < 3 {
			continue
		}
		l.names = strings.Split(f[0], ",")
		blob, err := base64.StdEncoding.DecodeString(f[2])
		if err != nil || TypeOf(blob) != f[1] {
			continue
		}
		if l.key, err = ParsePublic(blob); err == nil {
			k.lines = append(k.lines, l)
		}
	}
	return k
}

// Keys returns the keys of a host, without those that were revoked. Authorities that
// sign certificates of hosts do not count.
func (k KnownHosts) Keys(host string, port uint16) []*PublicKey {
	name := Name(host, port)
	var keys, revoked []*PublicKey
	for _, l := range k.lines {
		switch {
		case !l.matches(name):
		case l.marker == "":
			keys = append(keys, l.key)
		case l.marker == "@revoked":
			revoked = append(revoked, l.key)
		}
	}
	same := func(a *PublicKey) func(*PublicKey) bool {
		return func(b *PublicKey) bool { return bytes.Equal(a.blob, b.blob) }
	}
	var out []*PublicKey
	for _, key := range keys {
		if !slices.ContainsFunc(revoked, same(key)) && !slices.ContainsFunc(out, same(key)) {
			out = append(out, key)
		}
	}
	return out
}

// defaultPort is that of SSH.
const defaultPort = 22

// Name returns a host and a port as known_hosts names them.
func Name(host string, port uint16) string {
	host = strings.ToLower(host)
	if port == defaultPort {
		return host
	}
	return "[" + host + "]:" + strconv.Itoa(int(port))
}

// matches reports whether a line is about a host.
func (l hostLine) matches(name string) bool {
	found := false
	for _, pattern := range l.names {
		if strings.HasPrefix(pattern, "|") {
			found = found || matchesHash(pattern, name)
			continue
		}
		rest, not := strings.CutPrefix(strings.ToLower(pattern), "!")
		if !glob(rest, name) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// matchesHash reports whether a hashed name, |1|SALT|HASH, is that of a host.
func matchesHash(pattern, name string) bool {
	f := strings.Split(pattern, "|")
	if len(f) != 4 || f[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(f[2])
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(f[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	_, _ = mac.Write([]byte(name)) // it never fails
	return hmac.Equal(mac.Sum(nil), want)
}

// glob matches a pattern in which * stands for any characters and ? for one.
func glob(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
