package api

// RaceBody is the body of POST /v1/race.
type RaceBody struct {
	Cell string `json:"cell" doc:"The cell to fork."`
	Warm bool   `json:"warm,omitempty" doc:"Make the attempts branches of the cell, which must be live: they begin with its memory."`
	// Command and N, or Attempts.
	Command  []string          `json:"command,omitempty" doc:"The command of each of n attempts."`
	Code     string            `json:"code,omitempty" doc:"Instead of command: what the warm interpreters of n branches run."`
	N        int               `json:"n,omitempty" minimum:"1" maximum:"100" doc:"The number of attempts."`
	Attempts []RaceAttemptBody `json:"attempts,omitempty" minItems:"1" maxItems:"100" doc:"Different commands, instead of command and n."`
	Jobs     int               `json:"jobs,omitempty" minimum:"1" maximum:"100" doc:"How many attempts run at once; by default one for each processor."`
	Judge    []string          `json:"judge,omitempty" doc:"The command that judges each attempt, in a fork of its own, without a network."`
	Best     string            `json:"best,omitempty" enum:"exit,score,fastest" doc:"How the winner is chosen; by default exit."`
	Accept   bool              `json:"accept,omitempty" needs:"decide" doc:"Move the cell to the state of the winner."`
	Apply    bool              `json:"apply,omitempty" needs:"decide" doc:"Also write it to the source directory."`
	Keep     bool              `json:"keep,omitempty" doc:"Keep the cells of all attempts."`
	// RunSettings are those of each attempt, and of each judge except for the network.
	RunSettings
}

// RaceAttemptBody is the command of one attempt.
type RaceAttemptBody struct {
	Command []string          `json:"command,omitempty" doc:"The command and its arguments." minItems:"1"`
	Env     map[string]string `json:"env,omitempty" doc:"Variables of the command."`
	Code    string            `json:"code,omitempty" doc:"Instead of command: what the warm interpreter of a branch runs."`
}
