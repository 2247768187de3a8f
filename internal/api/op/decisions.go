package op

const tagDecisions = "decisions"

// Operations that move the head of a cell, or decide about its work.
var (
	Accept = Op{
		ID: "accept", Method: "POST", Path: "/v1/cells/{cell}/accept", Tag: tagDecisions, Command: "accept {cell}",
		Summary: "Accept a run", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds,
	}
	GetAccepted = Op{
		ID: "getAccepted", Method: "GET", Path: "/v1/cells/{cell}/accepted", Tag: tagDecisions,
		Summary: "Show the state that an apply would write", Needs: []Scope{ScopeRead},
	}
	Apply = Op{
		ID: "apply", Method: "POST", Path: "/v1/cells/{cell}/apply", Tag: tagDecisions, Command: "apply {cell}",
		Summary: "Write accepted work to a directory", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Destroys,
	}
	ListCheckpoints = Op{
		ID: "listCheckpoints", Method: "GET", Path: "/v1/cells/{cell}/checkpoints", Tag: tagDecisions,
		Summary: "List the states of a cell", Needs: []Scope{ScopeRead},
	}
	CreateCheckpoint = Op{
		ID: "createCheckpoint", Method: "POST", Path: "/v1/cells/{cell}/checkpoints", Tag: tagDecisions, Command: "checkpoint {cell}",
		Summary: "Name the present state", Needs: []Scope{ScopeRun}, Effect: Adds, Status: created,
	}
	Choose = Op{
		ID: "choose", Method: "POST", Path: "/v1/cells/{cell}/choose", Tag: tagDecisions, Command: "race {cell} --choose {attempt}",
		Summary: "Choose the winner of a race that has ended", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds,
	}
	ReportPublication = Op{
		ID: "reportPublication", Method: "POST", Path: "/v1/cells/{cell}/publications", Tag: tagDecisions, Command: "publish {cell}",
		Summary: "Record what the caller has published on its own machine", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds,
	}
	Refresh = Op{
		ID: "refresh", Method: "POST", Path: "/v1/cells/{cell}/refresh", Tag: tagDecisions, Command: "refresh {cell}",
		Summary: "Take over what changed in the source directory", Needs: []Scope{ScopeRun}, Effect: Adds,
	}
	Reject = Op{
		ID: "reject", Method: "POST", Path: "/v1/cells/{cell}/reject", Tag: tagDecisions, Command: "reject {cell}",
		Summary: "Reject a run", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds,
	}
	Restore = Op{
		ID: "restore", Method: "POST", Path: "/v1/cells/{cell}/restore", Tag: tagDecisions, Command: "restore {cell} {checkpoint}",
		Summary: "Go back to a state", Needs: []Scope{ScopeRun}, Effect: Adds, Idempotent: true,
	}
	Undo = Op{
		ID: "undo", Method: "POST", Path: "/v1/cells/{cell}/undo", Tag: tagDecisions, Command: "apply {cell} --undo",
		Summary: "Take the last apply back", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Destroys,
	}
	VerifyCell = Op{
		ID: "verifyCell", Method: "POST", Path: "/v1/cells/{cell}/verify", Tag: tagDecisions, Command: "verify {cell} {checkpoint}",
		Summary: "Recompute the hashes of states", Needs: []Scope{ScopeRead},
	}
)
