package policy

import (
	"slices"
	"strconv"
)

// plain reports whether an inspected endpoint uses plain HTTP on a port: with
// tls: off on each of its ports, otherwise on port 80. On the others it uses
// TLS. It never uses both on one port. So a credential, which goes only over
// TLS, is never sent in clear text because a program left TLS out.
func (e *Endpoint) plain(port uint16) bool {
	return e.TLS == TLSOff || e.TLS == TLSAuto && port == plainPort
}

// plainPort is the port of plain HTTP.
const plainPort = 80

// The schemes of requests.
const (
	HTTP  = "http"
	HTTPS = "https"
)

// checkScheme returns why a request cannot be in plain HTTP, or in TLS; nil if
// it can. If endpoints disagree, TLS is required.
func checkScheme(found []candidate, q Request) *Explanation {
	read := slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return c.ep.Protocol == TCP })
	if q.Scheme == "" || len(read) == 0 {
		return nil
	}
	port := strconv.Itoa(int(q.Port))
	at := slices.IndexFunc(read, func(c candidate) bool { return !c.ep.plain(q.Port) })
	switch {
	case q.Scheme != HTTPS && at >= 0:
		return &Explanation{Rule: read[at].name, Reason: "plain HTTP, and the endpoint uses TLS on port " + port + "; tls: off would change that"}
	case q.Scheme != HTTP && at < 0:
		return &Explanation{Rule: read[0].name, Reason: "TLS, and the endpoint uses plain HTTP on port " + port}
	}
	return nil
}

// clearText returns why a credential could never be sent to one of its
// endpoint's ports; "" if it could.
func (e *CredentialEndpoint) clearText(network []NetworkPolicy) string {
	if slices.Contains(e.Ports, plainPort) {
		return "port 80 uses plain HTTP"
	}
	for _, n := range network {
		for i := range n.Endpoints {
			if ep := &n.Endpoints[i]; ep.TLS == TLSOff && ep.Host.Equal(e.Host) && shared(ep.Ports, e.Ports) {
				return "network_policies." + n.Key + " says tls: off for this host and port"
			}
		}
	}
	return ""
}
