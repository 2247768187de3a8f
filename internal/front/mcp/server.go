package mcp

import (
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/hint"
	"github.com/forkcell/forkcell/internal/api/op"
)

// Rights lists what a caller may do. They decide which tools and arguments the caller
// sees; the API itself refuses what a caller may not do.
type Rights struct {
	Run, Decide bool
	// Operator reports that the caller is the operator.
	Operator bool
	// Credentials reports whether requests may provide credentials.
	Credentials bool
	// Sessions reports whether there are coding agents: on a daemon.
	Sessions bool
	// Cell is the default for tools that are about one cell; "" means no default.
	Cell string
}

// have reports whether the caller has a scope.
func (r Rights) have(s op.Scope) bool {
	switch s {
	case op.ScopeRead:
		return true
	case op.ScopeRun:
		return r.Run
	case op.ScopeDecide:
		return r.Decide
	case op.ScopeAdmin, op.ScopeUnbounded:
	}
	return r.Operator
}

// hiddenArguments returns the arguments that the caller may not use.
func (r Rights) hiddenArguments() (names []string) {
	if !r.Decide {
		names = append(names, "accept_on_success", "accept", "apply")
	}
	if !r.Credentials {
		names = append(names, "credentials")
	}
	return names
}

// hides reports whether a caller does not see a field with the operator's word. What opens
// a directory of the host is hidden from all: a model does not decide about that.
func (r Rights) hides(word string) bool {
	switch word {
	case "", api.OperatorAdds, api.OperatorMode, api.OperatorOutput:
		return false
	case api.OperatorOnly, api.OperatorRoot, api.OperatorGrant:
		return !r.Operator
	}
	return true
}

// Session is one caller of the tools.
type Session struct {
	// ID identifies the caller.
	ID     string
	Client Client
	Rights Rights
}

// Catalog has the tools. It is safe for concurrent use.
type Catalog struct {
	version string
	tools   []tool
	schemas *sdk.SchemaCache

	mu        sync.Mutex
	visibleTo map[Rights][]visibleTool
}

// visibleTool is a tool as callers with some rights see it.
type visibleTool struct {
	tool tool
	def  *sdk.Tool
}

// NewCatalog returns the catalog of a program's version.
func NewCatalog(version string) *Catalog {
	return &Catalog{
		version: version, schemas: sdk.NewSchemaCache(), visibleTo: map[Rights][]visibleTool{},
		tools: slices.Concat(cellTools(), runTools(), branchTools(), raceTools(), fileTools(), moveTools(), diffTools(), evidenceTools(), followTools(), sessionTools()),
	}
}

const instructions = `Forkcell runs commands in cells: copies of a directory in which nothing can harm the host.
Every run is a transaction. Its result is pending until a person, or a tool that is allowed to, accepts it or restores the state before.
Call run for one command. Call start, then exec, for several commands in a row that share processes. Failed runs keep their work for diff; restore undoes them.`

// Server returns a server for one session.
func (c *Catalog) Server(session Session, o *sdk.ServerOptions) *sdk.Server {
	if o == nil {
		o = &sdk.ServerOptions{}
	}
	o.Instructions, o.SchemaCache = instructions, c.schemas
	if o.Capabilities == nil {
		o.Capabilities = &sdk.ServerCapabilities{}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "forkcell", Title: "Forkcell", Version: c.version}, o)
	visible := c.visible(session.Rights)
	var words hint.Words
	for _, t := range visible {
		words = append(words, t.tool.operation(t.def))
	}
	for _, t := range visible {
		t.tool.add(s, t.def, session, words)
	}
	addResources(s, session)
	return s
}

// visible returns the tools that a caller sees.
func (c *Catalog) visible(r Rights) []visibleTool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, known := c.visibleTo[r]
	if known {
		return list
	}
	for _, t := range c.tools {
		if t.op.AllowedTo(r.have) && (r.Sessions || !t.daemon) {
			list = append(list, visibleTool{t, t.definition(r)})
		}
	}
	c.visibleTo[r] = list
	return list
}
