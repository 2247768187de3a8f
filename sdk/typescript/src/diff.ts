import { get, withQuery, type CallOptions } from "./call.js";
import type { Transport } from "./transport.js";
import type { DiffResult, States } from "./types.js";

/** A comparison of two states. Each method compares them. */
export class Diff {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, path: string, states: States) {
    const { paths = [], sinceApply, all, ...rest } = states;
    const flags = { since_apply: sinceApply ? "true" : undefined, all: all ? "true" : undefined };
    const query = new URLSearchParams(paths.map((p) => ["path", p]));
    this.#transport = transport;
    this.#path = `${withQuery(path, { ...rest, ...flags, format: "" })}&${query}`;
  }

  /** Returns the paths that differ. */
  changes(options: CallOptions = {}): Promise<DiffResult> {
    return this.#transport.send(get(this.#as("json"), options));
  }

  /** Returns the changed lines of each file, as text. */
  stat(options: CallOptions = {}): Promise<string> {
    return this.#transport.text(get(this.#as("stat"), options));
  }

  /** Returns a unified diff. */
  patch(options: CallOptions = {}): Promise<string> {
    return this.#transport.text(get(this.#as("patch"), options));
  }

  #as(format: string): string {
    return this.#path.replace("format=", `format=${format}`).replace(/&$/, "");
  }
}
