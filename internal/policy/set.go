package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errUnder is about two policies that cannot be enforced together.
var errUnder = errors.New("the two policies cannot be combined")

func cannot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUnder, fmt.Sprintf(format, args...))
}

// maxCeilings bounds the lists of network policies that decide about one request.
const maxCeilings = 16

// Under returns the policy that allows exactly what both policies allow. What is fixed
// before a request is read is merged: paths, system calls, limits, variables and
// credentials. About connections and requests each policy decides by itself, so the
// network policies of the second one become a ceiling of the first. Under fails with
// errUnder where the fixed parts contradict each other.
func Under(p, ceiling *Policy) (*Policy, error) {
	if p.Digest() == ceiling.Digest() {
		return p, nil
	}
	out, err := fixedParts(p, ceiling)
	if err != nil {
		return nil, err
	}
	out.Network, out.Ceilings = networkUnder(p, ceiling)
	if len(out.Ceilings) > maxCeilings {
		return nil, cannot("a policy is under at most %d others", maxCeilings)
	}
	if out.Credentials, err = bothCredentials(p.Credentials, ceiling.Credentials); err != nil {
		return nil, err
	}
	// Each policy is valid by itself; both together may be too large.
	again, err := Parse("the two policies together", out.Canonical(), Options{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnder, err)
	}
	if again.Digest() != out.Digest() {
		return nil, cannot("the result has no canonical text")
	}
	return again, nil
}

// networkUnder returns the network policies of a policy, and its ceilings with those of
// another one. A list that is there already is not added.
func networkUnder(p, ceiling *Policy) (network []NetworkPolicy, ceilings [][]NetworkPolicy) {
	if len(p.Network) == 0 || len(ceiling.Network) == 0 {
		return nil, nil
	}
	seen := map[string]bool{networkText(p.Network): true}
	for _, c := range slices.Concat(p.Ceilings, ceiling.Lists()) {
		if text := networkText(c); !seen[text] {
			seen[text] = true
			ceilings = append(ceilings, c)
		}
	}
	return p.Network, ceilings
}

func networkText(network []NetworkPolicy) string {
	var b bytes.Buffer
	networkTree(network).write(&b, 0)
	return b.String()
}

// Lists returns the lists of network policies that must all allow a connection, and each
// request on it: the policy's own, then its ceilings. A list without entries allows nothing.
func (p *Policy) Lists() [][]NetworkPolicy {
	return append([][]NetworkPolicy{p.Network}, p.Ceilings...)
}

// section is one of those lists, with the beginning of its rules' names.
type section struct {
	prefix  string
	network []NetworkPolicy
}

func (p *Policy) sections() []section {
	out := make([]section, 0, 1+len(p.Ceilings))
	for i, list := range p.Lists() {
		prefix := ""
		if i > 0 {
			prefix = "ceilings[" + strconv.Itoa(i-1) + "]."
		}
		out = append(out, section{prefix, list})
	}
	return out
}

// AllNetwork returns the network policies of all lists.
func (p *Policy) AllNetwork() []NetworkPolicy {
	if len(p.Ceilings) == 0 {
		return p.Network
	}
	return slices.Concat(p.Lists()...)
}

// Serves reports whether each list has an entry for a host and port.
func (p *Policy) Serves(host string, port uint16) bool {
	return p.each(host, port, func(*Endpoint) bool { return true })
}

// PassesTCP reports whether each list has an entry for a host and port that is not
// inspected. If not, all requests to it are inspected.
func (p *Policy) PassesTCP(host string, port uint16) bool {
	return p.each(host, port, func(e *Endpoint) bool { return e.Protocol == TCP })
}

func (p *Policy) each(host string, port uint16, is func(*Endpoint) bool) bool {
	return !slices.ContainsFunc(p.Lists(), func(list []NetworkPolicy) bool {
		return !slices.ContainsFunc(list, func(n NetworkPolicy) bool {
			return slices.ContainsFunc(n.Endpoints, func(e Endpoint) bool { return e.Serves(host, port) && is(&e) })
		})
	})
}

// fixedParts returns what both policies allow before a request is read, without
// credentials.
func fixedParts(a, b *Policy) (*Policy, error) {
	out := &Policy{Filesystem: bothPaths(a.Filesystem, b.Filesystem), Landlock: bothLandlocks(a.Landlock, b.Landlock), Limits: bothLimits(a.Limits, b.Limits)}
	var err error
	if out.Process, err = bothProcesses(a.Process, b.Process); err != nil {
		return nil, err
	}
	if out.Environment, err = bothEnvironments(a.Environment, b.Environment); err != nil {
		return nil, err
	}
	return out, nil
}

// bothLandlocks returns the stricter one.
func bothLandlocks(a, b Landlock) Landlock {
	switch {
	case a == HardRequirement || b == HardRequirement:
		return HardRequirement
	case a == BestEffort && b == BestEffort:
		return BestEffort
	}
	return LandlockDefault
}

// bothPaths keeps each listed path that both policies show, with the lower access.
// Between listed paths the access does not change, so that this is exact.
func bothPaths(a, b Filesystem) Filesystem {
	out := Filesystem{Given: a.Given || b.Given, IncludeWorkdir: a.IncludeWorkdir && b.IncludeWorkdir}
	if !out.Given {
		return out
	}
	for _, p := range slices.Concat(a.listed(), b.listed()) {
		switch min(a.access(p), b.access(p)) {
		case pathAbsent:
		case pathReadOnly:
			out.ReadOnly = append(out.ReadOnly, p)
		case pathReadWrite:
			out.ReadWrite = append(out.ReadWrite, p)
		}
	}
	out.ReadOnly, out.ReadWrite = sortedSet(out.ReadOnly), sortedSet(out.ReadWrite)
	return out
}

