package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrBoth is about two policies for which no policy allows exactly what both allow.
var ErrBoth = errors.New("the two policies cannot be combined")

// Both returns the policy that allows exactly what both policies allow. Variables
// that either sets are set. A deny rule about contents also holds where only the other
// policy has them read. Where no such policy can be written, as for two patterns whose
// common part is no pattern, Both fails with ErrBoth rather than to allow or to deny
// too much. So it does where that would be too much work. Both returns the error of a
// context that ends before it is done.
func Both(ctx context.Context, a, b *Policy) (*Policy, error) {
	if a.Digest() == b.Digest() {
		return a, nil
	}
	w := &work{ctx: ctx, left: maxWork}
	out := &Policy{Filesystem: bothPaths(a.Filesystem, b.Filesystem), Landlock: bothLandlocks(a.Landlock, b.Landlock), Limits: bothLimits(a.Limits, b.Limits)}
	var err error
	if out.Process, err = bothProcesses(a.Process, b.Process); err != nil {
		return nil, err
	}
	if out.Environment, err = bothEnvironments(w, a.Environment, b.Environment); err != nil {
		return nil, err
	}
	if out.Network, err = bothNetworks(w, a.Network, b.Network); err != nil {
		return nil, err
	}
	if out.Credentials, err = bothCredentials(w, a.Credentials, b.Credentials); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Each policy is valid by itself; endpoints and variables of both together need
	// not be.
	again, err := Parse("the two policies together", out.Canonical(), Options{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBoth, err)
	}
	if again.Digest() != out.Digest() {
		return nil, fmt.Errorf("%w: the result has no canonical text", ErrBoth)
	}
	return again, nil
}

func cannot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBoth, fmt.Sprintf(format, args...))
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
	out.ReadOnly, out.ReadWrite = sorted(out.ReadOnly), sorted(out.ReadWrite)
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
			if beneath(p, dir) && len(dir) > longest {
				access, longest = as, len(dir)
			}
		}
	}
	consider(f.readOnly(), pathReadOnly)
	consider(f.ReadWrite, pathReadWrite)
	return access
}

// bothLimits returns the lower limits; 0 is none.
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

func bothEnvironments(w *work, a, b Environment) (Environment, error) {
	if err := w.pairs(len(a.Set), len(b.Set)); err != nil {
		return Environment{}, err
	}
	out := Environment{Inherit: common(a.Inherit, b.Inherit), Set: slices.Clone(a.Set)}
	for _, v := range b.Set {
		i := slices.IndexFunc(a.Set, func(o Variable) bool { return o.Name == v.Name })
		switch {
		case i < 0:
			out.Set = append(out.Set, v)
		case a.Set[i].Value != v.Value:
			return out, cannot("they set %s to different values", v.Name)
		}
	}
	slices.SortFunc(out.Set, func(x, y Variable) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// bothCredentials keeps the credentials that both name, for the endpoints that both
// name.
func bothCredentials(w *work, a, b []Credential) ([]Credential, error) {
	var out []Credential
	for _, c := range a {
		i := slices.IndexFunc(b, func(o Credential) bool { return o.Name == c.Name })
		if i < 0 {
			continue
		}
		if o := b[i]; o.Header != c.Header || o.Format != c.Format || o.ExposeAs != c.ExposeAs {
			return nil, cannot("they use the credential %s in different ways (inject, expose_as)", c.Name)
		}
		endpoints, err := bothCredentialEndpoints(w, c.Endpoints, b[i].Endpoints)
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

func bothCredentialEndpoints(w *work, a, b []CredentialEndpoint) ([]CredentialEndpoint, error) {
	if err := w.pairs(8*len(a), len(b)); err != nil {
		return nil, err
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

// Within reports whether a policy allows nothing that another one denies. It may miss
// that for policies that are written in different ways.
func Within(ctx context.Context, p, ceiling *Policy) (bool, error) {
	both, err := Both(ctx, p, ceiling)
	if errors.Is(err, ErrBoth) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Variables and names of rules allow nothing.
	left, right := *both, *p
	left.Environment.Set, right.Environment.Set = nil, nil
	left.Network, right.Network = nil, nil
	return left.Digest() == right.Digest() && slices.Equal(connections(both.Network), connections(p.Network)), nil
}

// connections returns the endpoints of network policies with their binaries, as a
// sorted list of texts.
func connections(network []NetworkPolicy) []string {
	var out []string
	for _, n := range network {
		for _, e := range n.Endpoints {
			one := NetworkPolicy{Endpoints: []Endpoint{e}, Binaries: n.Binaries}
			var b bytes.Buffer
			one.tree().write(&b, 0)
			out = append(out, b.String())
		}
	}
	return sorted(out)
}
