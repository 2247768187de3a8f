package egress

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

// misdirected is the refusal of a request for a host other than the
// connection's.
type misdirected struct{ refusal }

// checkForm refuses a request that another server could read differently.
func (f *flight) checkForm(r *http.Request) error {
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 || r.ProtoMajor > 2 || r.Method == "PRI" {
		return refuse(layerRequest, "request", "this version of HTTP is not supported here")
	}
	if r.ProtoMajor == 1 && r.URL.Host != "" && !f.c.explicit {
		if r.URL.User != nil || r.URL.Scheme != f.scheme {
			return refuse(layerRequest, "request", "the address in the request line is not one of this connection")
		}
	}
	if r.ProtoMajor == 2 && r.URL.Host != "" && !f.to.is(r.URL.Host, f.scheme) {
		return f.refuseMisdirected(r.URL.Host)
	}
	for _, host := range slices.Concat([]string{r.Host}, r.Header["Host"], f.c.head.hosts(r)) {
		if !f.to.is(host, f.scheme) {
			return f.refuseMisdirected(host)
		}
	}
	if reason := policy.Misleading(r.Method, r.Header); reason != "" {
		return refuse(layerRequest, "request", reason)
	}
	if r.URL.Path == "*" || r.URL.Opaque != "" {
		return refuse(layerRequest, "request", "the request names no path")
	}
	return nil
}

// refuseMisdirected refuses a request for another host.
func (f *flight) refuseMisdirected(host string) error {
	return &misdirected{*refuse(layerRequest, "request", "the request is for the host "+strconv.Quote(clip(host))+", the connection is to "+f.to.authority(f.scheme))}
}

// is reports whether a Host header names the place.
func (to place) is(host, scheme string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, defaultPort(scheme)
		if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
			name = name[1 : len(name)-1]
		}
	}
	if port != strconv.Itoa(int(to.port)) {
		return false
	}
	if to.literal {
		addr, err := netip.ParseAddr(name)
		return err == nil && addr.String() == to.host
	}
	return strings.EqualFold(strings.TrimSuffix(name, "."), to.host)
}

// authority returns the place as a Host header names it.
func (to place) authority(scheme string) string {
	port := strconv.Itoa(int(to.port))
	if port != defaultPort(scheme) {
		return net.JoinHostPort(to.host, port)
	}
	if strings.Contains(to.host, ":") {
		return "[" + to.host + "]"
	}
	return to.host
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// canonical finds the canonical form of the path and the query.
func (f *flight) canonical(r *http.Request) error {
	// A URL keeps the spelling of a path only if it is not the usual one.
	raw := r.URL.RawPath
	if raw == "" {
		raw = r.URL.EscapedPath()
	}
	if raw == "" {
		raw = "/"
	}
	path, err := match.URLPath(policy.EscapeOdd(raw), f.view.encodedSlash())
	if err != nil {
		return refuse(layerRequest, "request", err.Error())
	}
	f.q.Path = path
	f.endpoint = f.view.endpointFor(path)
	if f.endpoint != nil {
		f.protocol = f.endpoint.Protocol.String()
	}
	query, reason := policy.ReadQuery(r.URL.RawQuery)
	if reason != "" {
		return refuse(layerRequest, "request", reason)
	}
	f.q.Query = query
	return nil
}

// readOtherwise decides about the other ways in which servers may read the
// request.
func (f *flight) readOtherwise(h http.Header) policy.Explanation {
	return f.q.DecideVariants(h, f.decision, f.view.explain)
}
