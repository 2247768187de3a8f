import { moveBy, needBinary } from "./binary.js";
import { argv, change, get, post, withQuery, type Call, type CallOptions, type ChangeOptions } from "./call.js";
import { Branch } from "./branch.js";
import { Diff } from "./diff.js";
import { ForkcellError } from "./errors.js";
import { ExecSocket } from "./execsocket.js";
import { Files } from "./files.js";
import { camel, parse, snake } from "./names.js";
import { attemptOf, Race, type RaceCallbacks } from "./race.js";
import { Seen } from "./seen.js";
import { Recorder, type OutputOptions } from "./stream.js";
import type { Transport } from "./transport.js";
import type * as t from "./types.js";

/** A command: its arguments, or a line for the shell. */
export type Command = string | readonly string[];

/** Code for a warm interpreter, instead of a command. */
export interface Code {
  code: string;
}

/** Returns an attempt of a race as the API has it. */
function attempt(given: Command | Code): { command: string[] } | Code {
  return typeof given === "object" && "code" in given ? { code: given.code } : { command: argv(given) };
}

/** One cell of a daemon. Its methods are the verbs of the command line. */
export class Cell {
  #name: string;
  /** How the cell was made, if this client made it from a source. */
  readonly created: t.InitResult | undefined;
  readonly #transport: Transport;
  readonly #seen: Seen;

  constructor(transport: Transport, name: string, created?: t.InitResult, seen = new Seen()) {
    this.#transport = transport;
    this.#name = name;
    this.created = created;
    this.#seen = seen;
  }

  /** The name of the cell. */
  get name(): string {
    return this.#name;
  }

