import { Diff } from "./diff.js";
import type { Transport } from "./transport.js";
import type { RaceAttempt, RaceResult } from "./types.js";

/** One attempt of a race. */
export type Attempt = RaceAttempt & {
  /** Compares the states before and after the attempt. Its cell must have been kept. */
  diff(): Diff;
};

/** Returns an attempt that can compare its states. */
export function attemptOf(transport: Transport, a: RaceAttempt): Attempt {
  return { ...a, diff: () => new Diff(transport, `/v1/cells/${encodeURIComponent(a.cell)}/diff`, { run: a.runId }) };
}

/** What a race calls while it runs. */
export interface RaceCallbacks {
  /** Called with each attempt when its command has ended. */
  onAttempt?: (attempt: Attempt) => void;
  /** Called with each attempt when it has been judged. */
  onJudged?: (attempt: Attempt) => void;
}

/** The result of a race. Iterating gives the attempts. */
export class Race implements Iterable<Attempt> {
  /** The document, with the decision. */
  readonly result: RaceResult;
  /** The attempts, in their order. */
  readonly attempts: Attempt[];

  constructor(transport: Transport, result: RaceResult) {
    this.result = result;
    this.attempts = result.attempts.map((a) => attemptOf(transport, a));
  }

  /** The best attempt, or undefined if all failed. */
  get winner(): Attempt | undefined {
    return this.attempts.find((a) => a.attempt === this.result.winner);
  }

  [Symbol.iterator](): Iterator<Attempt> {
    return this.attempts[Symbol.iterator]();
  }
}
