package api

// The names that tests still use.
type (
	AcceptBody     = AcceptRequest
	ApplyBody      = ApplyRequest
	CheckpointBody = CheckpointRequest
	ChooseBody     = ChooseRequest
	EvalBody       = EvalRequest
	FileBody       = FileRequest
	ListFilesBody  = ListFilesRequest
	MoveFileBody   = MoveFileRequest
	PauseBody      = PauseRequest
	RefreshBody    = RefreshRequest
	RejectBody     = RejectRequest
	RestoreBody    = RestoreRequest
	SendBody       = SendRequest
	UndoBody       = UndoRequest
	VerifyBody     = VerifyRequest
)
