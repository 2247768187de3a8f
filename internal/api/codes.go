package api

// Code is a short stable word for a failure, for programs.
type Code string

// The codes of failures. None is ever removed or given another meaning; new ones
// are added at the end of the list and of Codes.
const (
	CodeUsage            Code = "usage"
	CodeNotFound         Code = "not_found"
	CodeFailed           Code = "failed"
	CodeInterrupted      Code = "interrupted"
	CodeBusy             Code = "busy"
	CodeLive             Code = "live"
	CodeHome             Code = "home"
	CodeDamaged          Code = "damaged"
	CodeClose            Code = "close"
	CodeNameTaken        Code = "name_taken"
	CodeNoCell           Code = "no_cell"
	CodeSeveralCells     Code = "several_cells"
	CodeAmbiguous        Code = "ambiguous"
	CodeOverlap          Code = "overlap"
	CodeBackend          Code = "backend"
	CodeUnsupported      Code = "unsupported"
	CodeDeclined         Code = "declined"
	CodeImport           Code = "import"
	CodeSourceChanged    Code = "source_changed"
	CodeUnsealable       Code = "unsealable"
	CodeMount            Code = "mount"
	CodePolicy           Code = "policy"
	CodePolicyPath       Code = "policy_path"
	CodePolicySection    Code = "policy_section"
	CodeGrant            Code = "grant"
	CodeCredential       Code = "credential"
	CodeHidden           Code = "hidden"
	CodeNetwork          Code = "network"
	CodeArea             Code = "area"
	CodeUnenforced       Code = "unenforced"
	CodePIDs             Code = "pids"
	CodeWorkdir          Code = "workdir"
	CodeStart            Code = "start"
	CodeRun              Code = "run"
	CodeSeal             Code = "seal"
	CodeConclude         Code = "conclude"
	CodeEvents           Code = "events"
	CodeLogs             Code = "logs"
	CodeResult           Code = "result"
	CodeWaits            Code = "waits"
	CodeLook             Code = "look"
	CodeLongPath         Code = "long_path"
	CodeFreed            Code = "freed"
	CodeStateLost        Code = "state_lost"
	CodeCompare          Code = "compare"
	CodeConflict         Code = "conflict"
	CodeHeldBack         Code = "held_back"
	CodeNoSource         Code = "no_source"
	CodePending          Code = "pending"
	CodeNothing          Code = "nothing"
	CodeDecided          Code = "decided"
	CodeFailedRun        Code = "failed_run"
	CodeNotHead          Code = "not_head"
	CodeNotLast          Code = "not_last"
	CodeApply            Code = "apply"
	CodeUndo             Code = "undo"
	CodeUnfinished       Code = "unfinished"
	CodeExists           Code = "exists"
	CodeOutput           Code = "output"
	CodeHoles            Code = "holes"
	CodeDiffers          Code = "differs"
	CodeNotVerified      Code = "not_verified"
	CodeBadReceipt       Code = "bad_receipt"
	CodeUntrusted        Code = "untrusted"
	CodeKey              Code = "key"
	CodeKeyLost          Code = "key_lost"
	CodeKeyThere         Code = "key_there"
	CodeLoss             Code = "loss"
	CodeLostRows         Code = "lost_rows"
	CodeNotStarted       Code = "not_started"
	CodeStopping         Code = "stopping"
	CodeSupervisor       Code = "supervisor"
	CodeSocket           Code = "socket"
	CodeLost             Code = "lost"
	CodeExec             Code = "exec"
	CodeUser             Code = "user"
	CodeCopy             Code = "copy"
	CodeForward          Code = "forward"
	CodePortInUse        Code = "port_in_use"
	CodeCapture          Code = "capture"
	CodeFreeze           Code = "freeze"
	CodeThaw             Code = "thaw"
	CodeFreezer          Code = "freezer"
	CodeNoCache          Code = "no_cache"
	CodePromote          Code = "promote"
	CodeTooLarge         Code = "too_large"
	CodeTooMany          Code = "too_many"
	CodeTimeout          Code = "timeout"
	CodeUnknownCall      Code = "unknown_call"
	CodeProtocol         Code = "protocol"
	CodeProtocolMismatch Code = "protocol_mismatch"
	CodeNotPrivate       Code = "not_private"
	CodeNotYours         Code = "not_yours"
	CodeSetup            Code = "setup"
	CodePaused           Code = "paused"
)

// CodeInfo is a code and its meaning.
type CodeInfo struct {
	Code    Code   `json:"code"`
	Meaning string `json:"meaning"`
}

