package client

import "github.com/forkcell/forkcell/internal/api"

// The requests. Their fields are those of the API.
type (
	CreateCell      = api.CreateCell
	Source          = api.Source
	CellSettings    = api.CellSettings
	Fork            = api.ForkBody
	Run             = api.RunBody
	RunSettings     = api.RunSettings
	CredentialValue = api.CredentialValue
	Race            = api.RaceBody
	RaceCommand     = api.RaceAttemptBody
	Choose          = api.ChooseRequest
	Checkpoint      = api.CheckpointRequest
	Restore         = api.RestoreRequest
	Accept          = api.AcceptRequest
	Reject          = api.RejectRequest
	Apply           = api.ApplyRequest
	Undo            = api.UndoRequest
	Refresh         = api.RefreshRequest
	Verify          = api.VerifyRequest
	Start           = api.StartBody
	Stop            = api.StopBody
	Pause           = api.PauseRequest
	Resume          = api.ResumeBody
	Exec            = api.ExecBody
	Warm            = api.WarmBody
	WarmPython      = api.WarmPython
	Branch          = api.BranchBody
	Eval            = api.EvalRequest
	VerifyReceipts  = api.ReceiptVerifyRequest
	Explain         = api.ExplainBody
	Suggest         = api.SuggestRequest
	GC              = api.GCBody
	CreateToken     = api.TokenBody
	CreateSession   = api.CreateSession
	SessionSettings = api.SessionSettings
	Rewind          = api.RewindBody
	Send            = api.SendRequest
	StopSession     = api.StopSessionRequest
	Publish         = api.PublishBody
	Quota           = api.Quota
)

// The results. They are the documents that the command line prints with --json.
type (
	InitResult          = api.InitResult
	CellInfo            = api.CellInfo
	StatusResult        = api.StatusResult
	RunAnswer           = api.RunAnswer
	RunResult           = api.RunResult
	RunInfo             = api.RunInfo
	RunStarted          = api.RunStarted
	RaceResult          = api.RaceResult
	RaceAttempt         = api.RaceAttempt
	Output              = api.Output
	CheckpointResult    = api.CheckpointResult
	DiffResult          = api.DiffResult
	MoveResult          = api.MoveResult
	AcceptResult        = api.AcceptResult
	ApplyResult         = api.ApplyResult
	RefreshResult       = api.RefreshResult
	VerifyResult        = api.VerifyResult
	StartResult         = api.StartResult
	PauseResult         = api.PauseResult
	BranchResult        = api.BranchResult
	BranchChild         = api.BranchChild
	EvalResult          = api.EvalResult
	EvalError           = api.EvalError
	ExecAnswer          = api.ExecAnswer
	ReceiptInfo         = api.ReceiptInfo
	ReceiptVerifyResult = api.ReceiptVerifyResult
	DecisionInfo        = api.DecisionInfo
	GraphNode           = api.GraphNode
	Preset              = api.Preset
	PolicyResult        = api.PolicyResult
	PolicyApplied       = api.PolicyApplied
	PolicySuggestion    = api.PolicySuggestion
	Explanation         = api.Explanation
	KeyInfo             = api.KeyInfo
	GCResult            = api.GCResult
	VersionInfo         = api.VersionInfo
	Health              = api.Health
	UsageResult         = api.UsageResult
	CellUsage           = api.CellUsage
	TokenCreated        = api.TokenCreated
	TokenInfo           = api.TokenInfo
	CheckpointInfo      = api.CheckpointInfo
	FileInfo            = api.FileInfo
	FileEvent           = api.FileEvent
	Upload              = api.Upload
	LogEntry            = api.LogEntry
	ProcessInfo         = api.ProcessInfo
	DiskResult          = api.DiskResult
	AgentSession        = api.AgentSession
	SessionTerms        = api.SessionTerms
	SessionPlan         = api.SessionPlan
	TurnInfo            = api.TurnInfo
	TimelineEntry       = api.TimelineEntry
	SentMessage         = api.SentMessage
	RewoundSession      = api.RewoundSession
	PublishResult       = api.PublishResult
	AgentState          = api.AgentState
	AgentDocument       = api.AgentDocument
	CredentialDecision  = api.CredentialDecision
)

// Shell returns the command that has a shell run a line of text.
func Shell(line string) []string { return []string{"sh", "-c", line} }
