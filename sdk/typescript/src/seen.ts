/**
 * The undecided work that a cell has shown to its caller: runs and captured states, the
 * oldest first. `accept` takes nothing else.
 */
export class Seen {
  #ids: string[];

  constructor(ids: readonly string[] = []) {
    this.#ids = [...ids];
  }

  /** Remembers what a comparison of all undecided work showed. */
  set(ids: readonly string[] = []): void {
    this.#ids = [...ids];
  }

  /** Remembers more work. */
  add(ids: readonly string[] = []): void {
    this.#ids = [...new Set([...this.#ids, ...ids])];
  }

  /** Remembers a run, if it waits for a decision, and returns it. */
  ran<T extends { runId: string; decision: string }>(run: T): T {
    if (run.decision === "pending") this.add([run.runId]);
    return run;
  }

  /** Forgets what a move back from a run has left. */
  left(run: string): void {
    this.#ids.splice(Math.max(0, this.#ids.indexOf(run)));
  }

  /** Returns a request; one that chooses nothing names what the caller has seen. */
  bind<T extends { run?: string; runs?: string[]; leaveOut?: string[] }>(request: T, ifMatch?: number): T {
    if (request.run || request.runs?.length || ifMatch !== undefined) return request;
    const runs = this.#ids.filter((id) => !request.leaveOut?.includes(id));
    return runs.length > 0 ? { ...request, runs } : request;
  }
}
