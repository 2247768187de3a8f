package cell

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/redact"
)

// NetworkRequest is what the operator grants to a run's network.
type NetworkRequest struct {
	Credentials []string // NAME=SOURCE
	Resolve     []string // HOST[:PORT]=IP[:PORT]
	CA          []byte   // PEM, trusted for upstreams besides the host's roots

	// Values are credentials that were read already.
	Values gateway.Values
	// Reloadable says that the policy may change during the run: the cell has a
	// gateway also while it allows nothing.
	Reloadable bool
}

func (n NetworkRequest) empty() bool {
	return len(n.Credentials)+len(n.Values)+len(n.Resolve)+len(n.CA) == 0
}

// connect gives the run the network that its policy allows: none, unless it
// allows some. Credentials are read now, before anything runs.
func (r *run) connect(ctx context.Context, req NetworkRequest) error {
	if !req.Reloadable && !r.policy.NeedsNetwork() && !r.policy.NeedsCredentials() {
		if !req.empty() {
			return usage("name an endpoint in network_policies", "--credential, --resolve and --ca need a policy that allows some network")
		}
		return nil
	}
	g, err := gateway.New(ctx, gateway.Config{
		Cell: r.cell.Name, Policy: r.policy, Hash: r.rec.Policy,
		Credentials: req.Credentials, Values: req.Values, Resolve: req.Resolve, CA: req.CA, Event: r.happened,
	})
	if errors.Is(err, gateway.ErrConfig) {
		return usage("", "%v", err)
	}
	if errors.Is(err, gateway.ErrCredential) {
		return refused("credential", "sources are env:VAR, file:PATH and command:[...]", "%v", err)
	}
	if err != nil {
		return failed("network", err, "prepare the network")
	}
	files, err := g.Files()
	if err != nil {
		return failed("network", err, "prepare the trust stores")
	}
	r.spec.Network = &driver.Network{Serve: func(fds []int, initPID int) (func(), error) {
		if r.e.hide != nil {
			if err := r.e.hide(); err != nil {
				return nil, err
			}
		}
		return g.Serve(fds, initPID)
	}}
	for _, f := range files {
		r.spec.Network.Files = append(r.spec.Network.Files, driver.File{Name: f.Name, Data: f.Data})
	}
	r.gateway, r.plainEnv = g, r.spec.Env
	r.spec.Env = replaced(r.plainEnv, g.Environment())
	r.granted = req.Resolve
	return nil
}

// credentials are the values that the output may hold because an upstream
// repeated them.
func (r *run) credentials() []redact.Secret {
	var secrets []redact.Secret
	if r.gateway != nil {
		r.gateway.Reveal(func(name, value string) { secrets = append(secrets, redact.Secret{Name: name, Value: value}) })
	}
	return secrets
}

// withoutGateway takes back what connect did for a live cell that is allowed
// nothing so far, on a host that cannot capture connections. It reports whether
// that was so.
func (r *run) withoutGateway(err error) bool {
	start, ok := errors.AsType[*driver.StartError](err)
	if !ok || start.Step != "network" || r.gateway == nil || r.policy.NeedsNetwork() || r.policy.NeedsCredentials() {
		return false
	}
	r.gateway, r.spec.Network, r.spec.Env = nil, nil, r.plainEnv
	return true
}

// settingError is wrong usage, or a run that is refused because a credential has
// no value.
func settingError(err error) error {
	if errors.Is(err, gateway.ErrCredential) {
		return refused("credential", "", "%v", err)
	}
	return usage("", "%v", err)
}
