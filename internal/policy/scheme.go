package policy

import (
	"slices"
	"strconv"
)

// Plain reports whether an inspected endpoint speaks plain HTTP on a port: with
// tls: off on each of its ports, otherwise on port 80. On the others it speaks
// TLS. It never speaks both on one port, so that a credential, which goes over
// TLS only, is never sent in clear text because a program left TLS out.
func (e *Endpoint) Plain(port uint16) bool {
	return e.TLS == TLSOff || e.TLS == TLSAuto && port == plainPort
}

// plainPort is the port of plain HTTP.
const plainPort = 80

// The schemes of requests.
const (
	HTTP  = "http"
	HTTPS = "https"
)

// checkScheme says why a request cannot be in plain HTTP, or in TLS; nil if it
// can. Endpoints that disagree are spoken to in TLS.
func checkScheme(found []candidate, q Request) *Explanation {
	read := slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return c.ep.Protocol == TCP })
	if q.Scheme == "" || len(read) == 0 {
		return nil
	}
	port := strconv.Itoa(int(q.Port))
	at := slices.IndexFunc(read, func(c candidate) bool { return !c.ep.Plain(q.Port) })
	switch {
	case q.Scheme != HTTPS && at >= 0:
		return &Explanation{Rule: read[at].name, Reason: "plain HTTP, and the endpoint speaks TLS on port " + port + "; tls: off would change that"}
	case q.Scheme != HTTP && at < 0:
		return &Explanation{Rule: read[0].name, Reason: "TLS, and the endpoint speaks plain HTTP on port " + port}
	}
	return nil
}

// clearText says why a credential could never be sent to one of its endpoint's
// ports; "" if it could.
func (e *CredentialEndpoint) clearText(network []NetworkPolicy) string {
	if slices.Contains(e.Ports, plainPort) {
		return "port 80 speaks plain HTTP"
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
