import { get, withQuery, type CallOptions, type Query } from "./call.js";
import type { Transport } from "./transport.js";
import type { DiffResult, States } from "./types.js";

/** A comparison of two states. Each method compares them. */
export class Diff {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Query;

  constructor(transport: Transport, path: string, states: States) {
    const { paths = [], sinceApply, all, ...rest } = states;
    const flags = { since_apply: sinceApply ? "true" : undefined, all: all ? "true" : undefined };
    this.#transport = transport;
    this.#query = { ...rest, ...flags, path: paths };
    this.#path = path;
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
    return withQuery(this.#path, { ...this.#query, format });
  }
}
