import { change, get, post, type CallOptions, type Content } from "./call.js";
import { Cells } from "./cells.js";
import type { ClientOptions } from "./config.js";
import { Events } from "./events.js";
import { snake } from "./names.js";
import { Decisions, Policies, Receipts, Runs, Tokens } from "./resources.js";
import { Agents, Sessions } from "./sessions.js";
import { Transport } from "./transport.js";
import type { Check, DiskResult, GC, GCResult, GraphNode, Health, KeyInfo, Upload, UsageResult, VersionInfo } from "./types.js";

/** A client of a daemon. */
export class Forkcell {
  readonly cells: Cells;
  readonly runs: Runs;
  readonly receipts: Receipts;
  readonly decisions: Decisions;
  readonly policies: Policies;
  readonly events: Events;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly agents: Agents;
  readonly #transport: Transport;

  /** Makes a client. Without options it uses FORKCELL_URL, else the local socket. */
  constructor(options: ClientOptions = {}) {
    const transport = new Transport(options);
    this.#transport = transport;
    this.cells = new Cells(transport);
    this.runs = new Runs(transport);
    this.receipts = new Receipts(transport);
    this.decisions = new Decisions(transport);
    this.policies = new Policies(transport);
    this.events = new Events(transport);
    this.tokens = new Tokens(transport);
    this.sessions = new Sessions(transport);
    this.agents = new Agents(transport);
  }

  /** Whether the daemon is on a local socket, so that both sides see the same files. */
  get local(): boolean {
    return this.#transport.address.socket !== undefined;
  }

  /** Closes the connections. */
  async close(): Promise<void> {
    await this.#transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Returns the version of the daemon, and of the API that it speaks. */
  version(options: CallOptions = {}): Promise<VersionInfo> {
    return this.#transport.send(get("/version", options));
  }

  /** Reports whether the daemon runs. */
  health(options: CallOptions = {}): Promise<Health> {
    return this.#transport.send(get("/healthz", options));
  }

  /** Reports whether the daemon takes requests. One that is stopping is an error with the code draining. */
  ready(options: CallOptions = {}): Promise<Health> {
    return this.#transport.send({ ...get("/readyz", options), repeatable: false });
  }

  /** Returns what the daemon's host can enforce. */
  async doctor(options: CallOptions = {}): Promise<Check[]> {
    return (await this.#transport.send<{ controls: Check[] }>(get("/v1/doctor", options))).controls;
  }

  /** Returns what cells use, for each and in all. */
  usage(options: CallOptions = {}): Promise<UsageResult> {
    return this.#transport.send(get("/v1/usage", options));
  }

  /** Returns the disk space of all cells and of the home. */
  disk(options: CallOptions = {}): Promise<DiskResult> {
    return this.#transport.send(get("/v1/disk", options));
  }

  /**
   * Sends a tar archive, which may be compressed by zstd, for the source of a new cell:
   * `{ upload: upload.upload }`. One that is not used is removed after an hour.
   */
  upload(archive: Content, options: CallOptions = {}): Promise<Upload> {
    const call = change("POST", "/v1/uploads", undefined, options);
    return this.#transport.send({ ...call, content: { type: "application/x-tar", data: archive } });
  }

  /** Returns the key that signs receipts. */
  key(options: CallOptions = {}): Promise<KeyInfo> {
    return this.#transport.send(get("/v1/keys", options));
  }

  /** Frees states that nothing needs. */
  gc(request: GC = {}, options: CallOptions = {}): Promise<GCResult> {
    return this.#transport.send(post("/v1/gc", snake(request), options));
  }

  /** Returns the lineage of all states, the oldest first. */
  graph(options: CallOptions = {}): AsyncIterable<GraphNode> {
    return this.#transport.pages("/v1/graph", {}, options);
  }
}
