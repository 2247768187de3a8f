import { get, withQuery, type CallOptions, type Query } from "./call.js";
import { Seen } from "./seen.js";
import type { Transport } from "./transport.js";
import type { DiffResult, States } from "./types.js";

/** A comparison of two states. Each method compares them. */
export class Diff {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Query;
  readonly #states: States;
  readonly #seen: Seen;

  constructor(transport: Transport, path: string, states: States, seen = new Seen()) {
    const { paths = [], sinceApply, all, ...rest } = states;
    const flags = { since_apply: sinceApply ? "true" : undefined, all: all ? "true" : undefined };
    this.#transport = transport;
    this.#query = { ...rest, ...flags, path: paths };
    this.#path = path;
    this.#states = states;
    this.#seen = seen;
  }

  /** Returns the paths that differ. */
  async changes(options: CallOptions = {}): Promise<DiffResult> {
    const { run, from, to, sinceApply } = this.#states;
    const result = await this.#transport.send<DiffResult>(get(this.#as("json"), options));
    if (run || from || to || sinceApply) this.#seen.add(result.runs);
    else this.#seen.set(result.runs);
    return result;
  }

  /** Returns the changed lines of each file, as text. */
  stat(options: CallOptions = {}): Promise<string> {
    return this.#text("stat", options);
  }

  /** Returns a unified diff. */
  patch(options: CallOptions = {}): Promise<string> {
    return this.#text("patch", options);
  }

  /** Returns a comparison as text. Of undecided work it is about the states that `changes` has just seen. */
  async #text(format: string, options: CallOptions): Promise<string> {
    let states: Query = {};
    if (!this.#states.from && !this.#states.to && !this.#states.sinceApply) {
      const { runs = [], from, to } = await this.changes(options);
      if (runs.length > 0) states = { run: undefined, from, to };
    }
    return this.#transport.text(get(this.#as(format, states), options));
  }

  #as(format: string, states: Query = {}): string {
    return withQuery(this.#path, { ...this.#query, ...states, format });
  }
}
