// The documents of the API, with names in camelCase.
import type { CallOptions, ChangeOptions } from "./call.js";
import type { Camel } from "./names.js";
import type { components } from "./schema.js";
import type { OutputOptions } from "./stream.js";

type Schemas = components["schemas"];
type Document<Name extends keyof Schemas> = Camel<Schemas[Name]>;

export type { CallOptions, ChangeOptions, OutputOptions };

// Requests.
export type Source = Document<"Source">;
export type CreateCell = Omit<Document<"CreateCell">, "source" | "forkOf" | "checkpoint" | "n"> & {
  /** A directory of this machine, with a daemon on the local socket; or the API's own form. */
  source?: string | Source;
};
export type Fork = Document<"ForkBody">;
export type Run = Omit<Document<"RunBody">, "command">;
export type Exec = Omit<Document<"ExecBody">, "command">;
export type RaceOptions = Omit<Document<"RaceBody">, "cell" | "command" | "attempts" | "judge"> & {
  /** The command that judges each attempt, in a fork of its own. */
  judge?: string | readonly string[];
};
export type Choose = Omit<Document<"ChooseBody">, "attempt">;
/** Two states. Without any, those of the last run. */
export interface States {
  /** What this run changed. */
  run?: string;
  /** A state of the cell, or another cell. */
  from?: string;
  to?: string;
  paths?: readonly string[];
  /** What the source directory does not have yet. */
  sinceApply?: boolean;
  /** Also the cell's home. */
  all?: boolean;
}
export type Checkpoint = Document<"CheckpointBody">;
export type Restore = Document<"RestoreBody">;
export type Accept = Document<"AcceptBody">;
export type Reject = Document<"RejectBody">;
export type Apply = Document<"ApplyBody">;
export type Undo = Document<"UndoBody">;
export type Refresh = Document<"RefreshBody">;
export type Verify = Document<"VerifyBody">;
export type Start = Document<"StartBody">;
export type WarmPython = Document<"WarmPython">;
export type BranchRequest = Document<"BranchBody">;
export type Stop = Document<"StopBody">;
export type Pause = Document<"PauseBody">;
export type Resume = Document<"ResumeBody">;
export type Explain = Document<"ExplainBody">;
export type Suggest = Document<"SuggestBody">;
export type VerifyReceipts = Document<"ReceiptVerifyRequest">;
export type GC = Document<"GCBody">;
export type Update = Document<"UpdateBody">;
export type CreateToken = Document<"TokenBody">;
export type StartSession = Omit<Document<"CreateSession">, "cell" | "agent">;
export type Rewind = Document<"RewindBody">;
export type Publish = Omit<Document<"PublishBody">, "branch">;
/** Which state `export` reads. */
export interface ExportState {
  /** Without it, the present state. */
  checkpoint?: string;
  /** Only what differs from the last applied state. */
  changes?: boolean;
}
/** What `openExec` takes besides the command. */
export interface OpenExec {
  env?: Record<string, string>;
  workdir?: string;
  timeout?: string;
  /** Gives the command a terminal of `cols` and `rows`. What it writes there is stdout. */
  tty?: boolean;
  cols?: number;
  rows?: number;
  /** Ends the command with the socket. */
  attached?: boolean;
}

// Results.
export type InitResult = Document<"InitResult">;
export type CellInfo = Document<"CellInfo">;
export type StatusResult = Document<"StatusResult">;
/** The result of a run. `ok` says whether the command succeeded. */
export type RunAnswer = Document<"RunAnswer"> & { ok: boolean };
export type RunResult = Document<"RunResult">;
export type RunInfo = Document<"RunInfo">;
export type RunStarted = Document<"RunStarted">;
/** How a command in a live cell ended. `ok` says whether it succeeded. */
export type ExecAnswer = Document<"ExecAnswer"> & { ok: boolean };
export type DiffResult = Document<"DiffResult">;
export type RaceAttempt = Document<"RaceAttempt">;
export type RaceResult = Document<"RaceResult">;
export type CheckpointResult = Document<"CheckpointResult">;
export type MoveResult = Document<"MoveResult">;
export type AcceptResult = Document<"AcceptResult">;
export type ApplyResult = Document<"ApplyResult">;
export type RefreshResult = Document<"RefreshResult">;
export type VerifyResult = Document<"VerifyResult">;
export type StartResult = Document<"StartResult">;
export type PauseResult = Document<"PauseResult">;
export type ForkedCells = Document<"ForkedCells">;
export type BranchResult = Document<"BranchResult">;
export type EvalResult = Document<"EvalResult">;
export type ReceiptInfo = Document<"ReceiptInfo">;
export type ReceiptVerifyResult = Document<"ReceiptVerifyResult">;
export type DecisionInfo = Document<"DecisionInfo">;
export type GraphNode = Document<"GraphNode">;
export type Preset = Document<"Preset">;
export type PolicyResult = Document<"PolicyResult">;
export type PolicyApplied = Document<"PolicyApplied">;
export type PolicySuggestion = Document<"PolicySuggestion">;
export type Explanation = Document<"Explanation">;
export type KeyInfo = Document<"KeyInfo">;
export type GCResult = Document<"GCResult">;
export type VersionInfo = Document<"VersionInfo">;
export type Health = Document<"Health">;
export type Check = Document<"Check">;
export type UsageResult = Document<"UsageResult">;
export type Upload = Document<"Upload">;
export type LogEntry = Document<"LogEntry">;
export type ProcessInfo = Document<"ProcessInfo">;
export type DiskResult = Document<"DiskResult">;
export type TokenInfo = Document<"TokenInfo">;
export type TokenCreated = Document<"TokenCreated">;
export type CheckpointInfo = Document<"CheckpointInfo">;
export type FileInfo = Document<"FileInfo">;
export type AgentSession = Document<"AgentSession">;
export type SessionPlan = Document<"SessionPlan">;
export type TurnInfo = Document<"TurnInfo">;
export type TimelineEntry = Document<"TimelineEntry">;
export type SentMessage = Document<"SentMessage">;
export type RewoundSession = Document<"RewoundSession">;
export type PublishResult = Document<"PublishResult">;
export type AgentState = Document<"AgentState">;
export type AgentDocument = Document<"AgentDocument">;
export type CredentialDecision = Document<"CredentialDecision">;
/** A change in a watched directory. Paths are relative to it. */
export interface FileEvent {
  event: "started" | "created" | "modified" | "removed" | "renamed" | "overflow";
  path?: string;
  /** The old path of what was renamed. */
  from?: string;
}
