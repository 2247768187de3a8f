package op

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

const tagOperation = "operation"

// Operations about the daemon and its home.
var (
	Docs = Verb{
		ID: "docs", Method: "GET", Path: "/docs", Tag: tagOperation,
		Summary: "A page about the API, for people", Needs: []Scope{ScopeRead}, Kind: KindDownload,
	}
	Health = Op[None, api.Health]{
		Verb: Verb{
			ID: "health", Method: "GET", Path: "/healthz", Tag: tagOperation,
			Summary: "Whether the daemon runs",
		},
	}
	Metrics = Verb{
		ID: "metrics", Method: "GET", Path: "/metrics", Tag: tagOperation,
		Summary: "Metrics, in Prometheus' text format", Needs: []Scope{ScopeAdmin, ScopeUnbounded}, Kind: KindDownload,
	}
	Ready = Op[None, api.Health]{
		Verb: Verb{
			ID: "ready", Method: "GET", Path: "/readyz", Tag: tagOperation,
			Summary: "Whether the daemon takes requests",
		},
	}
	GetHomeDisk = Op[None, api.DiskResult]{
		Verb: Verb{
			ID: "getHomeDisk", Method: "GET", Path: "/v1/disk", Tag: tagOperation,
			Summary: "The disk space of all cells and of the home", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
		},
		Do: func(e Engine, ctx context.Context, _ None) (*api.DiskResult, error) { return e.Disk(ctx, "") },
	}
	Doctor = Verb{
		ID: "doctor", Method: "GET", Path: "/v1/doctor", Tag: tagOperation,
		Summary: "What this host can enforce", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
	}
	CollectGarbage = Verb{
		ID: "collectGarbage", Method: "POST", Path: "/v1/gc", Tag: tagOperation, Command: "gc",
		Summary: "Free states that nothing needs", Needs: []Scope{ScopeAdmin, ScopeUnbounded}, Effect: Destroys,
	}
	GetKey = Op[None, api.KeyInfo]{
		Verb: Verb{
			ID: "getKey", Method: "GET", Path: "/v1/keys", Tag: tagOperation,
			Summary: "The key that signs", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
		},
		Do: func(e Engine, ctx context.Context, _ None) (*api.KeyInfo, error) { return e.Key(ctx) },
	}
	Usage = Verb{
		ID: "usage", Method: "GET", Path: "/v1/usage", Tag: tagOperation,
		Summary: "What cells use, for each and in all", Needs: []Scope{ScopeRead},
	}
	Version = Op[None, api.VersionInfo]{
		Verb: Verb{
			ID: "version", Method: "GET", Path: "/version", Tag: tagOperation,
			Summary: "What the daemon speaks",
		},
	}
)
