package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/grant"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/suggest"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// grants compares what a policy needs of the host with what the operator granted.
type grants struct {
	e       *Engine
	req     api.GrantRequest
	subject grant.Subject
	list    grant.List // nil until it is needed
	pins    []string   // of the operator
	// ceiling reports that the caller's ceiling grants what it lets a policy loosen.
	ceiling bool

	live    bool     // the cell is live and gets the policy now, from a caller who may grant
	used    []string // as flags, for the receipt
	missing []grant.Grant
}

// newGrants returns the grants for a policy, before the flags narrow it.
func (e *Engine) newGrants(p *policy.Policy, req runRequest) (*grants, error) {
	g := &grants{e: e, req: req.Grants, subject: grant.Subject{Hash: p.Hash()}, pins: req.Network.Resolve, ceiling: e.Caller.CeilingGrants()}
	if req.Policy != nil && req.Policy.Path != "" {
		real, err := fsx.RealPath(string(req.Policy.Path))
		if err != nil {
			return nil, api.Usagef("", "the policy %s: %v", quote.Path(string(req.Policy.Path)), err)
		}
		g.subject.File = real
	}
	return g, g.parse()
}

// parse reads the flags. The configuration is read only when it is needed.
func (g *grants) parse() error {
	for _, s := range g.req.Paths {
		one, err := grant.ParsePath(s)
		if err != nil {
			return api.Usagef("give --grant-path PATH[:ro|rw]", "--grant-path %s: %v", quote.Arg(s), err)
		}
		g.list = append(g.list, one)
	}
	for _, s := range g.req.Env {
		one, err := grant.ParseEnv(s)
		if err != nil {
			return api.Usagef("give --grant-env NAME", "--grant-env %s: %v", quote.Arg(s), err)
		}
		g.list = append(g.list, one)
	}
	for _, s := range g.req.Syscalls {
		one, err := syscallGrant(s)
		if err != nil {
			return api.Usagef("give --grant-syscall NAME", "--grant-syscall %s: %v", quote.Arg(s), err)
		}
		g.list = append(g.list, one)
	}
	for _, s := range g.req.Addresses {
		one, err := addressGrant(s)
		if err != nil {
			return api.Usagef("give --grant-address CIDR", "--grant-address %s: %v", quote.Arg(s), err)
		}
		g.list = append(g.list, one)
	}
	return nil
}

// addressGrant reads a range of addresses that is granted. Some are never reached.
func addressGrant(s string) (grant.Grant, error) {
	one, err := grant.ParseAddress(s)
	if err == nil {
		if what := policy.Unreachable(one.Address); what != "" {
			err = fmt.Errorf("it holds addresses that are %s, where no connection of a cell ever goes", what)
		}
	}
	return one, err
}

// syscallGrant reads the name of a system call that is granted.
func syscallGrant(name string) (grant.Grant, error) {
	one, err := grant.ParseSyscall(name)
	if err == nil && !(caller.DenySet{}).Known(name) {
		err = errors.New("no system call is called so")
	}
	return one, err
}

// config adds the grants of the operator's configuration, once.
func (g *grants) config() error {
	if g.req.ConfigFile == "" {
		return nil
	}
	file, err := fsx.RealPath(string(g.req.ConfigFile))
	if err != nil {
		return api.Refusef(api.CodeGrant, "", "the configuration %s: %v", quote.Path(string(g.req.ConfigFile)), err)
	}
	g.req.ConfigFile = ""
	more, err := grant.ReadConfig(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return api.Refusef(api.CodeGrant, "`forkcell help policy-file` has its form", "the configuration %s: %v", quote.Path(file), err)
	}
	if err := g.e.OutsideWorkspaces("configuration", file); err != nil {
		return err
	}
	for i, one := range more {
		// A file is compared by its real path.
		if dir, ok := strings.CutSuffix(one.Policy, "/"); ok {
			if real, err := fsx.RealPath(dir); err == nil {
				more[i].Policy = real + "/"
			}
		}
	}
	g.list = append(g.list, more.For(g.subject)...)
	return nil
}

// path adds a path of the host that the policy lists, if it needs a grant. The real
// path is the one that is shown.
func (g *grants) path(listed, real string, write bool) (needed bool, err error) {
	if inSystem(real) {
		return false, nil
	}
	by, ok := g.covering(real, write)
	if !ok {
		if err := g.config(); err != nil {
			return true, err
		}
		by, ok = g.covering(real, write)
	}
	if !ok {
		g.missing = append(g.missing, grant.Grant{Path: listed, Write: write})
		return true, nil
	}
	g.used = append(g.used, by.String())
	return true, nil
}