  /** The files of the cell. */
  get files(): Files {
    return new Files(this.#transport, this.#path("/files"));
  }

  /** Stops the cell if it is live, and does not remove it. */
  async close(): Promise<void> {
    try {
      await this.stop();
    } catch (e) {
      if (!(e instanceof ForkcellError) || !["not_started", "not_found"].includes(e.code)) throw e;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Returns everything about the cell. */
  status(options: CallOptions = {}): Promise<t.StatusResult> {
    return this.#transport.send(get(this.#path(), options));
  }

  /** Returns the history of the cell, the oldest first. */
  log(options: CallOptions = {}): AsyncIterable<t.LogEntry> {
    return this.#transport.pages(this.#path("/log"), {}, options);
  }

  /** Returns the disk space of the cell. */
  disk(options: CallOptions = {}): Promise<t.DiskResult> {
    return this.#transport.send(get(this.#path("/disk"), options));
  }

  /** Changes the name and the settings of the cell. null takes a setting away; `labels` are all labels. */
  async update(request: t.Update, options: Omit<ChangeOptions, "idempotencyKey"> = {}): Promise<t.CellInfo> {
    const info = await this.#transport.send<t.CellInfo>(change("PATCH", this.#path(), snake(request), options));
    this.#name = info.name;
    return info;
  }

  /**
   * Removes the cell. One with work that is undecided or not applied takes `force`, which
   * also stops a live cell, and gives up unfinished work. `undelete` brings the cell back
   * for seven days, unless `now` is given. `applied` is a state that a directory of the
   * caller has: accepted work up to it is not lost.
   */
  async remove(
    options: Omit<ChangeOptions, "idempotencyKey"> & { force?: boolean; now?: boolean; applied?: string } = {},
  ): Promise<void> {
    const flag = (on?: boolean) => (on ? "true" : undefined);
    const path = withQuery(this.#path(), { force: flag(options.force), now: flag(options.now), applied: options.applied });
    await this.#transport.document(change("DELETE", path, undefined, options));
  }

  /** Brings back the cell, which was removed, as it was. */
  undelete(options: ChangeOptions = {}): Promise<t.CellInfo> {
    return this.#move("/undelete", {}, options);
  }

  /** Makes cells with the state of this one, its undecided work too. */
  async fork(request: t.Fork = {}, options: ChangeOptions = {}): Promise<Cell[]> {
    const made = await this.#move<t.ForkedCells>("/fork", request, options);
    return made.cells.map((fork) => new Cell(this.#transport, fork.cell, undefined, new Seen(made.pendingRuns)));
  }

  /**
   * Runs a command as a transaction, and returns its result when it has ended. The result
   * has the first MiB of each stream. A caller that goes away ends the run, unless it gave
   * an idempotencyKey.
   */
  async run(command: Command, request: t.Run & OutputOptions & ChangeOptions = {}): Promise<t.RunAnswer> {
    const answer = await this.#output<t.RunAnswer>("/runs", command, request);
    return this.#seen.ran({ ...answer, ok: answer.outcome === "succeeded" });
  }

  /** Begins a run that goes on without the caller. `runs.get` has its result when it has ended. */
  begin(command: Command, request: t.Run = {}, options: ChangeOptions = {}): Promise<t.RunStarted> {
    const call = post(this.#path("/runs"), { ...snake(request), command: argv(command) }, options);
    call.headers["Prefer"] = "respond-async";
    return this.#transport.send(call);
  }

  /**
   * Tries commands in forks of the cell, judges the results, and names the best. Text is
   * one command for `n` attempts; a list has a command for each attempt. With `warm` the
   * attempts are branches of the cell, and `{ code }` is what the warm interpreter of one
   * runs. A caller that goes away ends the race, unless it gave an idempotencyKey.
   */
  async race(commands: string | Code | readonly (Command | Code)[], request: t.RaceOptions & RaceCallbacks & ChangeOptions = {}): Promise<Race> {
    const { judge, onAttempt, onJudged, signal, idempotencyKey, ifMatch, ...options } = request;
    const here = options.apply === true && options.accept === true && (await this.#isSent(request));
    const body: Record<string, unknown> = { ...snake(options), ...(here && { apply: false }), cell: this.name };
    if (judge) body["judge"] = argv(judge);
    if (commands instanceof Array) body["attempts"] = commands.map(attempt);
    else Object.assign(body, attempt(commands as string | Code));
    const call = change("POST", "/v1/race", body, request);
    const result = await this.#race(call, request);
    if (here && result.winner) result.applied = await this.apply({}, signal ? { signal } : {});
    return new Race(this.#transport, result);
  }

  #race(call: Call, { onAttempt, onJudged }: RaceCallbacks): Promise<t.RaceResult> {
    if (!onAttempt && !onJudged) return this.#transport.send(call);
    return this.#transport.follow(call, ({ name, data }) => {
      const calls = name === "attempt" ? onAttempt : name === "judged" ? onJudged : undefined;
      calls?.(attemptOf(this.#transport, camel(parse(data)) as t.RaceAttempt));
      return name === "result" ? parse(data) : undefined;
    });
  }

  /**
   * Chooses the winner of a race that has ended. `attempt` is the cell of an attempt that
   * the race has kept. The cell that was raced moves to its state, unless it has moved
   * since the race began.
   */
  async choose(attempt: string, request: t.Choose = {}, options: ChangeOptions = {}): Promise<Race> {
    const here = request.apply === true && (await this.#isSent(options));
    const result = await this.#move<t.RaceResult>("/choose", { ...request, attempt, apply: request.apply === true && !here }, options);
    if (here) result.applied = await this.apply({}, options.signal ? { signal: options.signal } : {});
    return new Race(this.#transport, result);
  }

  /**
   * Compares two states; without any, those around all undecided work, which `accept` takes
   * then, else those of the last run. It sends nothing yet.
   */
  diff(states: t.States = {}): Diff {
    return new Diff(this.#transport, this.#path("/diff"), states, this.#seen);
  }

  /** Returns the runs of the cell, the oldest first. */
  runs(options: CallOptions = {}): AsyncIterable<t.RunInfo> {
    return this.#transport.pages(this.#path("/runs"), {}, options);
  }

  /** Returns a state, the present one by default, as a tar archive, in parts. */
  export(request: t.ExportState = {}, options: CallOptions = {}): AsyncIterable<Uint8Array> {
    const query = { checkpoint: request.checkpoint, changes: request.changes ? "true" : undefined };
    return this.#transport.parts(get(withQuery(this.#path("/export"), query), options), "application/x-tar");
  }

  /** Returns the states of the cell, the oldest first. */
  checkpoints(options: CallOptions = {}): AsyncIterable<t.CheckpointInfo> {
    return this.#transport.pages(this.#path("/checkpoints"), {}, options);
  }

  /** Names the present state. */
  checkpoint(request: t.Checkpoint = {}, options: ChangeOptions = {}): Promise<t.CheckpointResult> {
    return this.#move("/checkpoints", request, options);
  }

  /** Goes back to a state; without one, to the state before the last run. */
  restore(request: t.Restore = {}, options: ChangeOptions = {}): Promise<t.MoveResult> {
    return this.#goBack("/restore", request, options);
  }

  async #goBack(verb: string, request: object, options: ChangeOptions): Promise<t.MoveResult> {
    const result = await this.#move<t.MoveResult>(verb, request, options);
    this.#seen.left(result.runId);
    return result;
  }

  /**
   * Accepts undecided work: a `run`, or `runs`. Without them it accepts what this cell has
   * shown, by `diff` and as the results of runs, and nothing that came meanwhile: if other
   * work is part of that, it fails with the code `not_shown`. A cell that has shown nothing
   * accepts all undecided work; the result names it.
   */
  async accept(request: t.Accept = {}, options: ChangeOptions = {}): Promise<t.AcceptResult> {
    const here = request.apply === true && (await this.#isSent(options));
    const body = { ...this.#seen.bind(request, options.ifMatch), apply: request.apply === true && !here };
    const result = await this.#move<t.AcceptResult>("/accept", body, options);
    this.#seen.set();
    if (here) result.applied = await this.apply({}, options.signal ? { signal: options.signal } : {});
    return result;
  }

  /** Rejects a run, and goes back to the state before it. */
  reject(request: t.Reject = {}, options: ChangeOptions = {}): Promise<t.MoveResult> {
    return this.#goBack("/reject", request, options);
  }

  /** Writes accepted work to the source directory, or to another one. */
  apply(request: t.Apply = {}, options: ChangeOptions = {}): Promise<t.ApplyResult> {
    return this.#moveFiles("apply", true, request, options);
  }

  /** Takes the last apply back. */
  undo(request: t.Undo = {}, options: ChangeOptions = {}): Promise<t.ApplyResult> {
    return this.#moveFiles("undo", true, request, options);
  }

  /** Takes over what changed in the source directory. */
  refresh(request: t.Refresh = {}, options: ChangeOptions = {}): Promise<t.RefreshResult> {
    return this.#moveFiles("refresh", request.upload === undefined, request, options);
  }

  /** Recomputes the hashes of states. */
  verify(request: t.Verify = {}, options: ChangeOptions = {}): Promise<t.VerifyResult> {
    return this.#move("/verify", request, options);
  }

  /** Makes the cell live: it runs until it is stopped, and `exec` executes commands in it. */
  start(request: t.Start = {}, options: ChangeOptions = {}): Promise<t.StartResult> {
    return this.#move("/start", request, options);
  }

  /**
   * Makes the cell a template: a Python interpreter imports modules, runs a script of the
   * cell, and is warm. Then `branch` makes cells that begin with its memory.
   */
  warmPython(python: t.WarmPython = {}, request: t.Start = {}, options: ChangeOptions = {}): Promise<t.StartResult> {
    return this.start({ ...request, warm: { ...request.warm, python } }, options);
  }

  /** Makes live cells that begin with the memory and the files that a live cell has now, or a checkpoint with memory (`from`), all or none. */
  async branch(request: t.BranchRequest = {}, options: ChangeOptions & { idempotencyKey?: string } = {}): Promise<Branch> {
    const result = await this.#move<t.BranchResult>("/branch", request, options);
    return new Branch(result, result.children.map((child) => new Cell(this.#transport, child.cell, undefined, new Seen([result.checkpointId]))));
  }

  /**
   * Runs code in the warm interpreter of a live cell, and returns its value, its output and
   * what it raised. Names that the code defines stay. A caller that goes away leaves the code
   * running.
   */
  eval(code: string, options: CallOptions & { idempotencyKey?: string } = {}): Promise<t.EvalResult> {
    return this.#transport.send(change("POST", this.#path("/eval"), { code }, options));
  }

  /** Ends a live cell. The whole time that it was live is one run. */
  async stop(request: t.Stop = {}, options: ChangeOptions = {}): Promise<t.RunResult> {
    return this.#seen.ran(await this.#move<t.RunResult>("/stop", request, options));
  }

  /** Stops the processes of a live cell until `resume`. With `fs_only` they end, and its files are kept. */
  pause(request: t.Pause = {}, options: ChangeOptions = {}): Promise<t.PauseResult> {
    return this.#move("/pause", request, options);
  }

  /** Continues the processes of a paused cell. With `fs_only` it is started without them. */
  resume(request: t.Resume = {}, options: ChangeOptions = {}): Promise<t.PauseResult> {
    return this.#move("/resume", request, options);
  }

  /** Returns the processes of a live cell. */
  processes(options: CallOptions = {}): AsyncIterable<t.ProcessInfo> {
    return this.#transport.pages(this.#path("/processes"), {}, options);
  }

  /** Executes a command in a live cell, as `run` does in one that is not. */
  async exec(command: Command, request: t.Exec & OutputOptions & ChangeOptions = {}): Promise<t.ExecAnswer> {
    const answer = await this.#output<t.ExecAnswer>("/exec", command, request);
    return { ...answer, ok: answer.exitCode === 0 };
  }

  /**
   * Executes a command in a live cell with its input and output in a socket. Aborting the
   * signal closes the socket: the command goes on, unless it is `attached`, and `attach`
   * joins it.
   */
  openExec(command: Command, request: t.OpenExec & CallOptions = {}): Promise<ExecSocket> {
    const { env = {}, workdir, timeout, tty, cols, rows, attached, signal } = request;
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const query = { command: argv(command), env: variables, workdir, timeout, tty: tty ? "true" : undefined, attached: attached ? "true" : undefined };
    const size = { cols: cols?.toString(), rows: rows?.toString() };
    return ExecSocket.open(this.#transport, withQuery(this.#path("/exec"), { ...query, ...size }), signal);
  }

  /**
   * Joins a command that `openExec` began, by its id: the last 256 KiB of its output, and
   * what comes. Of the clients that share the keyboard the first one types, and one that
   * takes it becomes the first. Without `keyboard` the client always types.
   */
  attach(exec: string, request: { cols?: number; rows?: number; keyboard?: "share" | "take" } & CallOptions = {}): Promise<ExecSocket> {
    const size = { cols: request.cols?.toString(), rows: request.rows?.toString(), keyboard: request.keyboard };
    return ExecSocket.open(this.#transport, withQuery(this.#path(`/exec/${encodeURIComponent(exec)}`), size), request.signal);
  }

  /**
   * Sends a request to a listener on the loopback of a live cell, and returns its answer.
   * The path may have a query. The answer of the daemon itself, for example if nothing
   * listens there, has the type application/problem+json.
   */
  fetch(port: number, path = "/", init: RequestInit = {}): Promise<Response> {
    return this.#transport.fetch(this.#path(`/ports/${port}/${path.replace(/^\//, "")}`), init);
  }

  /** Returns the policy of the cell. */
  policy(options: CallOptions = {}): Promise<t.PolicyResult> {
    return this.#transport.send(get(this.#path("/policy"), options));
  }

  /** Gives the cell another policy: YAML, or the name of a preset. */
  setPolicy(policy: string, options: Omit<ChangeOptions, "idempotencyKey"> = {}): Promise<t.PolicyApplied> {
    return this.#transport.send(change("PUT", this.#path("/policy"), { policy }, options));
  }

  #path(below = ""): string {
    return `/v1/cells/${encodeURIComponent(this.#name)}${below}`;
  }

  #move<T>(below: string, request: object | undefined, options: ChangeOptions): Promise<T> {
    return this.#transport.send(post(this.#path(below), request && snake(request), options));
  }

  /** Reports whether the cell's files were sent to a daemon elsewhere, so that the program here writes them. */
  async #isSent({ signal }: CallOptions): Promise<boolean> {
    if (this.#transport.address.socket !== undefined) return false;
    const status = await this.status(signal ? { signal } : {});
    if (!status.source.startsWith("upload:")) return false;
    await needBinary(await this.#transport.binary());
    return true;
  }

  /** Carries out a verb that may use files: by the program of this machine if the cell's files were sent to a daemon elsewhere. */
  async #moveFiles<T>(verb: string, files: boolean, request: object, options: ChangeOptions): Promise<T> {
    if (files && (await this.#isSent(options))) {
      if (options.ifMatch !== undefined) {
        throw new ForkcellError("usage", { message: `ifMatch is not possible where files are sent to ${this.#transport.address.name}` });
      }
      return moveBy(await this.#transport.binary(), verb, this.#name, snake(request), options.signal);
    }
    return this.#move(`/${verb}`, request, options);
  }

  #output<T>(below: string, command: Command, request: OutputOptions & ChangeOptions): Promise<T> {
    const { onStdout, onStderr, onStarted, signal, idempotencyKey, ifMatch, ...body } = request;
    const call: Call = change("POST", this.#path(below), { ...snake(body), command: argv(command) }, request);
    if (!onStdout && !onStderr && !onStarted) return this.#transport.send(call);
    const recorder = new Recorder(request);
    return this.#transport.follow(call, (event) => recorder.take(event));
  }
}
