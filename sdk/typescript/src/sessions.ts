// Sessions of coding agents.
import { Cell } from "./cell.js";
import { change, get, post, type CallOptions, type ChangeOptions } from "./call.js";
import { snake } from "./names.js";
import { Seen } from "./seen.js";
import type { Transport } from "./transport.js";
import type * as t from "./types.js";

/** A session of a coding agent. Its cell has the verbs that all cells have, such as `diff` and `reject`. */
export class Session {
  /** The name of the session. */
  readonly name: string;
  /** What the session was when this client started it. */
  readonly started: t.AgentSession | undefined;
  /** The cell of the session. */
  readonly cell: Cell;
  readonly #transport: Transport;
  readonly #seen = new Seen();

  constructor(transport: Transport, name: string, started?: t.AgentSession) {
    this.#transport = transport;
    this.name = name;
    this.started = started;
    this.cell = new Cell(transport, name, undefined, this.#seen);
  }

  /** Returns everything about the session. */
  show(options: CallOptions = {}): Promise<t.AgentSession> {
    return this.#transport.send(get(this.#path(), options));
  }

  /** Returns the turns of the session, the oldest first. */
  turns(options: CallOptions = {}): AsyncIterable<t.TurnInfo> {
    return this.#transport.pages(this.#path("/turns"), {}, options);
  }

  /** Returns what happened in the session, in order. */
  timeline(options: CallOptions = {}): AsyncIterable<t.TimelineEntry> {
    return this.#transport.pages(this.#path("/timeline"), {}, options);
  }

  /** Types a message into the running session, and presses Enter. */
  send(message: string, request: { noNewline?: boolean } = {}, options: ChangeOptions = {}): Promise<t.SentMessage> {
    return this.#transport.send(post(this.#path("/send"), { ...snake(request), message }, options));
  }

  /** Ends the session. Its run gets its receipt. */
  stop(request: { force?: boolean } = {}, options: ChangeOptions = {}): Promise<t.AgentSession> {
    return this.#transport.send(post(this.#path("/stop"), snake(request), options));
  }

  /** Takes the session back to a turn, and starts its agent again. */
  rewind(request: t.Rewind = {}, options: ChangeOptions = {}): Promise<t.RewoundSession> {
    return this.#transport.send(post(this.#path("/rewind"), snake(request), options));
  }

  /** Accepts what the session changed, as `accept` of its cell does. It must have ended. */
  async accept(request: t.Accept = {}, options: ChangeOptions = {}): Promise<t.AcceptResult> {
    // With apply the cell may have been made from a directory of this machine.
    if (request.apply) return this.cell.accept(request, options);
    const body = this.#seen.bind(request, options.ifMatch);
    const result = await this.#transport.send<t.AcceptResult>(post(this.#path("/accept"), snake(body), options));
    this.#seen.set();
    return result;
  }

  /** Puts the accepted work on a new branch of the source's repository. */
  publish(branch: string, request: t.Publish = {}, options: ChangeOptions = {}): Promise<t.PublishResult> {
    return this.#transport.send(post(this.#path("/publish"), { ...snake(request), branch }, options));
  }

  /** Removes a session that has ended. `force` does so although its work was not decided. */
  async remove(options: Omit<ChangeOptions, "idempotencyKey"> & { force?: boolean } = {}): Promise<void> {
    await this.#transport.document(change("DELETE", this.#path(options.force ? "?force=true" : ""), undefined, options));
  }

  #path(below = ""): string {
    return `/v1/sessions/${encodeURIComponent(this.name)}${below}`;
  }
}

/** Starts and finds sessions of coding agents. */
export class Sessions {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Starts an agent in a fork of a cell. It runs on without the caller. */
  async start(cell: string | Cell, agent: string, request: t.StartSession = {}, options: ChangeOptions = {}): Promise<Session> {
    const info = await this.#transport.send<t.AgentSession>(post("/v1/sessions", body(cell, agent, request), options));
    return new Session(this.#transport, info.sessionId, info);
  }

  /** Returns what would be decided about a session, and starts nothing. */
  plan(cell: string | Cell, agent: string, request: t.StartSession = {}, options: CallOptions = {}): Promise<t.SessionPlan> {
    return this.#transport.send(post("/v1/sessions/plan", body(cell, agent, request), options));
  }

  /** Returns the sessions, the oldest first. */
  list(filter: { agent?: string; status?: string } = {}, options: CallOptions = {}): AsyncIterable<t.AgentSession> {
    return this.#transport.pages("/v1/sessions", filter, options);
  }

  /** Returns a session that exists. */
  async get(name: string, options: CallOptions = {}): Promise<Session> {
    const session = this.named(name);
    await session.show(options);
    return session;
  }

  /** Returns a session without asking the daemon whether it exists. */
  named(name: string): Session {
    return new Session(this.#transport, name);
  }
}

function body(cell: string | Cell, agent: string, request: t.StartSession): Record<string, unknown> {
  return { ...snake(request), cell: typeof cell === "string" ? cell : cell.name, agent };
}

/** Shows the coding agents of the daemon's host. */
export class Agents {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the agents, by name. */
  list(options: CallOptions = {}): AsyncIterable<t.AgentState> {
    return this.#transport.pages("/v1/agents", {}, options);
  }

  /** Returns an agent, with the document that describes it. */
  get(name: string, options: CallOptions = {}): Promise<t.AgentDocument> {
    return this.#transport.send(get(`/v1/agents/${encodeURIComponent(name)}`, options));
  }

  /** Starts an agent in an empty cell, far enough to see it print its version. */
  check(name: string, options: CallOptions = {}): Promise<t.AgentState> {
    return this.#transport.send(post(`/v1/agents/${encodeURIComponent(name)}/check`, undefined, options));
  }

  /** Says which credentials a session would get in a mode, and why. It never returns a value. */
  credentials(name: string, filter: { mode?: string } = {}, options: CallOptions = {}): AsyncIterable<t.CredentialDecision> {
    return this.#transport.pages(`/v1/agents/${encodeURIComponent(name)}/credentials`, filter, options);
  }
}
