package op

const tagOperation = "operation"

// Operations about the daemon and its home.
var (
	Docs = Op{
		ID: "docs", Method: "GET", Path: "/docs", Tag: tagOperation,
		Summary: "A page about the API, for people", Needs: []Scope{ScopeRead}, Kind: KindDownload,
	}
	Health = Op{
		ID: "health", Method: "GET", Path: "/healthz", Tag: tagOperation,
		Summary: "Whether the daemon runs",
	}
	Metrics = Op{
		ID: "metrics", Method: "GET", Path: "/metrics", Tag: tagOperation,
		Summary: "Metrics, in Prometheus' text format", Needs: []Scope{ScopeAdmin, ScopeUnbounded}, Kind: KindDownload,
	}
	Ready = Op{
		ID: "ready", Method: "GET", Path: "/readyz", Tag: tagOperation,
		Summary: "Whether the daemon takes requests",
	}
	GetHomeDisk = Op{
		ID: "getHomeDisk", Method: "GET", Path: "/v1/disk", Tag: tagOperation,
		Summary: "The disk space of all cells and of the home", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
	}
	Doctor = Op{
		ID: "doctor", Method: "GET", Path: "/v1/doctor", Tag: tagOperation,
		Summary: "What this host can enforce", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
	}
	CollectGarbage = Op{
		ID: "collectGarbage", Method: "POST", Path: "/v1/gc", Tag: tagOperation, Command: "gc",
		Summary: "Free states that nothing needs", Needs: []Scope{ScopeAdmin, ScopeUnbounded}, Effect: Destroys,
	}
	GetKey = Op{
		ID: "getKey", Method: "GET", Path: "/v1/keys", Tag: tagOperation,
		Summary: "The key that signs", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
	}
	Usage = Op{
		ID: "usage", Method: "GET", Path: "/v1/usage", Tag: tagOperation,
		Summary: "What cells use, for each and in all", Needs: []Scope{ScopeRead},
	}
	Version = Op{
		ID: "version", Method: "GET", Path: "/version", Tag: tagOperation,
		Summary: "What the daemon speaks",
	}
)
