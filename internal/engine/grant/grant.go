// Package grant reads and matches the operator's grants: what policies may take
// from the host, which is paths outside the system's directories, and variables
// of the operator's environment; and which controls they may loosen.
//
// A policy names such things, and the operator grants them. Grants come from flags, for one run, and
// from the operator's configuration file, for named policies. The package must not
// know cells, policies or what a path shows.
package grant

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Grant allows a policy to use one path of the host and everything below it, one
// variable, one system call that cells are denied, or addresses that are not public. One
// of Path, Env, Syscall and Address is set.
type Grant struct {
	// Path is absolute and clean, or "".
	Path string
	// Write allows the policy to list Path under read_write too.
	Write bool
	// Env is the name of a variable, or "".
	Env string
	// Syscall is the name of a system call, or "".
	Syscall string
	// Address is a range of addresses, or not valid.
	Address netip.Prefix
	// Policy is the policy that the grant is for: "sha256:" and its hash, or
	// the directory of its file, with a slash at its end. "" is any policy.
	Policy string
}

// String returns the flag of the same grant for one run.
func (g Grant) String() string {
	switch {
	case g.Env != "":
		return "--grant-env " + g.Env
	case g.Syscall != "":
		return "--grant-syscall " + g.Syscall
	case g.Address.IsValid():
		return "--grant-address " + g.Address.String()
	case g.Write:
		return "--grant-path " + g.Path + ":rw"
	}
	return "--grant-path " + g.Path
}

// ParsePath reads PATH[:ro|rw], the value of --grant-path.
func ParsePath(s string) (Grant, error) {
	p, write := strings.CutSuffix(s, ":rw")
	if !write {
		p = strings.TrimSuffix(s, ":ro")
	}
	return newPath(p, write)
}

func newPath(p string, write bool) (Grant, error) {
	switch {
	case !path.IsAbs(p):
		return Grant{}, errors.New("the path is not absolute")
	case strings.IndexByte(p, 0) >= 0:
		return Grant{}, errors.New("the path holds a NUL byte")
	case path.Clean(p) == "/":
		return Grant{}, errors.New("/ would grant the whole host")
	}
	return Grant{Path: path.Clean(p), Write: write}, nil
}

// ParseEnv reads NAME, the value of --grant-env.
func ParseEnv(s string) (Grant, error) {
	if s == "" || strings.ContainsAny(s, "=\x00*") {
		return Grant{}, errors.New("not the name of a variable")
	}
	return Grant{Env: s}, nil
}

// ParseSyscall reads NAME, the value of --grant-syscall. It does not know which names
// there are.
func ParseSyscall(s string) (Grant, error) {
	if s == "" || len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return Grant{}, errors.New("not the name of a system call")
	}
	return Grant{Syscall: s}, nil
}

// ParseAddress reads CIDR, the value of --grant-address: a range, or one address. It does
// not know which addresses a cell can reach.
func ParseAddress(s string) (Grant, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return Grant{Address: netip.PrefixFrom(a, a.BitLen())}, nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return Grant{}, errors.New("not an address or a range such as 10.0.5.0/24")
	case p != p.Masked():
		return Grant{}, fmt.Errorf("it has bits beyond its length; write %s", p.Masked())
	}
	return Grant{Address: p}, nil
}

// Harmless reports whether a policy may inherit a variable without a grant.
func Harmless(name string) bool {
	return strings.HasPrefix(name, "LC_") ||
		slices.Contains([]string{"LANG", "TERM", "TZ", "COLORTERM", "NO_COLOR", "CI"}, name)
}

// Subject is the policy that needs a grant.
type Subject struct {
	// Hash is the policy's hash, with "sha256:" before it.
	Hash string
	// File is the real path of the policy's file; "" if it has none.
	File string
}

// List is the grants of one run.
type List []Grant

// For returns the grants that apply to a policy.
func (l List) For(s Subject) List {
	return slices.DeleteFunc(slices.Clone(l), func(g Grant) bool {
		return g.Policy != "" && g.Policy != s.Hash && !(strings.HasSuffix(g.Policy, "/") && strings.HasPrefix(s.File, g.Policy))
	})
}

// Path returns the innermost grant that covers a path. The caller has resolved
// symbolic links in both.
func (l List) Path(p string, write bool) (best Grant, ok bool) {
	for _, g := range l {
		covers := g.Path != "" && (p == g.Path || strings.HasPrefix(p, g.Path+"/")) && (g.Write || !write)
		if covers && len(g.Path) > len(best.Path) {
			best, ok = g, true
		}
	}
	return best, ok
}

// Env returns the grant of a variable.
func (l List) Env(name string) (Grant, bool) {
	return l.first(func(g Grant) bool { return g.Env != "" && g.Env == name })
}

// Syscall returns the grant of a system call.
func (l List) Syscall(name string) (Grant, bool) {
	return l.first(func(g Grant) bool { return g.Syscall != "" && g.Syscall == name })
}

// Address returns the grant of all addresses of a range.
func (l List) Address(p netip.Prefix) (Grant, bool) {
	return l.first(func(g Grant) bool {
		return g.Address.IsValid() && g.Address.Bits() <= p.Bits() && g.Address.Contains(p.Addr())
	})
}

func (l List) first(covers func(Grant) bool) (Grant, bool) {
	i := slices.IndexFunc(l, covers)
	if i < 0 {
		return Grant{}, false
	}
	return l[i], true
}
