/// <reference lib="esnext.disposable" preserve="true" />
// The client of a Forkcell daemon.
//
//   import { Forkcell } from "@forkcell/sdk";
//
//   const fc = new Forkcell(); // FORKCELL_URL, else the local socket
//   const cell = await fc.cells.create({ source: "./project", policy: "dev" });
//   const r = await cell.run("npm test", { restoreOnFail: true, onStdout: console.log });
//   if (r.ok) await cell.accept({ apply: true, reason: "tests pass" });
//
// A failure that the daemon reports is a ForkcellError with a stable code. A command
// that fails is not an error: its exit code is in the result.

export { Branch } from "./branch.js";
export { Cell, type Code, type Command } from "./cell.js";
export { Cells } from "./cells.js";
export { Forkcell } from "./client.js";
export type { ClientOptions } from "./config.js";
export { Diff } from "./diff.js";
export { ForkcellError, type Kind } from "./errors.js";
export { Events, type EventFilter, type FollowedEvent } from "./events.js";
export { ExecSocket, type ExecExit, type Output } from "./execsocket.js";
export { Files } from "./files.js";
export { Race, type Attempt, type RaceCallbacks } from "./race.js";
export { Decisions, Policies, Receipts, Runs, Tokens } from "./resources.js";
export { Agents, Session, Sessions } from "./sessions.js";
export type * from "./types.js";
