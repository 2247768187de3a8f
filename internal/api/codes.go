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
	CodeDiskFull         Code = "disk_full"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeForbidden        Code = "forbidden"
	CodeChanged          Code = "changed"
	CodeKeyReused        Code = "key_reused"
	CodeAlreadyCreated   Code = "already_created"
	CodeQuota            Code = "quota"
	CodeDraining         Code = "draining"
	CodeMisdirected      Code = "misdirected"
	CodeNoLocalBinary    Code = "no_local_binary"
	CodeMethod           Code = "method"
	CodeNotAcceptable    Code = "not_acceptable"
	CodeMediaType        Code = "media_type"
	CodeRange            Code = "range"
	CodeSlow             Code = "slow"
	CodeToken            Code = "token"
	CodeUpgrade          Code = "upgrade"
	CodeCeiling          Code = "ceiling"
	CodeNoWinner         Code = "no_winner"
	CodeMoved            Code = "moved"
	CodeNoAttempt        Code = "no_attempt"
	CodeExpire           Code = "expire"
	CodeNotFile          Code = "not_file"
	CodeUnreachable      Code = "unreachable"
	CodeNotWarm          Code = "not_warm"
	CodeTemplate         Code = "template"
	CodeBranch           Code = "branch"
	CodeRuntime          Code = "runtime"
	CodePublish          Code = "publish"
	CodeGate             Code = "gate"
	CodePush             Code = "push"
	CodePullRequest      Code = "pull_request"
	CodeControl          Code = "control_files"
	CodeAdmission        Code = "admission"
	CodeAgent            Code = "agent"
	CodeSession          Code = "session"
	CodeNoMemory         Code = "no_memory"
	CodeTurns            Code = "turns"
	CodeNotShown         Code = "not_shown"
	CodeHasWork          Code = "has_work"
)

// CodeInfo is a code, its status over HTTP, and its meaning.
type CodeInfo struct {
	Code    Code   `json:"code"`
	Status  int    `json:"status"`
	Meaning string `json:"meaning"`
}