// covering finds the grant for a real path. The grant of a directory does not cover
// paths that the secret rules leave out of it.
func (g *grants) covering(real string, write bool) (grant.Grant, bool) {
	resolved := slices.Clone(g.list)
	for i := range resolved {
		if to, err := fsx.RealPath(resolved[i].Path); err == nil && resolved[i].Path != "" {
			resolved[i].Path = to
		}
	}
	by, ok := resolved.Path(real, write)
	if _, secret := secretfiles.SecretBelow(by.Path, real, fsx.IsDir(real)); secret {
		return by, false
	}
	return by, ok
}

// env adds a variable that the policy inherits from the caller.
func (g *grants) env(name string) error {
	if grant.Harmless(name) {
		return nil
	}
	return g.need(grant.Grant{Env: name}, func(l grant.List) (grant.Grant, bool) { return l.Env(name) })
}

// syscall adds a system call that the policy takes out of the deny set.
func (g *grants) syscall(name string) error {
	return g.needLoose(grant.Grant{Syscall: name}, func(l grant.List) (grant.Grant, bool) { return l.Syscall(name) })
}

// address adds a range of the policy in which addresses are not public. Each such part of
// it needs a grant.
func (g *grants) address(p netip.Prefix) error {
	before := len(g.missing)
	for _, part := range network.SpecialParts(p) {
		if err := g.needLoose(grant.Grant{Address: part}, func(l grant.List) (grant.Grant, bool) { return l.Address(part) }); err != nil {
			return err
		}
	}
	if len(g.missing) > before {
		g.missing = append(g.missing[:before], grant.Grant{Address: p})
	}
	return nil
}

// addLoosened adds what the policy loosens.
func (g *grants) addLoosened(p *policy.Policy) error {
	for _, name := range p.Process.AllowSyscalls {
		if err := g.syscall(name); err != nil {
			return err
		}
	}
	for _, a := range network.SpecialAddresses(p, g.pins) {
		if err := g.address(a); err != nil {
			return err
		}
	}
	return nil
}

// loosenedBy returns what a policy loosens, as messages name it.
func loosenedBy(p *policy.Policy) (what []string) {
	for _, name := range p.Process.AllowSyscalls {
		what = append(what, "the system call "+name)
	}
	return append(what, addressNames(network.SpecialAddresses(p, nil))...)
}

func addressNames(addresses []netip.Prefix) (names []string) {
	for _, a := range addresses {
		names = append(names, "the addresses "+a.String())
	}
	return names
}

// mayLoosen refuses the policy of a caller who is not the operator if it loosens what no
// ceiling grants.
func (e *Engine) mayLoosen(p *policy.Policy) error {
	what := loosenedBy(p)
	if len(what) == 0 || !e.isBounded() || e.Caller.CeilingGrants() {
		return nil
	}
	return api.Refusef(api.CodeGrant, guestHint, "the policy uses what was not granted: %s", strings.Join(what, ", "))
}

// guestHint is the next step of a caller who may not grant what a policy loosens.
const guestHint = "take it out of the policy, or ask the operator for a token with a policy that allows it (`forkcell token create --policy FILE`)"

// AddressesOf returns the grants for the addresses of a policy that are not public, as
// --grant-address takes them.
func AddressesOf(p *policy.Policy) (list []string) {
	for _, a := range network.SpecialAddresses(p, nil) {
		list = append(list, a.String())
	}
	return list
}

// needLoose is need for what loosens a control. A policy of a caller whose ceiling grants
// such things is under that ceiling.
func (g *grants) needLoose(one grant.Grant, find func(grant.List) (grant.Grant, bool)) error {
	if g.ceiling {
		g.used = append(g.used, one.String())
		return nil
	}
	return g.need(one, find)
}

// need adds something that takes the operator's grant, which find looks for in a list.
func (g *grants) need(one grant.Grant, find func(grant.List) (grant.Grant, bool)) error {
	by, ok := find(g.list)
	if !ok {
		if err := g.config(); err != nil {
			return err
		}
		by, ok = find(g.list)
	}
	if !ok {
		g.missing = append(g.missing, one)
		return nil
	}
	g.used = append(g.used, by.String())
	return nil
}

// refusal names the flags that are missing.
func (g *grants) refusal() error {
	if len(g.missing) == 0 {
		return nil
	}
	var what []string
	for _, m := range g.missing {
		switch {
		case m.Env != "":
			what = append(what, "the variable "+quote.Arg(m.Env))
		case m.Syscall != "":
			what = append(what, "the system call "+m.Syscall)
		case m.Address.IsValid():
			what = append(what, addressNames([]netip.Prefix{m.Address})...)
		default:
			what = append(what, quote.Path(m.Path))
		}
	}
	next := "give " + strings.Join(flagsOf(g.missing), " ")
	switch {
	case g.live: // not every way to change the policy takes grants; each way to start does
		next += ", or stop the cell, and start it with the policy and that"
	case g.e.isBounded():
		next = guestHint
	}
	return api.Refusef(api.CodeGrant, next,
		"the policy uses what was not granted: %s", strings.Join(what, ", "))
}