// Codes returns every code, the oldest first.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeUsage, "a wrong flag, value or argument"},
		{CodeNotFound, "no such cell, checkpoint, run, receipt, decision or file"},
		{CodeFailed, "the operation failed; no other code describes why"},
		{CodeInterrupted, "a signal stopped the command"},
		{CodeBusy, "another process works on the cell or the home"},
		{CodeLive, "the cell is live; stop it, or use a verb for live cells"},
		{CodeHome, "the state directory cannot be used"},
		{CodeDamaged, "a file of the state directory is damaged or missing"},
		{CodeClose, "the state directory could not be closed"},
		{CodeNameTaken, "a cell or checkpoint has this name already"},
		{CodeNoCell, "the directory has no cell"},
		{CodeSeveralCells, "the directory has several cells"},
		{CodeAmbiguous, "a name fits both a checkpoint and a cell"},
		{CodeOverlap, "a path overlaps the state directory or another given path"},
		{CodeBackend, "the backend cannot be used here, or cannot do this"},
		{CodeUnsupported, "this version does not do that"},
		{CodeDeclined, "the question was answered with no"},
		{CodeImport, "the source could not be imported"},
		{CodeSourceChanged, "the source changed while it was read"},
		{CodeUnsealable, "the files cannot be kept as a state"},
		{CodeMount, "the workspace cannot be mounted at this path"},
		{CodePolicy, "the policy is malformed or cannot be used"},
		{CodePolicyPath, "a path that the policy lists cannot be used"},
		{CodePolicySection, "a part of the policy cannot change in a live cell"},
		{CodeGrant, "the policy uses something of the host that was not granted"},
		{CodeCredential, "a credential has no value, or may not be used"},
		{CodeHidden, "a secret cannot be hidden"},
		{CodeNetwork, "the network of the cell could not be set up"},
		{CodeArea, "a writable path of the policy cannot be used"},
		{CodeUnenforced, "a control cannot be enforced on this host"},
		{CodePIDs, "the cell may have no more processes"},
		{CodeWorkdir, "the working directory does not exist in the cell"},
		{CodeStart, "the cell could not be started"},
		{CodeRun, "the run failed before or after its command"},
		{CodeSeal, "the state after the run could not be sealed"},
		{CodeConclude, "the run could not be recorded"},
		{CodeEvents, "the events of a run cannot be read or kept"},
		{CodeLogs, "the output of a run could not be kept"},
		{CodeResult, "the result document could not be written"},
		{CodeWaits, "the cell waits for a directory in which a change was interrupted"},
		{CodeLook, "the live directory could not be looked at"},
		{CodeLongPath, "a path is too long to be listed"},
		{CodeFreed, "gc has freed the state"},
		{CodeStateLost, "a state that is needed is gone"},
		{CodeCompare, "two states could not be compared"},
		{CodeConflict, "both sides changed the same path"},
		{CodeHeldBack, "the changes have control files or rights that must be allowed"},
		{CodeNoSource, "the cell has no source directory"},
		{CodePending, "the work is not accepted"},
		{CodeNothing, "there is nothing to do"},
		{CodeDecided, "the run is decided already"},
		{CodeFailedRun, "the run failed; accepting it needs --force"},
		{CodeNotHead, "the state is not the head of the cell"},
		{CodeNotLast, "there is a newer run"},
		{CodeApply, "the changes could not be written"},
		{CodeUndo, "the apply could not be taken back"},
		{CodeUnfinished, "an earlier change was not finished"},
		{CodeExists, "the output exists already"},
		{CodeOutput, "the output could not be written"},
		{CodeHoles, "the holes of a file cannot be exported"},
		{CodeDiffers, "a recomputed state differs from its record"},
		{CodeNotVerified, "a receipt or bundle could not be verified"},
		{CodeBadReceipt, "a receipt is malformed or its signature is wrong"},
		{CodeUntrusted, "the key of a bundle is not trusted"},
		{CodeKey, "the signing key cannot be used"},
		{CodeKeyLost, "the signing key is lost"},
		{CodeKeyThere, "the signing key is not lost"},
		{CodeLoss, "evidence would be lost; accept it with --accept-loss"},
		{CodeLostRows, "the database lacks what the log has"},
		{CodeNotStarted, "the cell is not live"},
		{CodeStopping, "the live cell is being stopped"},
		{CodeSupervisor, "the supervisor could not be started"},
		{CodeSocket, "the socket of a live cell could not be made"},
		{CodeLost, "the supervisor of a live cell died"},
		{CodeExec, "the command could not be executed in the live cell"},
		{CodeUser, "the user does not exist in the cell"},
		{CodeCopy, "files could not be copied"},
		{CodeForward, "a port could not be forwarded"},
		{CodePortInUse, "the local port is in use"},
		{CodeCapture, "the state of a live cell could not be captured"},
		{CodeFreeze, "the processes of a live cell could not be stopped"},
		{CodeThaw, "the processes of a live cell could not be continued"},
		{CodeFreezer, "the host has no freezer for the cell"},
		{CodeNoCache, "the cell keeps no caches"},
		{CodePromote, "the caches could not be shared"},
		{CodeTooLarge, "it is larger than allowed"},
		{CodeTooMany, "a limit is reached"},
		{CodeTimeout, "the other side did not answer in time"},
		{CodeUnknownCall, "the supervisor does not know the call"},
		{CodeProtocol, "the other side broke the protocol"},
		{CodeProtocolMismatch, "the supervisor is of another version"},
		{CodeNotPrivate, "others can reach the socket"},
		{CodeNotYours, "the socket belongs to another user"},
		{CodeSetup, "the host could not be set up"},
		{CodePaused, "the live cell is paused"},
	}
}
