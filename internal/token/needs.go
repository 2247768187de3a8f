package token

import "slices"

// Verb is something that a caller of the API asks for: a request, or a part of a
// request that needs more than the rest of it.
type Verb string

// need is a verb and the scopes that it needs, all of them.
type need struct {
	verb   Verb
	scopes []Scope
}

// needs lists every verb. The first part of a name is the resource in the API.
func needs() []need {
	read, run, decide, both, admin := []Scope{Read}, []Scope{Run}, []Scope{Decide}, []Scope{Run, Decide}, []Scope{Admin}
	return []need{
		{"cells.list", read},
		{"cells.get", read},
		{"cells.diff", read},
		{"cells.export", read},
		{"cells.verify", read},
		{"cells.create", run},
		{"cells.change", run},
		{"cells.remove", run},
		{"cells.fork", run},
		{"uploads.create", run},
		{"checkpoints.list", read},
		{"checkpoints.create", run},
		{"cells.restore", run},
		{"cells.refresh", run},
		{"cells.accept", decide},
		{"cells.reject", decide},
		{"cells.apply", decide},
		{"cells.undo", both},
		{"cells.start", run},
		{"cells.stop", run},
		{"cells.pause", run},
		{"cells.resume", run},
		{"cells.policy", admin},

		{"runs.list", read},
		{"runs.get", read},
		{"runs.logs", read},
		{"runs.events", read},
		{"runs.create", run},
		{"runs.cancel", run},
		{"exec.create", run},
		{"exec.attach", run},
		{"exec.list", read},
		{"files.read", read},
		{"files.list", read},
		{"files.stat", read},
		{"files.watch", read},
		{"files.write", run},
		{"files.remove", run},
		{"files.mkdir", run},
		{"files.move", run},
		{"ports.connect", run},
		{"race.create", run},

		{"receipts.list", read},
		{"receipts.get", read},
		{"receipts.bundle", read},
		{"receipts.verify", read},
		{"decisions.list", read},
		{"decisions.get", read},
		{"graph.get", read},
		{"events.list", read},
		{"policies.list", read},
		{"policies.get", read},
		{"policies.validate", read},
		{"policies.explain", read},
		{"policies.suggest", read},
		{"usage.get", read},

		{"usage.all", admin},
		{"metrics.get", admin},
		{"gc.run", admin},
		{"doctor.run", admin},
		{"keys.get", admin},
		{"keys.change", admin},
		{"tokens.list", admin},
		{"tokens.create", admin},
		{"tokens.revoke", admin},

		// Parts of requests.
		{"runs.create:accept_on_success", both},
		{"cells.start:accept_on_success", both},
		{"race.create:accept", both},
		{"race.create:apply", both},
		{"cells.restore:accepted", both}, // it leaves work that was accepted
		{"cells.create:delta", both},
		{"runs.create:delta", both},
		{"cells.start:delta", both}, // the host's directory is written
		{"allow_degraded", admin},
		{"as_root", admin},
		{"root", admin},
	}
}

// Needs returns the scopes that a verb needs, all of them. A verb that is not in the
// table needs Admin.
func Needs(v Verb) []Scope {
	all := needs()
	if i := slices.IndexFunc(all, func(n need) bool { return n.verb == v }); i >= 0 {
		return all[i].scopes
	}
	return []Scope{Admin}
}

// Verbs returns every verb of the table.
func Verbs() []Verb {
	var out []Verb
	for _, n := range needs() {
		out = append(out, n.verb)
	}
	return out
}