// flagsOf returns grants as flags of a command line.
func flagsOf(list []grant.Grant) (flags []string) {
	for _, one := range list {
		flag, value, _ := strings.Cut(one.String(), " ")
		flags = append(flags, flag+" "+quote.Arg(value))
	}
	return flags
}

// grantsText returns grants as one text, for a command line.
func grantsText(list []grant.Grant) string { return strings.Join(flagsOf(list), " ") }

// ExplainNeeds returns the flags that a run under a policy is refused without.
func ExplainNeeds(p *policy.Policy) policy.Explanation {
	x := policy.Explanation{Needs: grantsText(neededGrants(p))}
	if x.Needs == "" {
		x.Allowed, x.Rule, x.Reason = true, "none", "a run under this policy needs no grant"
	} else {
		x.Rule, x.Reason = "grants", "a run under this policy needs these flags, or the same in config.yaml"
	}
	if p.Landlock == policy.BestEffort {
		x.Reason += "; best_effort counts only with --allow-degraded"
	}
	return x
}

// addressesFor returns the grants for the endpoints that serve a host and port.
func addressesFor(p *policy.Policy, host string, port uint16) []grant.Grant {
	serving := func(list []policy.NetworkPolicy) (out []policy.NetworkPolicy) {
		for _, n := range list {
			n.Endpoints = slices.DeleteFunc(slices.Clone(n.Endpoints), func(e policy.Endpoint) bool { return !e.Serves(host, port) })
			out = append(out, n)
		}
		return out
	}
	own := policy.Policy{Network: serving(p.Network)}
	for _, c := range p.Ceilings {
		own.Ceilings = append(own.Ceilings, serving(c))
	}
	return neededGrants(&own)
}

// SuggestPolicy returns the policy of a run with what the run was denied added to it. An
// address that is not public stays denied until the operator grants it.
func (e *Engine) SuggestPolicy(ctx context.Context, name, run string) (*api.PolicySuggestion, error) {
	res, err := e.History.SuggestPolicy(ctx, name, run)
	if err != nil {
		return nil, err
	}
	var had []netip.Prefix
	if before, err := e.StoredPolicy(res.Before); err == nil {
		had = network.SpecialAddresses(before, nil)
	}
	suggested, err := policy.Parse("suggestion", res.Policy, policy.Options{})
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "read the suggestion")
	}
	for _, a := range network.SpecialAddresses(suggested, nil) {
		if !slices.Contains(had, a) {
			res.Left = append(res.Left, addressNames([]netip.Prefix{a})[0]+" by a run without "+grantsText([]grant.Grant{{Address: a}}))
		}
	}
	res.Text = suggest.File(res, suggested.Canonical())
	return res, nil
}

// neededGrants returns what a run under a policy is refused without.
func neededGrants(p *policy.Policy) (list []grant.Grant) {
	for _, name := range p.Process.AllowSyscalls {
		list = append(list, grant.Grant{Syscall: name})
	}
	for _, a := range network.SpecialAddresses(p, nil) {
		list = append(list, grant.Grant{Address: a})
	}
	for _, name := range p.Environment.Inherit {
		if !grant.Harmless(name) {
			list = append(list, grant.Grant{Env: name})
		}
	}
	for _, one := range []struct {
		paths []string
		write bool
	}{{p.Filesystem.ReadOnly, false}, {p.Filesystem.ReadWrite, true}} {
		for _, listed := range one.paths {
			if _, err := os.Stat(listed); err != nil {
				continue // no grant helps
			}
			if real, err := shownReal(listed); err == nil && !inSystem(real) {
				list = append(list, grant.Grant{Path: listed, Write: one.write})
			}
		}
	}
	return list
}

// usedGrants lists the grants that the policy used.
func (g *grants) usedGrants() []string {
	slices.Sort(g.used)
	return slices.Compact(g.used)
}

// namedPaths lists the real paths that the operator named.
func (g *grants) namedPaths() (paths []string) {
	for _, one := range g.list {
		if real, err := fsx.RealPath(one.Path); err == nil && one.Path != "" {
			paths = append(paths, real)
		}
	}
	return paths
}