// Codes returns every code, the oldest first.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeUsage, 400, "a wrong flag, value or argument"},
		{CodeNotFound, 404, "no such cell, checkpoint, run, receipt, decision or file"},
		{CodeFailed, 500, "the operation failed; no other code describes why"},
		{CodeInterrupted, 409, "a signal stopped the command"},
		{CodeBusy, 409, "another process works on the cell or the home"},
		{CodeLive, 409, "the cell is live; stop it, or use a verb for live cells"},
		{CodeHome, 500, "the state directory cannot be used"},
		{CodeDamaged, 500, "a file of the state directory is damaged or missing"},
		{CodeClose, 500, "the state directory could not be closed"},
		{CodeNameTaken, 409, "a cell or checkpoint has this name already"},
		{CodeNoCell, 404, "the directory has no cell"},
		{CodeSeveralCells, 409, "the directory has several cells"},
		{CodeAmbiguous, 409, "a name fits both a checkpoint and a cell"},
		{CodeOverlap, 422, "a path overlaps the state directory or another given path"},
		{CodeBackend, 422, "the backend cannot be used here, or cannot do this"},
		{CodeUnsupported, 422, "this version does not do that"},
		{CodeDeclined, 409, "the question was answered with no"},
		{CodeImport, 422, "the source could not be imported"},
		{CodeSourceChanged, 409, "the source changed while it was read"},
		{CodeUnsealable, 422, "the files cannot be kept as a state"},
		{CodeMount, 422, "the workspace cannot be mounted at this path"},
		{CodePolicy, 400, "the policy is malformed or cannot be used"},
		{CodePolicyPath, 422, "a path that the policy lists cannot be used"},
		{CodePolicySection, 422, "a part of the policy cannot change in a live cell"},
		{CodeGrant, 422, "the policy uses something that was not granted"},
		{CodeCredential, 422, "a credential has no value, or may not be used"},
		{CodeHidden, 422, "a secret cannot be hidden"},
		{CodeNetwork, 422, "the network of the cell could not be set up"},
		{CodeArea, 422, "a writable path of the policy cannot be used"},
		{CodeUnenforced, 422, "a control cannot be enforced on this host"},
		{CodePIDs, 422, "the cell may have no more processes"},
		{CodeWorkdir, 422, "the working directory does not exist in the cell"},
		{CodeStart, 500, "the cell could not be started"},
		{CodeRun, 500, "the run failed before or after its command"},
		{CodeSeal, 500, "the state after the run could not be sealed"},
		{CodeConclude, 500, "the run could not be recorded"},
		{CodeEvents, 500, "the events of a run cannot be read or kept"},
		{CodeLogs, 500, "the output of a run could not be kept"},
		{CodeResult, 500, "the result document could not be written"},
		{CodeWaits, 409, "the cell waits for a directory in which a change was interrupted"},
		{CodeLook, 500, "the live directory could not be looked at"},
		{CodeLongPath, 422, "a path is too long to be listed"},
		{CodeFreed, 409, "gc has freed the state, or the output of the run"},
		{CodeStateLost, 409, "a state that is needed is gone"},
		{CodeCompare, 500, "two states could not be compared"},
		{CodeConflict, 409, "both sides changed the same path"},
		{CodeHeldBack, 409, "the changes have control files or rights that must be allowed"},
		{CodeNoSource, 422, "the cell has no source directory, or it is not there any more"},
		{CodePending, 409, "the work is not accepted"},
		{CodeNothing, 409, "there is nothing to do"},
		{CodeDecided, 409, "the run is decided already"},
		{CodeFailedRun, 409, "the run failed; accepting it needs --force"},
		{CodeNotHead, 409, "the state is not the head of the cell"},
		{CodeNotLast, 409, "there is a newer run"},
		{CodeApply, 500, "the changes could not be written"},
		{CodeUndo, 500, "the apply could not be taken back"},
		{CodeUnfinished, 409, "an earlier change was not finished"},
		{CodeExists, 409, "the output exists already"},
		{CodeOutput, 500, "the output could not be written"},
		{CodeHoles, 500, "the holes of a file cannot be exported"},
		{CodeDiffers, 409, "a recomputed state differs from its record"},
		{CodeNotVerified, 409, "a receipt or bundle could not be verified"},
		{CodeBadReceipt, 400, "a receipt is malformed or its signature is wrong"},
		{CodeUntrusted, 422, "the key of a bundle is not trusted"},
		{CodeKey, 500, "the signing key cannot be used"},
		{CodeKeyLost, 500, "the signing key is lost"},
		{CodeKeyThere, 409, "the signing key is not lost"},
		{CodeLoss, 409, "evidence would be lost; accept it with --accept-loss"},
		{CodeLostRows, 500, "the database lacks what the log has"},
		{CodeNotStarted, 409, "the cell is not live"},
		{CodeStopping, 409, "the live cell is being stopped"},
		{CodeSupervisor, 500, "the supervisor could not be started"},
		{CodeSocket, 500, "the socket of a live cell could not be made"},
		{CodeLost, 500, "the supervisor of a live cell died"},
		{CodeExec, 422, "the command could not be executed in the live cell"},
		{CodeUser, 422, "the user does not exist in the cell"},
		{CodeCopy, 500, "files could not be copied"},
		{CodeForward, 502, "a port could not be forwarded"},
		{CodePortInUse, 500, "the local port is in use"},
		{CodeCapture, 500, "the state of a live cell could not be captured"},
		{CodeFreeze, 500, "the processes of a live cell could not be stopped"},
		{CodeThaw, 500, "the processes of a live cell could not be continued"},
		{CodeFreezer, 422, "the host has no freezer for the cell"},
		{CodeNoCache, 409, "the cell keeps no caches"},
		{CodePromote, 500, "the caches could not be shared"},
		{CodeTooLarge, 413, "it is larger than allowed"},
		{CodeTooMany, 429, "a limit is reached"},
		{CodeTimeout, 504, "the other side did not answer in time"},
		{CodeUnknownCall, 500, "the supervisor does not know the call"},
		{CodeProtocol, 500, "the other side broke the protocol"},
		{CodeProtocolMismatch, 500, "the supervisor is of another version"},
		{CodeNotPrivate, 500, "others can reach the socket"},
		{CodeNotYours, 500, "the socket belongs to another user"},
		{CodeSetup, 500, "the host could not be set up"},
		{CodePaused, 409, "the live cell is paused"},
		{CodeDiskFull, 507, "the disk is full"},
		{CodeUnauthenticated, 401, "the request has no valid token"},
		{CodeForbidden, 403, "the caller may not do that"},
		{CodeChanged, 412, "the cell changed since it was read (If-Match)"},
		{CodeKeyReused, 422, "the idempotency key was used with another request"},
		{CodeAlreadyCreated, 409, "the request was done before; its answer was a secret and is not kept"},
		{CodeQuota, 429, "a quota of the caller is used up"},
		{CodeDraining, 503, "the daemon is stopping"},
		{CodeMisdirected, 421, "the request names another host"},
		{CodeNoLocalBinary, 422, "the client needs the forkcell program for this"},
		{CodeMethod, 405, "the path exists, but not with this method"},
		{CodeNotAcceptable, 406, "no form of the answer is acceptable"},
		{CodeMediaType, 415, "the body has the wrong type"},
		{CodeRange, 416, "the range is outside of the file"},
		{CodeSlow, 408, "the body did not arrive in time"},
		{CodeToken, 400, "the request for a token, or a file of tokens, is malformed"},
		{CodeUpgrade, 426, "the resource is a WebSocket"},
		{CodeCeiling, 422, "a policy cannot be enforced together with the ceiling of the caller"},
		{CodeNoWinner, 409, "no attempt of the race could win"},
		{CodeMoved, 409, "the cell has moved on since the race began"},
		{CodeExpire, 500, "a cell whose time is up could not be ended"},
		{CodeNotFile, 409, "the path is no file, or no directory, where one is needed"},
		{CodeUnreachable, 502, "the daemon cannot be reached, or the connection to it was lost"},
		{CodeNotWarm, 409, "the cell has no warm process that can be copied or asked"},
		{CodeTemplate, 409, "the cell is a warm template, in which nothing runs; branch it"},
		{CodeBranch, 500, "a branch could not be made"},
		{CodeRuntime, 409, "the runtime does not work on this host, or cannot do that"},
		{CodePublish, 500, "the accepted work could not be published"},
		{CodeGate, 409, "a gate refuses to publish the work"},
		{CodePush, 502, "the branch could not be pushed"},
		{CodePullRequest, 502, "the pull request could not be made"},
		{CodeControl, 409, "the control files of the workspace cannot be masked"},
		{CodeAdmission, 409, "a session may not work on the directory"},
		{CodeAgent, 422, "the agent's program is not installed, or is not usable"},
		{CodeSession, 500, "the session could not be started or changed"},
		{CodeNoMemory, 409, "the checkpoint has no memory"},
		{CodeTurns, 409, "the cell takes no turns, or a turn was skipped"},
		{CodeNoAttempt, 409, "the cell is no attempt of a race of the other one, or has no result"},
		{CodeNotShown, 409, "accepting would take work that was not shown"},
		{CodeHasWork, 409, "the cell has work that is undecided, or that its source does not have"},
	}
}
