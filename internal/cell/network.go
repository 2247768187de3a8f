package cell

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/gateway"
)

// NetworkRequest is what the operator grants to a run's network.
type NetworkRequest struct {
	Credentials []string // NAME=SOURCE
	Resolve     []string // HOST[:PORT]=IP[:PORT]
	CA          []byte   // PEM, trusted for upstreams besides the host's roots
}

func (n NetworkRequest) empty() bool {
	return len(n.Credentials)+len(n.Resolve)+len(n.CA) == 0
}

// connect gives the run the network that its policy allows: none, unless it
// allows some. Credentials are read now, before anything runs.
func (r *run) connect(ctx context.Context, req NetworkRequest) error {
	if !r.policy.NeedsNetwork() && !r.policy.NeedsCredentials() {
		if !req.empty() {
			return usage("name an endpoint in network_policies", "--credential, --resolve and --ca need a policy that allows some network")
		}
		return nil
	}
	g, err := gateway.New(ctx, gateway.Config{
		Cell: r.cell.Name, Policy: r.policy, Hash: r.rec.Policy,
		Credentials: req.Credentials, Resolve: req.Resolve, CA: req.CA, Event: r.happened,
	})
	if errors.Is(err, gateway.ErrConfig) {
		return usage("", "%v", err)
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
	r.spec.Env = append(r.spec.Env, g.Environment()...)
	r.granted = req.Resolve
	return nil
}
