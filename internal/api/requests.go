package api

// The requests of operations on one cell that ask for little else.

// OfCell names one cell.
type OfCell struct {
	Cell string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
}

// CheckpointRequest keeps the present state of a cell.
type CheckpointRequest struct {
	Cell   string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Name   string `json:"name,omitempty" doc:"Name of the checkpoint." maxLength:"63"`
	Memory bool   `json:"memory,omitempty" doc:"Also keep the processes of a live cell of the runtime gvisor, with their memory."`
}

// RejectRequest decides that a run's result does not stand.
type RejectRequest struct {
	Cell   string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Run    string `json:"run,omitempty" doc:"The run; without it, the newest undecided one."`
	Reason string `json:"reason,omitempty" doc:"Why, for the record."`
}

// VerifyRequest has the hashes of states recomputed.
type VerifyRequest struct {
	Cell       string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Checkpoint string `json:"checkpoint,omitempty" doc:"The state; without it, the present one."`
	All        bool   `json:"all,omitempty" doc:"Verify every state."`
}

// AcceptedRequest asks for the state that an apply would write.
type AcceptedRequest struct {
	OfCell
	Receipts bool     `query:"receipts" json:"receipts,omitempty" needs:"run,decide" doc:"Also list the receipts of the work in the state, for a publication; needs run and decide."`
	Roots    []string `query:"root,explode" json:"root,omitempty" doc:"Roots of states; the answer says which of them the state contains."`
}

// PublicationRequest records what the caller has published on its own machine.
type PublicationRequest struct {
	Cell        string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	PublishID   string `json:"publish_id" doc:"Names the publication."`
	Checkpoint  string `json:"checkpoint_id" doc:"The accepted state that was published."`
	Repository  string `json:"repository" doc:"The repository, as a path on the caller's machine."`
	Branch      string `json:"branch" doc:"The new branch."`
	Base        string `json:"base" doc:"The branch that it begins at."`
	BaseCommit  string `json:"base_commit" doc:"The commit of the base."`
	Commit      string `json:"commit" doc:"The new commit."`
	Signed      string `json:"signed" doc:"The kind of its signature: ssh, gpg or off."`
	PushedTo    string `json:"pushed_to,omitempty" doc:"The URL that it was pushed to."`
	PullRequest string `json:"pull_request,omitempty" doc:"The URL of the pull request."`
	State       string `json:"state,omitempty" doc:"What is missing of the publication."`
}

// SuggestRequest asks what a policy must allow for a run.
type SuggestRequest struct {
	Cell string `json:"cell" doc:"The cell."`
	Run  string `json:"run,omitempty" doc:"The run; without it, the last one."`
}

// FileRequest names a file of a cell.
type FileRequest struct {
	Cell string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Path string `json:"path" doc:"Relative to the workspace, or absolute in the cell."`
}

// ListFilesRequest asks for the files of a directory of a cell.
type ListFilesRequest struct {
	Cell  string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Path  string `json:"path,omitempty" doc:"Relative to the workspace, or absolute in the cell."`
	Depth int    `json:"depth,omitempty" doc:"How many levels; without it, one." minimum:"0" maximum:"100"`
}

// MoveFileRequest moves a file of a cell.
type MoveFileRequest struct {
	Cell string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	From string `json:"from" doc:"Relative to the workspace, or absolute in the cell."`
	To   string `json:"to" doc:"The new path. A file there is replaced."`
}

// The requests of operations on one session.

// SendRequest types into a session.
type SendRequest struct {
	Session   string `path:"session" json:"session,omitempty" doc:"Name of the session, which is that of its cell." maxLength:"63"`
	Message   string `json:"message" doc:"What is typed: text without control characters." maxLength:"65536"`
	NoNewline bool   `json:"no_newline,omitempty" doc:"Do not press Enter."`
}

// StopSessionRequest ends a session.
type StopSessionRequest struct {
	Session string `path:"session" json:"session,omitempty" doc:"Name of the session, which is that of its cell." maxLength:"63"`
	Force   bool   `json:"force,omitempty" doc:"Kill the processes at once."`
}
