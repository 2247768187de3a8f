import { Diff } from "./diff.js";
import type { Transport } from "./transport.js";
import type { RaceAttempt, RaceResult } from "./types.js";

/** One attempt of a race. */
export type Attempt = RaceAttempt & {
  /** Compares the states before and after the attempt. Its cell must have been kept. */
  diff(): Diff;
};

/** The result of a race. Iterating gives the attempts. */
export class Race implements Iterable<Attempt> {
  readonly result: RaceResult;
  readonly attempts: Attempt[];

  constructor(transport: Transport, result: RaceResult) {
    this.result = result;
    this.attempts = result.attempts.map((a) => ({
      ...a,
      diff: () => new Diff(transport, `/v1/cells/${encodeURIComponent(a.cell)}/diff`, { run: a.runId }),
    }));
  }

  /** The best attempt, or undefined if all failed. */
  get winner(): Attempt | undefined {
    return this.attempts.find((a) => a.attempt === this.result.winner);
  }

  [Symbol.iterator](): Iterator<Attempt> {
    return this.attempts[Symbol.iterator]();
  }
}
