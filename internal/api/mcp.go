package api

// MCPOptions are the options of the Model Context Protocol on stdin and stdout.
type MCPOptions struct {
	// Cell is the cell that the model works on.
	Cell string
	// AllowDecide lets the model accept, reject and apply.
	AllowDecide bool
}
