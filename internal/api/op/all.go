package op

// All returns every operation, by tag.
func All() []Any {
	return []Any{
		// cells
		ListCells, CreateCell, GetCell, UpdateCell, RemoveCell, Diff, GetDisk, Export, ForkCell, GetLog, UndeleteCell, Upload,
		// decisions
		Accept, GetAccepted, Apply, ListCheckpoints, CreateCheckpoint, Choose, ReportPublication, Refresh, Reject, Restore, Undo,
		VerifyCell,
		// evidence
		ListDecisions, ListEvents, Graph, ListReceipts, VerifyReceipts, GetReceipt, GetBundle,
		// files
		ReadFile, WriteFile, RemoveFile, CopyFiles, ListFiles, MakeDir, MoveFile, StatFile, WatchFiles,
		// live cells
		Branch, Eval, ExecSocket, Exec, Attach, ForwardPort, Pause, GetPort, HeadPort, PostPort, PutPort, PatchPort, DeletePort,
		OptionsPort, ListProcesses, Resume, Start, Stop,
		// operation
		Docs, Health, Metrics, Ready, GetHomeDisk, Doctor, CollectGarbage, GetKey, Usage, Version,
		// policies
		GetPolicy, SetPolicy, ListPresets, ExplainPolicy, SuggestPolicy, ValidatePolicy,
		// runs
		PlanRun, RunSocket, ListCellRuns, Run, GetCellRun, CancelCellRun, ListCellRunEvents, GetCellRunLogs, Race, ListRuns, GetRun,
		CancelRun, ListRunEvents, GetRunLogs,
		// sessions
		ListAgents, GetAgent, CheckAgent, ListAgentCredentials, ListSessions, CreateSession, PlanSession, GetSession, RemoveSession,
		AcceptSession, AgentSocket, PublishSession, RewindSession, SendMessage, StopSession, GetTimeline, ListTurns,
		// tokens
		ListTokens, CreateToken, RevokeToken,
		// beside the API
		OpenAPI, MCP, Pages,
	}
}
