import { get, post, type CallOptions } from "./call.js";
import { Cells } from "./cells.js";
import type { ClientOptions } from "./config.js";
import { snake } from "./names.js";
import { Decisions, Policies, Receipts, Runs } from "./resources.js";
import { Transport } from "./transport.js";
import type { GC, GCResult, GraphNode, KeyInfo, VersionInfo } from "./types.js";

/** A client of a daemon. */
export class Forkcell {
  readonly cells: Cells;
  readonly runs: Runs;
  readonly receipts: Receipts;
  readonly decisions: Decisions;
  readonly policies: Policies;
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
