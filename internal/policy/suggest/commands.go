package suggest

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// target is a port of a host.
type target struct {
	port uint16
	// plain reports that it is plain HTTP on a port other than 80.
	plain bool
}

// portsIn finds the ports that command lines name together with a host. With a
// port or a scheme it is that one, and HTTPS with neither.
func portsIn(lines []string, host string) []target {
	var found []target
	for _, line := range lines {
		line = strings.ToLower(line)
		for at := strings.Index(line, host); at >= 0; {
			found = append(found, portAround(line[:at], line[at+len(host):])...)
			next := strings.Index(line[at+1:], host)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	slices.SortFunc(found, func(a, b target) int { return cmp.Compare(a.port, b.port) })
	return slices.Compact(found)
}

func portAround(before, after string) []target {
	if digits, ok := strings.CutPrefix(after, ":"); ok {
		end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
		if end < 0 {
			end = len(digits)
		}
		if n, err := strconv.ParseUint(digits[:end], 10, 16); err == nil && n > 0 {
			return []target{{port: uint16(n), plain: n != 80 && strings.HasSuffix(before, "http://")}}
		}
	}
	for _, s := range []struct {
		scheme string
		port   uint16
	}{{"https://", 443}, {"http://", 80}, {"ssh://git@", 22}, {"git@", 22}} {
		if strings.HasSuffix(before, s.scheme) {
			return []target{{port: s.port}}
		}
	}
	return nil
}

// urlHost matches the host of a URL, or of the short form that git has for SSH.
var urlHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:https?://|ssh://git@|\bgit@)([a-z0-9.-]*[a-z0-9])`)
})

// hostsIn finds the hosts of the URLs on command lines, but for the cell's own
// loopback.
func hostsIn(lines []string) []string {
	var hosts []string
	for _, line := range lines {
		for _, m := range urlHost().FindAllStringSubmatch(strings.ToLower(line), maxSuggested) {
			host := m[1]
			addr, err := netip.ParseAddr(host)
			local := host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
			if !local && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}
