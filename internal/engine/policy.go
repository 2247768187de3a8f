package engine

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// keepPolicy stores a policy's canonical text under its hash. added is the size of a text
// that was not stored before: it is never freed, because receipts name it.
func (e *Engine) keepPolicy(p *policy.Policy) (hash string, added int64, err error) {
	hash = p.Digest()
	if has, err := e.Store.HasBlob(hash); err != nil || has {
		return hash, 0, err
	}
	b := e.Store.NewBlob()
	if _, err := b.Write(p.Canonical()); err != nil {
		b.Discard()
		return "", 0, err
	}
	stored, err := b.Commit()
	if err == nil && stored != hash {
		err = fmt.Errorf("the policy's text has the hash %s, not %s", stored, hash)
	}
	return hash, int64(len(p.Canonical())), err
}

// withOwn returns the engine for a policy that the caller brings to a cell. The cell's policy
// is then the ceiling of a caller who is not the operator, and to whom the operator gave
// none: whatever the new policy says or leaves out, the cell's limits and rules hold.
func (e *Engine) withOwn(c store.Cell, brought *api.PolicyFile) (*Engine, error) {
	if brought == nil || e.Caller.Ceiling != nil || !e.isBounded() {
		return e, nil
	}
	p, err := e.StoredPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	who := e.Caller
	who.Ceiling = &api.PolicyFile{Name: api.Text("policy of " + c.Name), Text: p.Canonical()}
	return e.As(who), nil
}

// givenPolicy returns the policy that the request has, or else the cell's.
func (e *Engine) givenPolicy(c store.Cell, req runRequest) (*policy.Policy, error) {
	if req.Policy != nil {
		return e.Caller.ParsePolicy(*req.Policy)
	}
	return e.StoredPolicy(c.Policy)
}

// policyOf returns the policy of a run, under the caller's ceiling and narrowed by
// the operator's flags.
func (e *Engine) policyOf(c store.Cell, req runRequest) (*policy.Policy, error) {
	p, err := e.givenPolicy(c, req)
	if err != nil {
		return nil, err
	}
	if p, err = e.Caller.UnderCeiling(p); err != nil {
		return nil, err
	}
	return e.narrowed(p, req)
}

// narrowed puts the operator's limits into a policy, and takes the network out of
// it if the request says so.
func (e *Engine) narrowed(p *policy.Policy, req runRequest) (*policy.Policy, error) {
	if err := enforceable(p, e.driver.User()); err != nil {
		return nil, err
	}
	p.Limits.Memory = narrower(p.Limits.Memory, req.Memory)
	p.Limits.CPUs = narrower(p.Limits.CPUs, req.CPUs)
	p.Limits.PIDs = narrower(p.Limits.PIDs, req.PIDs)
	p.Limits.WallTime = narrower(p.Limits.WallTime, req.Timeout)
	if req.Offline {
		p.Network, p.Ceilings, p.Credentials = nil, nil, nil
	}
	return p, nil
}

// narrower returns the smaller of two limits; 0 is no limit.
func narrower[N int64 | time.Duration](a, b N) N {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// enforceable refuses settings that this version does not enforce.
func enforceable(p *policy.Policy, user int) error {
	for _, who := range []string{p.Process.RunAsUser, p.Process.RunAsGroup} {
		if who != policy.Sandbox && who != strconv.Itoa(user) {
			return api.Refusef(api.CodeUnenforced, "leave run_as_user and run_as_group out, or write sandbox",
				"the command cannot be %s: the cell's only user is sandbox", quote.Arg(who))
		}
	}
	return nil
}

// mayList refuses a path of a policy that leads, through any links, to a place that
// no cell may read: the state directory with its keys, or the caller's home.
func (e *Engine) mayList(listed string) error {
	const remedy = "take it out of the policy"
	real, err := fsx.RealPath(listed)
	if err != nil {
		return api.Refusef(api.CodePolicyPath, remedy, "the policy lists %s: %v", quote.Path(listed), err)
	}
	if why := policy.OffLimits(real, e.Caller.Homes()); why != "" {
		return api.Refusef(api.CodePolicyPath, remedy, "the policy lists %s, which leads to %s: that %s", quote.Path(listed), quote.Path(real), why)
	}
	if err := e.RefuseOverlap("the policy's path", listed); err != nil {
		return err
	}
	return openToOthers(listed, real)
}

// openToOthers refuses a path that the user of root's cell could not read: such a
// cell reads only files that every user of the host may read.
func openToOthers(listed, real string) error {
	info, err := os.Stat(real)
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // opening it returns the error
	}
	need, give := fs.FileMode(0o004), "o+r"
	if info.IsDir() {
		need, give = 0o005, "o+rx"
	}
	if info.Mode()&need == need {
		return nil
	}
	return api.Refusef(api.CodePolicyPath, "`chmod "+give+" "+quote.Path(real)+"` opens it, or take it out of the policy",
		"the policy lists %s, which its owner keeps from others, and so from every cell of root", quote.Path(listed))
}

