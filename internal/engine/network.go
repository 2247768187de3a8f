package engine

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
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// RegistryPins returns the grants for a registry that the operator's tools are set
// to use, as --resolve takes them. A registry with public addresses needs none.
func RegistryPins(host string, port uint16, addrs []netip.Addr) []string {
	return network.PinsFor(host, port, addrs)
}

// gate is a run's gateway, and the files that make the cell trust it.
type gate struct {
	*network.Gateway

	files []network.File
	ssh   *api.SSHRequest // nil if the run does not log in anywhere
}

// openGate makes the gateway of the run in parallel with other work: reading
// credentials and writing trust stores takes as long as preparing a workspace. The
// returned function waits for it. It returns nil if the run has no network.
func (r *run) openGate(ctx context.Context, hash string, req networkRequest) func() (*gate, error) {
	needed, err := needsGate(r.policy, req)
	if err != nil || !needed {
		return func() (*gate, error) { return nil, err }
	}
	var g *gate
	made := make(chan struct{})
	name := r.Record.Name // copied: the cell may be read again meanwhile
	go func() {
		defer close(made)
		g, err = r.newGate(ctx, name, hash, req)
	}()
	return func() (*gate, error) {
		<-made
		return g, err
	}
}

// needsGate reports whether a run's connections go through a gateway. Without one,
// a grant to the network is an error.
func needsGate(p *policy.Policy, req networkRequest) (bool, error) {
	if req.reloadable || req.SSH != nil || p.NeedsNetwork() || p.NeedsCredentials() {
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
	agent, err := r.sshAgent(ctx, req.SSH)
	if err != nil {
		values.Drop()
		return nil, err
	}
	g, err := network.New(ctx, network.Config{
		Cell: cell, Policy: r.policy, Hash: hash,
		Credentials: req.Credentials, Values: values, Placeholders: req.Placeholders, Known: req.known, Logins: req.Logins, Agent: agent, Resolve: req.Resolve, CA: req.CA, Unrestricted: req.Unrestricted, Event: r.recordEvent, Reader: r.e.Caller.Reader(), Source: req.source,
	})
	if errors.Is(err, network.ErrConfig) {
		return nil, api.Usagef("", "%v", err)
	}
	if errors.Is(err, network.ErrCredential) {
		return nil, api.Refusef(api.CodeCredential, "sources are env:VAR, file:PATH, json:PATH#KEY.KEY and command:[...]", "%v", err)
	}
	if err != nil {
		return nil, api.Failf(api.CodeNetwork, err, "prepare the network")
	}
	trust := g.Files
	if req.trust != nil {
		trust = req.trust
	}
	files, err := trust()
	if err != nil {
		return nil, api.Failf(api.CodeNetwork, err, "prepare the trust stores")
	}
	return &gate{g, slices.Concat(files, sshFiles(req.SSH)), req.SSH}, nil
}

// connect gives the run the network that its policy allows, if any.
func (r *run) connect(g *gate, granted []string) {
	if g == nil {
		return
	}
	r.spec.Network = r.e.servedNetwork(g)
	r.spec.Network.Programs = r.policy.NamesPrograms()
	r.gateway, r.plainEnv = g.Gateway, r.spec.Env
	r.spec.Env = driver.WithVariables(r.plainEnv, g.Environment())
	r.granted = granted
}

// servedNetwork returns the network of a cell that a gateway serves.
func (e *Engine) servedNetwork(g *gate) *driver.Network {
	n := &driver.Network{Socket: g.Socket(), Serve: func(c driver.Captured) (func(), error) {
		if e.hide != nil {
			if err := e.hide(); err != nil {
				c.Close()
				return nil, err
			}
		}
		return g.Serve(c)
	}}
	for _, f := range g.files {
		n.Files = append(n.Files, driver.File{Name: f.Name, Data: f.Data})
	}
	return n
}

// credentials returns the values that may be in the output because an upstream
// repeated them.
func (r *run) credentials() []redact.Secret {
	var secrets []redact.Secret
	if r.gateway != nil {
		r.gateway.Reveal(func(name, value string) { secrets = append(secrets, redact.Secret{Name: name, Value: value}) })
	}
	return secrets
}

// withoutGateway undoes connect for a live cell whose policy allows no connection
// yet, on a host that cannot capture connections. It reports whether it did.
func (r *run) withoutGateway(err error) bool {
	start, ok := errors.AsType[*driver.StartError](err)
	if !ok || start.Cause != driver.CauseNetwork || r.gateway == nil || r.gateway.Socket() != "" || r.policy.NeedsNetwork() || r.policy.NeedsCredentials() {
		return false
	}
	r.gateway, r.spec.Network, r.spec.Env = nil, nil, r.plainEnv
	return true
}

// maxUninspected bounds the list in a receipt. The policy has all of them.
const maxUninspected = 16

// uninspectedEndpoints lists for the receipt the endpoints whose traffic is not inspected,
// of every policy of the run.
func (r *run) uninspectedEndpoints() string {
	policies := []*policy.Policy{r.policy}
	if len(r.rulings) > 0 {
		policies = nil
		for _, ruling := range r.policies() {
			if p, err := r.e.StoredPolicy(ruling.PolicyHash); err == nil {
				policies = append(policies, p)
			}
		}
	}
	var list []string
	for _, p := range policies {
		for _, n := range p.Network {
			list = append(list, opaqueEndpoints(p, n)...)
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

// opaqueEndpoints lists the endpoints that are not inspected. One that a ceiling has
// inspected is left out; of a pattern that is not known.
func opaqueEndpoints(p *policy.Policy, n policy.NetworkPolicy) (list []string) {
	for _, e := range n.Endpoints {
		if e.Protocol != policy.TCP {
			continue
		}
		for _, port := range e.Ports {
			if e.Host.Exact() && !p.PassesTCP(e.Host.String(), port) {
				continue
			}
			text := net.JoinHostPort(e.Host.String(), strconv.Itoa(int(port)))
			if e.TLS == policy.TLSSkip {
				text += " (tls: skip)"
			}
			list = append(list, text)
		}
	}
	return list
}

// readValues reads the values of a policy's credentials from the operator's
// sources, and from the operator's file for the rest. held are credentials that
// already have a value, which only a source replaces.
func (e *Engine) readValues(ctx context.Context, p *policy.Policy, req networkRequest, held ...string) (network.Values, error) {
	values, err := network.ReadValues(ctx, p, req.Credentials, e.Caller.Reader())
	if err != nil {
		return nil, settingError(err)
	}
	more, err := e.fileValues(ctx, p, req, held...)
	if err != nil {
		values.Drop()
		return nil, err
	}
	for name, v := range more {
		values[name] = v
	}
	return values, nil
}

// fileValues reads the operator's credentials file for the credentials that have no
// other source. It reads the file only if there are any: a mistake in it must not
// stop a run that does not need it.
func (e *Engine) fileValues(ctx context.Context, p *policy.Policy, req networkRequest, held ...string) (network.Values, error) {
	var wanted []policy.Credential
	for _, c := range p.Credentials {
		given := slices.ContainsFunc(req.Credentials, func(s string) bool { return strings.HasPrefix(s, c.Name+"=") })
		if !given && req.values[c.Name] == nil && !slices.Contains(held, c.Name) && e.Caller.MayUseLine(c.Name) {
			wanted = append(wanted, c)
		}
	}
	if req.CredentialsFile == "" || len(wanted) == 0 {
		return network.Values{}, nil
	}
	// The real path is checked and read.
	file, err := fsx.RealPath(string(req.CredentialsFile))
	if err != nil {
		return nil, api.Refusef(api.CodeCredential, "", "the credentials file %s: %v", quote.Path(string(req.CredentialsFile)), err)
	}
	if err := e.OutsideWorkspaces("credentials file", file); err != nil {
		return nil, err
	}
	values, err := network.ReadFile(ctx, file, wanted, req.Credentials, e.Caller.FileReader())
	if err != nil {
		return nil, settingError(err)
	}
	return values, nil
}

// heldCredentials returns the credentials of a new policy that a live cell already
// has values for. It leaves out those that the new policy sends to other hosts:
// their values were provided for the old ones.
func (e *Engine) heldCredentials(c store.Cell, next *policy.Policy) (names []string, err error) {
	runs, err := e.UnfinishedRuns(c)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	p, err := e.LastPolicy(runs[len(runs)-1])
	if err != nil {
		return nil, err
	}
	for _, old := range p.Credentials {
		if i := slices.IndexFunc(next.Credentials, func(c policy.Credential) bool { return c.Name == old.Name }); i >= 0 && reaches(old, next.Credentials[i]) {
			names = append(names, old.Name)
		}
	}
	return names, nil
}

// reaches reports whether a credential goes to all hosts and ports that another
// one goes to.
func reaches(old, next policy.Credential) bool {
	return !slices.ContainsFunc(next.Endpoints, func(e policy.CredentialEndpoint) bool {
		return slices.ContainsFunc(e.Ports, func(port uint16) bool {
			return !slices.ContainsFunc(old.Endpoints, func(o policy.CredentialEndpoint) bool {
				return o.Host.Equal(e.Host) && slices.Contains(o.Ports, port)
			})
		})
	})
}

// settingError returns an error for wrong usage, or the refusal of a run because a
// credential has no value.
func settingError(err error) error {
	if errors.Is(err, network.ErrCredential) {
		return api.Refusef(api.CodeCredential, "", "%v", err)
	}
	return api.Usagef("", "%v", err)
}