type pathAccess int

const (
	pathAbsent pathAccess = iota
	pathReadOnly
	pathReadWrite
)

// readOnly returns the paths that are shown read-only, also by default.
func (f Filesystem) readOnly() []string {
	if !f.Given {
		return DefaultReadOnly()
	}
	return f.ReadOnly
}

func (f Filesystem) listed() []string { return slices.Concat(f.readOnly(), f.ReadWrite) }

// access returns the access to a path: the longest listed path that contains it
// decides.
func (f Filesystem) access(p string) pathAccess {
	access, longest := pathAbsent, -1
	consider := func(list []string, as pathAccess) {
		for _, dir := range list {
			if isInside(p, dir) && len(dir) > longest {
				access, longest = as, len(dir)
			}
		}
	}
	consider(f.readOnly(), pathReadOnly)
	consider(f.ReadWrite, pathReadWrite)
	return access
}

// bothLimits returns the lower limits; 0 for none.
func bothLimits(a, b Limits) Limits {
	return Limits{
		Memory: lower(a.Memory, b.Memory), Disk: lower(a.Disk, b.Disk), Output: lower(a.Output, b.Output), CPUs: lower(a.CPUs, b.CPUs),
		PIDs: lower(a.PIDs, b.PIDs), OpenFiles: lower(a.OpenFiles, b.OpenFiles), WallTime: lower(a.WallTime, b.WallTime),
	}
}

func lower[N int64 | time.Duration](a, b N) N {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

func bothProcesses(a, b Process) (Process, error) {
	if a.RunAsUser != b.RunAsUser || a.RunAsGroup != b.RunAsGroup {
		return Process{}, cannot("one runs commands as %s:%s, the other as %s:%s", a.RunAsUser, a.RunAsGroup, b.RunAsUser, b.RunAsGroup)
	}
	a.AllowSyscalls = common(a.AllowSyscalls, b.AllowSyscalls)
	return a, nil
}

// common returns what two sorted lists share.
func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if _, both := slices.BinarySearch(b, s); both {
			out = append(out, s)
		}
	}
	return out
}

func bothEnvironments(a, b Environment) (Environment, error) {
	out := Environment{Inherit: common(a.Inherit, b.Inherit), Set: slices.Clone(a.Set)}
	for _, v := range b.Set {
		i, both := slices.BinarySearchFunc(a.Set, v.Name, func(o Variable, name string) int { return strings.Compare(o.Name, name) })
		switch {
		case !both:
			out.Set = append(out.Set, v)
		case a.Set[i].Value != v.Value:
			return out, cannot("they set %s to different values", v.Name)
		}
	}
	slices.SortFunc(out.Set, func(x, y Variable) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// bothCredentials keeps the credentials that both name, for the endpoints that both
// name: a credential needs its value before the first request.
func bothCredentials(a, b []Credential) ([]Credential, error) {
	var out []Credential
	for _, c := range a {
		i := slices.IndexFunc(b, func(o Credential) bool { return o.Name == c.Name })
		if i < 0 {
			continue
		}
		if o := b[i]; o.Header != c.Header || o.Format != c.Format || o.ExposeAs != c.ExposeAs {
			return nil, cannot("they use the credential %s in different ways (inject, expose_as)", c.Name)
		}
		endpoints, err := bothCredentialEndpoints(c.Endpoints, b[i].Endpoints)
		if err != nil {
			return nil, fmt.Errorf("credential %s: %w", c.Name, err)
		}
		if len(endpoints) == 0 {
			continue
		}
		c.Endpoints = endpoints
		c.keepPlaces(b[i])
		out = append(out, c)
	}
	return out, nil
}

// keepPlaces leaves the places of a credential that another policy names too.
func (c *Credential) keepPlaces(o Credential) {
	c.ReplaceInHeaders, c.ReplaceInQuery = common(c.ReplaceInHeaders, o.ReplaceInHeaders), common(c.ReplaceInQuery, o.ReplaceInQuery)
	c.ReplaceInBody, c.KeepInBody = c.ReplaceInBody && o.ReplaceInBody, c.KeepInBody && o.KeepInBody
}

// maxPairs bounds the comparisons of the endpoints of one credential.
const maxPairs = 1 << 16

func bothCredentialEndpoints(a, b []CredentialEndpoint) ([]CredentialEndpoint, error) {
	weight := func(list []CredentialEndpoint) (n int) {
		for _, e := range list {
			n += 16 + len(e.Host.String()) + len(e.Path.String())
		}
		return n / 16
	}
	if weight(a)*weight(b) > maxPairs {
		return nil, cannot("they list too many endpoints for it to be compared with each other; write fewer")
	}
	var out []CredentialEndpoint
	for _, x := range a {
		for _, y := range b {
			ports := commonPorts(x.Ports, y.Ports)
			host, some, err := x.Host.Both(y.Host)
			if len(ports) == 0 || !some && err == nil {
				continue
			}
			path, within, perr := x.Path.Both(y.Path)
			switch {
			case err != nil:
				return nil, cannot("hosts %s and %s: %v", x.Host, y.Host, err)
			case perr != nil:
				return nil, cannot("paths %s and %s: %v", x.Path, y.Path, perr)
			case within:
				out = append(out, CredentialEndpoint{Host: host, Ports: ports, Path: path})
			}
		}
	}
	return out, nil
}

func commonPorts(a, b []uint16) []uint16 {
	var out []uint16
	for _, p := range a {
		if slices.Contains(b, p) {
			out = append(out, p)
		}
	}
	return out
}
