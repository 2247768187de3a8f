package cell

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/gateway"
)

// runRequest is a request for a run, or for a live cell, in the process that
// carries it out.
type runRequest struct {
	api.RunRequest

	// values are credentials that were read already.
	values gateway.Values
	// reloadable says that the policy may change during the run: the cell has a
	// gateway also while it allows nothing.
	reloadable bool
}

// networkRequest is the part of a runRequest that is about the network.
type networkRequest struct {
	api.NetworkRequest

	values     gateway.Values
	reloadable bool
}

func (r runRequest) network() networkRequest {
	return networkRequest{NetworkRequest: r.Network, values: r.values, reloadable: r.reloadable}
}

// startRun is the run that a live cell is.
func startRun(q api.StartRequest, values gateway.Values) runRequest {
	return runRequest{
		RunRequest: api.RunRequest{Cell: q.Cell, Args: startCommand(), RunOptions: q.RunOptions},
		values:     values, reloadable: true,
	}
}

func (n networkRequest) empty() bool {
	return len(n.Credentials)+len(n.values)+len(n.Resolve)+len(n.CA) == 0
}

// startCommand is what the receipt of a live cell has as its command: what was
// executed in it is in its events.
func startCommand() []string { return []string{"start"} }

func wipe(raw map[string][]byte) {
	for _, b := range raw {
		clear(b)
	}
}
