package engine

import (
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// runRequest is a request for a run, or for a live cell, in the process that
// carries it out.
type runRequest struct {
	api.RunRequest

	// ran is what the receipt says that ran; nil is Args.
	ran []string
	// values are credentials that were read already.
	values network.Values
	// reloadable reports whether the policy may change during the run. The cell
	// then has a gateway even if the policy allows no connection.
	reloadable bool
	// turns says when turns are taken; nil takes none.
	turns *api.TurnRequest
	// origin is the template or checkpoint of a branch; nil for other runs.
	origin *branchOrigin
	// resumed is the pause that the run continues after; nil if it continues none. source
	// is the gateway that the cell had.
	resumed *store.Pause
	source  *network.Gateway
	// session is the session of a coding agent that the run is; nil if it is not one.
	session *api.SessionTerms
	// packages lets programs in the cell have package managers executed as root there.
	packages bool
	// degraded are controls that the caller left out.
	degraded []string
}

// branchOrigin is the state that a branch begins with.
type branchOrigin struct {
	receipt.Branch
	gateway *network.Gateway // of the source; nil if it has none
	// trust returns the trust stores of all branches of one order: they have the
	// authority of the source. It is nil without a gateway.
	trust func() ([]network.File, error)
}

// setGateway sets the gateway of the source.
func (o *branchOrigin) setGateway(g *network.Gateway) {
	if g != nil {
		o.gateway, o.trust = g, sync.OnceValues(g.Files)
	}
}

// networkRequest is the part of a runRequest that is about the network.
type networkRequest struct {
	api.NetworkRequest

	values     network.Values
	reloadable bool
	source     *network.Gateway // of a branch
	trust      func() ([]network.File, error)
	known      string // what earlier runs of a session told its programs
}

func (r runRequest) network() networkRequest {
	n := networkRequest{NetworkRequest: r.Network, values: r.values, reloadable: r.reloadable}
	n.source = r.source
	if r.origin != nil {
		n.source, n.trust = r.origin.gateway, r.origin.trust
	}
	return n
}

// startRun returns the request for the run of a live cell.
func startRun(q api.StartRequest, values network.Values) runRequest {
	ran := home.StartCommand()
	switch {
	case q.Session != nil && len(q.Session.Command) > 0:
		ran = q.Session.Command
	case q.Warm != nil:
		ran = home.WarmCommand(q.Warm.Args)
	}
	return runRequest{
		RunRequest: api.RunRequest{Cell: q.Cell, Args: home.StartCommand(), RunOptions: q.RunOptions},
		ran:        ran, values: values, reloadable: true, session: q.Session, turns: q.Turns, packages: q.Packages, degraded: q.Degraded,
	}
}

// command returns what the receipt says that ran.
func (r runRequest) command() []string {
	if r.ran != nil {
		return r.ran
	}
	return r.Args
}

func (n networkRequest) empty() bool {
	return len(n.Credentials)+len(n.values)+len(n.Resolve)+len(n.CA) == 0
}

func wipe(raw map[string][]byte) {
	for _, b := range raw {
		clear(b)
	}
}
