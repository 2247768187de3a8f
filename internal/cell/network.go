package cell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/redact"
)

// RegistryPins returns the grants for a registry that the operator's tools are set
// to use, as --resolve takes them. A registry with public addresses needs none.
func RegistryPins(host string, port uint16, addrs []netip.Addr) []string {
	return gateway.PinsFor(host, port, addrs)
}

// gate is a run's gateway, and the files by which the cell trusts it.
type gate struct {
	*gateway.Gateway

	files []gateway.File
}

// openGate makes what the run's network needs, beside other work: reading
// credentials and writing trust stores takes as long as preparing a workspace.
// The returned function waits for it; without a network there is no gate.
func (r *run) openGate(ctx context.Context, hash string, req networkRequest) func() (*gate, error) {
	needed, err := needsGate(r.policy, req)
	if err != nil || !needed {
		return func() (*gate, error) { return nil, err }
	}
	var g *gate
	made := make(chan struct{})
	name := r.cell.Name // of the cell as it is now: others may read it again meanwhile
	go func() {
		defer close(made)
		g, err = r.newGate(ctx, name, hash, req)
	}()
	return func() (*gate, error) {
		<-made
		return g, err
	}
}

// needsGate reports whether a run's connections are captured. Without that a
// grant to the network is a mistake.
func needsGate(p *policy.Policy, req networkRequest) (bool, error) {
	if req.reloadable || p.NeedsNetwork() || p.NeedsCredentials() {
		return true, nil
	}
	if req.empty() {
		return false, nil
	}
	return false, api.Usagef("name an endpoint in network_policies", "--credential, --resolve and --ca need a policy that allows some network")
}

func (r *run) newGate(ctx context.Context, cell, hash string, req networkRequest) (*gate, error) {
	values, err := r.e.fileValues(ctx, r.policy, req)
	if err != nil {
		return nil, err
	}
	maps.Copy(values, req.values)
	g, err := gateway.New(ctx, gateway.Config{
		Cell: cell, Policy: r.policy, Hash: hash,
		Credentials: req.Credentials, Values: values, Resolve: req.Resolve, CA: req.CA, Event: r.happened, Reader: r.e.caller.reader(),
	})
	if errors.Is(err, gateway.ErrConfig) {
		return nil, api.Usagef("", "%v", err)
	}
	if errors.Is(err, gateway.ErrCredential) {
		return nil, api.Refusef(api.CodeCredential, "sources are env:VAR, file:PATH and command:[...]", "%v", err)
	}
	if err != nil {
		return nil, api.Failf(api.CodeNetwork, err, "prepare the network")
	}
	files, err := g.Files()
	if err != nil {
		return nil, api.Failf(api.CodeNetwork, err, "prepare the trust stores")
	}
	return &gate{g, files}, nil
}

// connect gives the run the network that its policy allows, if it allows some.
func (r *run) connect(g *gate, granted []string) {
	if g == nil {
		return
	}
	r.spec.Network = &driver.Network{Serve: func(c driver.Captured) (func(), error) {
		if r.e.hide != nil {
			if err := r.e.hide(); err != nil {
				c.Close()
				return nil, err
			}
		}
		return g.Serve(c)
	}}
	for _, f := range g.files {
		r.spec.Network.Files = append(r.spec.Network.Files, driver.File{Name: f.Name, Data: f.Data})
	}
	r.gateway, r.plainEnv = g.Gateway, r.spec.Env
	r.spec.Env = replaced(r.plainEnv, g.Environment())
	r.granted = granted
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
	if !ok || start.Cause != driver.CauseNetwork || r.gateway == nil || r.policy.NeedsNetwork() || r.policy.NeedsCredentials() {
		return false
	}
	r.gateway, r.spec.Network, r.spec.Env = nil, nil, r.plainEnv
	return true
}

// maxUninspected bounds what a receipt lists; the policy that it binds has all.
const maxUninspected = 16

// uninspected lists for the receipt the endpoints whose bytes nobody looked at,
// of every policy that ruled.
func (r *run) uninspected() string {
	policies := []*policy.Policy{r.policy}
	if len(r.rulings) > 0 {
		policies = nil
		for _, ruling := range r.policies() {
			if p, err := r.e.storedPolicy(ruling.PolicyHash); err == nil {
				policies = append(policies, p)
			}
		}
	}
	var list []string
	for _, p := range policies {
		for _, n := range p.Network {
			list = append(list, opaqueEndpoints(n)...)
		}
	}
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if more := len(list) - maxUninspected; more > 0 {
		list = append(list[:maxUninspected], fmt.Sprintf("and %d more", more))
	}
	return "; not inspected: " + strings.Join(list, ", ")
}

func opaqueEndpoints(n policy.NetworkPolicy) (list []string) {
	for _, e := range n.Endpoints {
		if e.Protocol != policy.TCP {
			continue
		}
		for _, port := range e.Ports {
			text := net.JoinHostPort(e.Host.String(), strconv.Itoa(int(port)))
			if e.TLS == policy.TLSSkip {
				text += " (tls: skip)"
			}
			list = append(list, text)
		}
	}
	return list
}
