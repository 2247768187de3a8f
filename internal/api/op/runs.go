package op

const tagRuns = "runs"

// Operations on runs.
var (
	PlanRun = Verb{
		ID: "planRun", Method: "POST", Path: "/v1/cells/{cell}/plan", Tag: tagRuns,
		Summary: "Show the controls of a run, without running anything", Needs: []Scope{ScopeRun},
	}
	RunSocket = Verb{
		ID: "runSocket", Method: "GET", Path: "/v1/cells/{cell}/run", Tag: tagRuns,
		Summary: "Run a command as a transaction with its streams in a WebSocket", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindSocket, Status: switched, Also: []int{upgrade},
	}
	ListCellRuns = Verb{
		ID: "listCellRuns", Method: "GET", Path: "/v1/cells/{cell}/runs", Tag: tagRuns,
		Summary: "List runs", Needs: []Scope{ScopeRead},
	}
	Run = Verb{
		ID: "run", Method: "POST", Path: "/v1/cells/{cell}/runs", Tag: tagRuns, Command: "run {cell}",
		Summary: "Run a command as a transaction", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindEvents,
	}
	GetCellRun = Verb{
		ID: "getCellRun", Method: "GET", Path: "/v1/cells/{cell}/runs/{run}", Tag: tagRuns,
		Summary: "Show a run", Needs: []Scope{ScopeRead},
	}
	CancelCellRun = Verb{
		ID: "cancelCellRun", Method: "POST", Path: "/v1/cells/{cell}/runs/{run}/cancel", Tag: tagRuns,
		Summary: "End a run", Needs: []Scope{ScopeRun}, Effect: Adds, Status: accepted,
	}
	ListCellRunEvents = Verb{
		ID: "listCellRunEvents", Method: "GET", Path: "/v1/cells/{cell}/runs/{run}/events", Tag: tagRuns,
		Summary: "Events of a run", Needs: []Scope{ScopeRead}, Kind: KindEvents,
	}
	GetCellRunLogs = Verb{
		ID: "getCellRunLogs", Method: "GET", Path: "/v1/cells/{cell}/runs/{run}/logs", Tag: tagRuns,
		Summary: "Output of a run", Needs: []Scope{ScopeRead}, Kind: KindDownload,
	}
	Race = Verb{
		ID: "race", Method: "POST", Path: "/v1/race", Tag: tagRuns, Command: "race {cell}",
		Summary: "Try several commands, and keep the best result", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindEvents,
	}
	ListRuns = Verb{
		ID: "listRuns", Method: "GET", Path: "/v1/runs", Tag: tagRuns,
		Summary: "List runs", Needs: []Scope{ScopeRead},
	}
	GetRun = Verb{
		ID: "getRun", Method: "GET", Path: "/v1/runs/{run}", Tag: tagRuns,
		Summary: "Show a run", Needs: []Scope{ScopeRead},
	}
	CancelRun = Verb{
		ID: "cancelRun", Method: "POST", Path: "/v1/runs/{run}/cancel", Tag: tagRuns,
		Summary: "End a run", Needs: []Scope{ScopeRun}, Effect: Adds, Status: accepted,
	}
	ListRunEvents = Verb{
		ID: "listRunEvents", Method: "GET", Path: "/v1/runs/{run}/events", Tag: tagRuns,
		Summary: "Events of a run", Needs: []Scope{ScopeRead}, Kind: KindEvents,
	}
	GetRunLogs = Verb{
		ID: "getRunLogs", Method: "GET", Path: "/v1/runs/{run}/logs", Tag: tagRuns,
		Summary: "Output of a run", Needs: []Scope{ScopeRead}, Kind: KindDownload,
	}
)