// bestEffort reports whether a policy asks for best effort, and the operator grants it:
// with --allow-degraded, or by the ceiling of the caller.
func (e *Engine) bestEffort(p *policy.Policy, req runRequest) bool {
	return p.Landlock == policy.BestEffort && (req.AllowDegraded || e.Caller.CeilingGrants())
}

// bestEffortHint is the way to run without a path that is missing.
const bestEffortHint = "set landlock.compatibility to best_effort and give --allow-degraded"

// govern adds a policy to a specification. Missing paths are left out, with a note,
// only if the policy asks for best effort, and the operator grants it.
func (e *Engine) govern(a *resolvedRequest, req runRequest) (notes []string, err error) {
	spec, p := &a.spec, a.policy
	bestEffort := e.bestEffort(p, req)
	if p.Filesystem.Given {
		spec.System.Own = true
		for _, path := range p.Filesystem.ReadOnly {
			if a.inWorkspace(path) {
				return nil, api.Refusef(api.CodePolicyPath, "take it out of read_only, or set include_workdir to false",
					"the policy lists %s as read-only, which is in the workspace: the workspace is writable as a whole", quote.Path(path))
			}
			if _, err := os.Stat(path); err != nil && bestEffort {
				notes = append(notes, fmt.Sprintf("%s is not shown: %v", quote.Path(path), err))
				continue
			} else if err != nil {
				return nil, api.Refusef(api.CodePolicyPath, "take it out of read_only, or "+bestEffortHint,
					"the policy lists %s: %v", quote.Path(path), err)
			}
			if err := e.mayList(path); err != nil && !fsx.IsLink(path) { // a link is shown as a link
				return nil, err
			}
			if err := a.take(path, false, string(req.Root)); err != nil {
				return nil, err
			}
			spec.System.Paths = append(spec.System.Paths, path)
		}
	}
	spec.Guard = driver.Guard{
		AllowSyscalls: p.Process.AllowSyscalls, AllowDegraded: req.AllowDegraded,
		LandlockBestEffort: bestEffort, LandlockRequired: p.Landlock == policy.HardRequirement,
	}
	spec.Limits = driver.Limits{
		Memory: p.Limits.Memory, CPUsMilli: p.Limits.CPUs, PIDs: p.Limits.PIDs, OpenFiles: p.Limits.OpenFiles,
	}
	spec.Timeout = p.Limits.WallTime
	if p.Limits.Disk > 0 {
		const weak = "limit disk is enforced by looking now and then, not by the kernel"
		if !req.AllowDegraded && !req.WatchDisk {
			return nil, api.Refusef(api.CodeUnenforced, degradedHint, "%s", weak)
		}
		notes = append(notes, weak)
	}
	return notes, nil
}

// applyCeiling puts the policy of a run under the caller's ceiling, and has the receipt
// name both: its policy is the one that allows what both do. Without a ceiling that
// grants it, the policy of a caller who is not the operator loosens no control.
func (e *Engine) applyCeiling(a *resolvedRequest, given *policy.Policy) (*policy.Policy, error) {
	ceiling, err := e.Caller.CeilingPolicy()
	if err != nil {
		return nil, err
	}
	under, err := e.Caller.UnderCeiling(given)
	switch {
	case err != nil:
		return nil, err
	case ceiling != nil:
		a.ceiling = ceiling.Digest()
		a.grants.used = append(a.grants.used, "ceiling "+ceiling.Hash()+" of policy "+given.Hash())
	case under.Digest() != given.Digest():
		a.grants.used = append(a.grants.used, "default ceiling of policy "+given.Hash())
	}
	return under, nil
}
