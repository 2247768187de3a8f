import { post, type CallOptions, type ChangeOptions } from "./call.js";
import { Cell } from "./cell.js";
import { ForkcellError } from "./errors.js";
import { snake } from "./names.js";
import type { Transport } from "./transport.js";
import type { CellInfo, CreateCell, InitResult, Source } from "./types.js";

/** Makes and finds cells. */
export class Cells {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Makes a cell. */
  async create(request: CreateCell = {}, options: ChangeOptions = {}): Promise<Cell> {
    const body = snake({ ...request, source: await this.#source(request.source) });
    const made = await this.#transport.send<InitResult>(post("/v1/cells", body, options));
    return new Cell(this.#transport, made.cell, made);
  }

  async #source(source: string | Source | undefined): Promise<Source | undefined> {
    if (typeof source !== "string") return source;
    const { name, socket } = this.#transport.address;
    if (socket === undefined) {
      throw new ForkcellError("no_local_binary", {
        message: `this client cannot send ${source} to ${name}`,
        hint: "use the daemon on the local socket, a directory of the daemon's machine, or an uploaded archive",
      });
    }
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
