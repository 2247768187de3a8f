import { createBy } from "./binary.js";
import { post, type CallOptions, type ChangeOptions } from "./call.js";
import { Cell } from "./cell.js";
import { snake } from "./names.js";
import type { Transport } from "./transport.js";
import type { CellInfo, CreateCell, InitResult, Source } from "./types.js";

/** Makes and finds cells. */
export class Cells {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Makes a cell. To a daemon elsewhere the program forkcell of this machine sends a
   * directory, without what the secret rules leave out; accept, apply, undo and refresh of
   * the cell then use the same directory.
   */
  async create(request: CreateCell = {}, options: ChangeOptions = {}): Promise<Cell> {
    const { source, ...rest } = request;
    if (typeof source === "string" && this.#transport.address.socket === undefined) {
      const sent = await createBy<InitResult>(await this.#transport.binary(), source, snake(rest), options.signal);
      return new Cell(this.#transport, sent.cell, sent);
    }
    const body = snake({ ...rest, source: await this.#source(source) });
    const made = await this.#transport.send<InitResult>(post("/v1/cells", body, options));
    return new Cell(this.#transport, made.cell, made);
  }

  async #source(source: string | Source | undefined): Promise<Source | undefined> {
    if (typeof source !== "string") return source;
    const { resolve } = await import("node:path");
    return { path: resolve(source) };
  }

  /** Returns a cell that exists. */
  async get(name: string, options: CallOptions = {}): Promise<Cell> {
    const cell = this.named(name);
    await cell.status(options);
    return cell;
  }

  /** Returns a cell without asking the daemon whether it exists. */
  named(name: string): Cell {
    return new Cell(this.#transport, name);
  }

  /** Returns the cells, the oldest first. */
  list(filter: { state?: string; labels?: Record<string, string> } = {}, options: CallOptions = {}): AsyncIterable<CellInfo> {
    const label = Object.entries(filter.labels ?? {}).map(([key, value]) => `${key}=${value}`);
    return this.#transport.pages("/v1/cells", { state: filter.state, label }, options);
  }
}
