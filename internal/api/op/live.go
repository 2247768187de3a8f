package op

import (
	"github.com/forkcell/forkcell/internal/api"
)

const tagLive = "live cells"

// Operations on live cells, their commands and their ports.
var (
	Branch = Verb{
		ID: "branch", Method: "POST", Path: "/v1/cells/{cell}/branch", Tag: tagLive, Command: "branch {cell}",
		Summary: "Make live cells that begin with the memory of another one, or of a checkpoint", Needs: []Scope{ScopeRun}, Effect: Adds, Status: created,
	}
	Eval = Op[api.EvalRequest, api.EvalResult]{
		Verb: Verb{
			ID: "eval", Method: "POST", Path: "/v1/cells/{cell}/eval", Tag: tagLive,
			Summary: "Run code in the warm interpreter of a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true,
		},
		Do: Engine.Eval,
	}
	ExecSocket = Verb{
		ID: "execSocket", Method: "GET", Path: "/v1/cells/{cell}/exec", Tag: tagLive,
		Summary: "Execute a command with its streams in a WebSocket", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindSocket, Status: switched, Also: []int{upgrade},
	}
	Exec = Verb{
		ID: "exec", Method: "POST", Path: "/v1/cells/{cell}/exec", Tag: tagLive, Command: "exec {cell}",
		Summary: "Execute a command in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindEvents,
	}
	Attach = Verb{
		ID: "attach", Method: "GET", Path: "/v1/cells/{cell}/exec/{exec}", Tag: tagLive,
		Summary: "Join a command: its last 256 KiB of output, and what comes", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindSocket, Status: switched, Also: []int{upgrade},
	}
	ForwardPort = Verb{
		ID: "forwardPort", Method: "GET", Path: "/v1/cells/{cell}/forward", Tag: tagLive,
		Summary: "Connect to a port of a live cell with the bytes in a WebSocket", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindSocket, Status: switched, Also: []int{upgrade},
	}
	Pause = Op[api.PauseRequest, api.PauseResult]{
		Verb: Verb{
			ID: "pause", Method: "POST", Path: "/v1/cells/{cell}/pause", Tag: tagLive, Command: "pause {cell}",
			Summary: "Stop the processes of a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Moment: true,
		},
	}
	GetPort = Verb{
		ID: "getPort", Method: "GET", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	HeadPort = Verb{
		ID: "headPort", Method: "HEAD", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	PostPort = Verb{
		ID: "postPort", Method: "POST", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	PutPort = Verb{
		ID: "putPort", Method: "PUT", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	PatchPort = Verb{
		ID: "patchPort", Method: "PATCH", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	DeletePort = Verb{
		ID: "deletePort", Method: "DELETE", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	OptionsPort = Verb{
		ID: "optionsPort", Method: "OPTIONS", Path: "/v1/cells/{cell}/ports/{port}/{path}", Tag: tagLive,
		Summary: "Send a request to a listener in a live cell", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindProxy, Also: []int{badMethod, badGateway, lateGateway},
	}
	ListProcesses = Verb{
		ID: "listProcesses", Method: "GET", Path: "/v1/cells/{cell}/processes", Tag: tagLive,
		Summary: "List the processes of a live cell", Needs: []Scope{ScopeRead},
	}
	Resume = Verb{
		ID: "resume", Method: "POST", Path: "/v1/cells/{cell}/resume", Tag: tagLive, Command: "resume {cell}",
		Summary: "Continue the processes of a paused cell", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true,
	}
	Start = Verb{
		ID: "start", Method: "POST", Path: "/v1/cells/{cell}/start", Tag: tagLive, Command: "start {cell}",
		Summary: "Make a cell live", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true,
	}
	Stop = Verb{
		ID: "stop", Method: "POST", Path: "/v1/cells/{cell}/stop", Tag: tagLive, Command: "stop {cell}",
		Summary: "End a live cell", Needs: []Scope{ScopeRun}, Effect: Adds,
	}
)
