package api

// RaceBody is the body of POST /v1/race.
type RaceBody struct {
	Cell string `json:"cell" doc:"the cell to fork"`
	// Command and N, or Attempts.
	Command  []string          `json:"command,omitempty" doc:"the command of each of n attempts"`
	N        int               `json:"n,omitempty" minimum:"1" maximum:"100" doc:"the number of attempts"`
	Attempts []RaceAttemptBody `json:"attempts,omitempty" minItems:"1" maxItems:"100" doc:"different commands, instead of command and n"`
	Jobs     int               `json:"jobs,omitempty" minimum:"1" maximum:"100" doc:"how many attempts run at once; by default one for each processor"`
	Judge    []string          `json:"judge,omitempty" doc:"the command that judges each attempt, in a fork of its own, without a network"`
	Best     string            `json:"best,omitempty" enum:"exit,score,fastest" doc:"how the winner is chosen; by default exit"`
	Accept   bool              `json:"accept,omitempty" doc:"move the cell to the state of the winner"`
	Apply    bool              `json:"apply,omitempty" doc:"also write it to the source directory"`
	Keep     bool              `json:"keep,omitempty" doc:"keep the cells of all attempts"`
	Timeout  string            `json:"timeout,omitempty" doc:"the time of each attempt and each judge, such as 10m"`
}

// RaceAttemptBody is the command of one attempt.
type RaceAttemptBody struct {
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
}
