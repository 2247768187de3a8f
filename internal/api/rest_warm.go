package api

// WarmBody says how a cell becomes a template. Exactly one of Command and Python is
// set.
type WarmBody struct {
	Command      []string    `json:"command,omitempty" doc:"The command that becomes the warm process. It must take part: see the protocol of warm processes."`
	Stdin        string      `json:"stdin,omitempty" doc:"Input of the command, as text."`
	Python       *WarmPython `json:"python,omitempty" doc:"A Python interpreter instead of a command."`
	Ready        string      `json:"ready,omitempty" doc:"What must hold when the process says that it is warm: an expression that its output matches, or file:PATH. With the runtime gvisor it is needed, and says when the cell is warm; port:N and notify are possible there, too."`
	ReadyTimeout string      `json:"ready_timeout,omitempty" doc:"The time to become warm; without it, 60s."`
}

// WarmPython says what a Python interpreter does before it is warm.
type WarmPython struct {
	Program string   `json:"program,omitempty" doc:"The interpreter, a path in the cell or a name; without it, python3."`
	Modules []string `json:"modules,omitempty" doc:"Import these modules first." maxItems:"1000"`
	Script  string   `json:"script,omitempty" doc:"Then run this file of the cell, absolute or relative to the workspace."`
}

// BranchBody is the body of POST /v1/cells/{cell}/branch.
type BranchBody struct {
	Name        string                     `json:"name,omitempty" doc:"Name of the new cell; without it, one after the branched cell." maxLength:"63"`
	N           int                        `json:"n,omitempty" doc:"Make so many cells, called NAME-1 to NAME-N." minimum:"0" maximum:"1000"`
	From        string                     `json:"from,omitempty" doc:"A checkpoint of the cell with memory: its id, a unique prefix or its name. Without it, the present moment of the cell, which must be live."`
	Policy      string                     `json:"policy,omitempty" doc:"A policy as YAML, or the name of a preset. It is enforced together with that of the branched cell."`
	Timeout     string                     `json:"timeout,omitempty" doc:"Stop each new cell after this time." minLength:"1"`
	Memory      string                     `json:"memory,omitempty" doc:"Memory limit of each new cell, swap included, such as 512MiB." minLength:"1"`
	CPUs        float64                    `json:"cpus,omitempty" doc:"Limit of processor time of each new cell, in processors, such as 1.5." exclusiveMinimum:"0"`
	PIDs        int64                      `json:"pids,omitempty" doc:"Limit of processes and threads of each new cell." minimum:"1"`
	Credentials map[string]CredentialValue `json:"credentials,omitempty" doc:"Values for credentials of the policy, by name; without one, that of the branched cell."`
	CellSettings
}