// inSystem reports whether a real path is in one of the system's directories,
// which every policy may list.
func inSystem(real string) bool {
	return slices.ContainsFunc(policy.DefaultReadOnly(), func(dir string) bool {
		if fsx.Within(real, dir) {
			return true
		}
		to, err := fsx.RealPath(dir)
		return err == nil && to != "/" && fsx.Within(real, to)
	})
}

// explainShown adds to the explanation of a path outside the system directories:
// the flag without which a run is refused, and that secrets are hidden.
func explainShown(p *policy.Policy, c store.Cell, asked string, x policy.Explanation) policy.Explanation {
	list := map[string][]string{
		"filesystem_policy.read_only": p.Filesystem.ReadOnly, "filesystem_policy.read_write": p.Filesystem.ReadWrite, "--ro": c.ReadOnly,
	}[x.Rule]
	asked, best := path.Clean(asked), ""
	for _, listed := range list {
		if fsx.Within(asked, listed) && len(listed) > len(best) {
			best = listed
		}
	}
	if best != "" && p.Landlock == policy.BestEffort && x.Rule == "filesystem_policy.read_only" {
		if _, err := os.Stat(best); err != nil {
			return policy.Explanation{Access: policy.AccessAbsent, Rule: x.Rule, Reason: "the host does not have " + best + ", which best_effort leaves out", Needs: "--allow-degraded"}
		}
	}
	real, err := shownReal(best)
	if best == "" || err == nil && inSystem(real) {
		return x
	}
	if asked != best && hiddenIn(real, strings.TrimPrefix(asked, best+"/")) {
		return policy.Explanation{Access: policy.AccessAbsent, Rule: "secret rules", Reason: "it looks like a secret, and is hidden by name in " + best}
	}
	if x.Rule != "--ro" {
		x.Needs = grant.Grant{Path: best, Write: x.Access == policy.AccessReadWrite}.String()
	}
	return x
}

// shownReal returns the real path of a listed path. A listed link is shown as a
// link.
func shownReal(listed string) (string, error) {
	if !fsx.IsLink(listed) {
		return fsx.RealPath(listed)
	}
	dir, err := fsx.RealPath(path.Dir(listed))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(listed)), nil
}

// shownDir is a path of the host outside the system that a cell sees because the
// operator granted it, or gave it with --ro.
type shownDir struct {
	target string // in the cell
	real   string // on the host
}

// maxHidden bounds the mounts that one cell needs to hide files.
const maxHidden = 4096

// hiddenIn reports whether the secret rules hide a path of a directory of the host.
func hiddenIn(dir, rel string) bool {
	rules, err := secretfiles.New(secretfiles.Options{Above: dir})
	if err != nil {
		return true // not reached: the defaults are valid
	}
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Lstat(rel)
	if err != nil {
		return false // files that appear later are not hidden
	}
	_, v := rules.With(nil).Reading(root.OpenFile).Decide(rel, info.IsDir())
	return v == secretfiles.Leave
}

// secretsOf returns the secret rules of a shown directory. Paths that the operator
// named explicitly are shown.
func secretsOf(dir shownDir, named []string) (*secretfiles.Rules, error) {
	var extra []string
	for _, n := range named {
		if n != dir.real && fsx.Within(n, dir.real) {
			extra = append(extra, "!"+escapePattern(strings.TrimPrefix(n, dir.real)))
		}
	}
	return secretfiles.New(secretfiles.Options{Extra: extra, Above: dir.real})
}

// escapePattern returns a pattern that matches exactly one path.
func escapePattern(p string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `).Replace(p)
}

// hideSecrets finds the files that the secret rules leave out of the shown
// directories. Files that appear later are not hidden; a note about each directory
// says so.
func hideSecrets(shown []shownDir, named []string) (masks []mount.Mask, notes []string, err error) {
	for _, dir := range shown {
		if !fsx.IsDir(dir.real) {
			continue
		}
		rules, err := secretsOf(dir, named)
		if err != nil {
			return nil, nil, err
		}
		found, err := workspace.SecretsIn(dir.real, rules, maxHidden-len(masks))
		if err != nil {
			return nil, nil, api.Refusef(api.CodeHidden, "show a smaller directory", "hide the secret files in %s: %v", quote.Path(dir.target), err)
		}
		for _, f := range found {
			masks = append(masks, mount.Mask{Target: path.Join(dir.target, f.Path), Dir: f.Dir})
		}
		notes = append(notes, "secret files in "+quote.Path(dir.target)+" are hidden by name: those made during the run are not")
	}
	slices.SortFunc(masks, func(a, b mount.Mask) int { return strings.Compare(a.Target, b.Target) })
	return slices.Compact(masks), notes, nil
}
