package session

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
)

// policy puts the parts of the session's policy together: the adapter's, those of its
// credentials, that of the mode, and the operator's.
func (q *Facts) policy() (*policy.Policy, error) {
	out, err := q.ownPolicy()
	if err != nil {
		return nil, err
	}
	if q.Mode == Development || q.Mode == Build {
		add(out, "", q.Development)
	}
	if q.Extra != nil {
		add(out, "operator-", q.Extra)
		out.Limits, out.Filesystem, out.Process, out.Landlock = q.Extra.Limits, q.Extra.Filesystem, q.Extra.Process, q.Extra.Landlock
	}
	if err := endpointsOf(out, q.Endpoints); err != nil {
		return nil, err
	}
	if !q.hasLimits() {
		out.Limits = q.Limits
	}
	sortPolicy(out)
	// The parts are valid; together they need not be.
	whole, err := policy.Parse("the policy of agent "+q.Adapter.Adapter.Name, out.Canonical(), policy.Options{})
	if err != nil {
		return nil, &api.Error{Kind: api.Usage, Code: api.CodePolicy, Message: err.Error(), Err: err, Hint: "the policy given contradicts that of the agent or the mode"}
	}
	return whole, nil
}

// ownPolicy returns what the agent needs: the adapter's policy, and those of its
// credentials.
func (q *Facts) ownPolicy() (*policy.Policy, error) {
	a := q.Adapter.Adapter
	out := policy.Default()
	add(out, "", a.Policy.Policy())
	for _, c := range q.Credentials {
		known, ok := a.Credential(c.Key)
		if !ok && c.How != AsCopy {
			return nil, api.Usagef("`forkcell agent show "+a.Name+"` lists its credentials", "agent %s has no credential %s", a.Name, c.Key)
		}
		add(out, "", known.Policy.Policy())
	}
	for _, p := range q.carriers().Policies {
		add(out, "", p)
	}
	out.Credentials = append(out.Credentials, q.carriers().Rules...)
	return out, nil
}

// addresses returns the addresses that are not public in what the operator's own files
// name: the adapter, and the injection policy.
func (q *Facts) addresses() ([]string, error) {
	p, err := q.ownPolicy()
	if err == nil {
		err = endpointsOf(p, injection.Network{Allow: q.Endpoints.Allow})
	}
	if err != nil {
		return nil, err
	}
	return engine.AddressesOf(p), nil
}

// sortPolicy puts the parts of a policy into their order.
func sortPolicy(p *policy.Policy) {
	slices.SortFunc(p.Network, func(a, b policy.NetworkPolicy) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(p.Credentials, func(a, b policy.Credential) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Environment.Set, func(a, b policy.Variable) int { return cmp.Compare(a.Name, b.Name) })
}

// hasLimits reports whether the operator's policy has limits. They are enforced or the
// session does not start; the default limits are left out where they cannot be.
func (q *Facts) hasLimits() bool { return q.Extra != nil && q.Extra.Limits != policy.Limits{} }

// add adds what a policy allows of the network, and its variables. A rule whose name is
// taken by another gets the prefix. Its ceilings hold for everything.
func add(to *policy.Policy, prefix string, p *policy.Policy) {
	if p == nil {
		return
	}
	for _, n := range p.Network {
		for slices.ContainsFunc(to.Network, func(o policy.NetworkPolicy) bool { return o.Key == n.Key }) {
			n.Key, n.Name = cmp.Or(prefix, "also-")+n.Key, cmp.Or(prefix, "also-")+n.Name
		}
		to.Network = append(to.Network, n)
	}
	to.Ceilings = append(to.Ceilings, p.Ceilings...)
	for _, v := range p.Environment.Set {
		to.Environment.Set = slices.DeleteFunc(to.Environment.Set, func(o policy.Variable) bool { return o.Name == v.Name })
		to.Environment.Set = append(to.Environment.Set, v)
	}
	to.Environment.Inherit = slices.Compact(slices.Sorted(slices.Values(slices.Concat(to.Environment.Inherit, p.Environment.Inherit))))
	to.Credentials = append(to.Credentials, p.Credentials...)
}

// endpoints lists where a policy lets connections go, as host:port, sorted. A pattern stands
// there also if a ceiling lists only some of its hosts.
func endpoints(p *policy.Policy) []string {
	out := []string{}
	for _, n := range p.Network {
		for _, e := range n.Endpoints {
			for _, port := range e.Ports {
				if host := e.Host.String(); !e.Host.Exact() || p.Serves(host, port) {
					out = append(out, host+":"+strconv.Itoa(int(port)))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
