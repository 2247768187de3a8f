// Sends calls to a daemon.
import type { Binary } from "./binary.js";
import { get, retryWait, withQuery, type Call, type CallOptions, type Query } from "./call.js";
import { parseAddress, readToken, type Address, type ClientOptions } from "./config.js";
import { ForkcellError } from "./errors.js";
import { camel, parse } from "./names.js";
import { EventParser, LineSplitter, type StreamEvent } from "./stream.js";
import { openWire, type Wire, type WireEvents } from "./wire.js";

const pageSize = "500";
export const maxDocument = 256 << 20;
const maxProblem = 1 << 20;

type Send = (url: string, init: RequestInit) => Promise<Response>;

/** The connection to a daemon. */
export class Transport {
  readonly address: Address;
  readonly #options: ClientOptions;
  #token: Promise<string | undefined> | undefined;
  #send: Promise<Send> | undefined;
  #close: () => Promise<void> = async () => {};
  #closed = false;

  constructor(options: ClientOptions) {
    this.address = parseAddress(options.url);
    this.#options = options;
  }

  close(): Promise<void> {
    this.#closed = true;
    return this.#close();
  }

  /** The program that handles files of this machine for a daemon elsewhere. */
  async binary(): Promise<Binary> {
    this.#token ??= readToken(this.#options);
    return { path: this.#options.binary ?? "forkcell", address: this.address, token: await this.#token };
  }

  /** Sends a call, and returns the document of its answer with names in camelCase. */
  async send<T>(call: Call): Promise<T> {
    return camel(await this.document(call)) as T;
  }

  /** Sends a call, and returns the JSON of its answer, or undefined. */
  async document(call: Call): Promise<unknown> {
    const text = await this.text(call);
    return text === "" ? undefined : parse(text);
  }

  /** Sends a call, and returns its answer as text. */
  async text(call: Call): Promise<string> {
    const response = await this.#answer(call);
    try {
      return await textOf(response, maxDocument);
    } catch (cause) {
      throw failure(call, cause, "the answer was cut");
    }
  }

  /** Sends a call, and returns its answer in parts as they come. */
  async *parts(call: Call, accept: string): AsyncGenerator<Uint8Array> {
    const response = await this.#answer({ ...call, headers: { Accept: accept, ...call.headers } });
    const reader = response.body?.getReader();
    try {
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) yield part.value;
    } catch (cause) {
      throw failure(call, cause, "the answer was cut");
    } finally {
      await reader?.cancel().catch(() => {}); // it may have ended
    }
  }

  /** Sends a call, and returns the lines of its answer as they come. */
  async *lines(call: Call, accept: string): AsyncGenerator<string> {
    const splitter = new LineSplitter();
    for await (const part of this.parts(call, accept)) yield* splitter.feed(part);
    const rest = splitter.rest();
    if (rest !== "") yield rest;
  }

  /** Sends a call whose answer is a stream, and returns what `take` returns for the result at its end. */
  async follow<T>(call: Call, take: (event: StreamEvent) => unknown): Promise<T> {
    for await (const event of this.events(call)) {
      const result = take(event);
      if (result) return camel(result) as T;
    }
    const hint = "what the call began was ended with it";
    throw new ForkcellError("lost", { message: "the stream ended before the result", hint });
  }

  /** Sends a call whose answer is a stream of events. */
  async *events(call: Call): AsyncGenerator<StreamEvent> {
    const parser = new EventParser();
    for await (const part of this.parts(call, "text/event-stream")) {
      for (const event of parser.feed(part)) {
        if (event.name === "problem") {
          const problem = parse(event.data) as { status?: number } | null;
          throw ForkcellError.fromProblem(problem?.status ?? 0, problem);
        }
        yield event;
      }
    }
  }

  /** Sends a request once, and returns its answer as it is. */
  async fetch(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    const [token, send] = await this.#ready();
    if (token) headers.set("Authorization", `Bearer ${token}`);
    // Node's fetch takes its own Headers only.
    try {
      return await send(this.address.base + path, { ...init, headers: Object.fromEntries(headers), redirect: "manual" });
    } catch (cause) {
      if (init.signal?.aborted) throw init.signal.reason;
      throw failure(get(path), cause, `the daemon at ${this.address.name}`, this.#hint());
    }
  }

  /** Opens a WebSocket. */
  async wire(path: string, protocol: string, events: WireEvents): Promise<Wire> {
    const [token] = await this.#ready();
    const { base, socket } = this.address;
    return openWire({ base, socket, path, protocol, token }, events);
  }

  /** Returns the items of a list, page by page as they are used. */
  async *pages<T>(path: string, query: Query = {}, options: CallOptions = {}): AsyncGenerator<T> {
    for (let cursor: string | undefined; ; ) {
      const call = get(withQuery(path, { ...query, limit: pageSize, cursor }), options);
      const page = await this.send<{ items: T[]; next: string | null }>(call);
      if (!Array.isArray(page?.items)) throw new ForkcellError("protocol", { message: "the answer is no list" });
      yield* page.items;
      if (page.next === null) return;
      if (page.items.length === 0 || typeof page.next !== "string" || page.next === cursor) {
        throw new ForkcellError("protocol", { message: "a list without an end" });
      }
      cursor = page.next;
    }
  }

  /** Sends a call, again where that is allowed, and returns an answer that reports success. */
  async #answer(call: Call): Promise<Response> {
    if (this.#closed) throw new ForkcellError("connection", { message: "the client was closed by close()" });
    for (let attempt = 1; ; attempt++) {
      call.signal?.throwIfAborted();
      let response: Response | undefined;
      let cause: unknown;
      try {
        response = await this.#once(call);
      } catch (e) {
        cause = e;
      }
      const wait = retryWait(response?.status, response?.headers.get("Retry-After") ?? null, attempt);
      if (wait !== undefined && call.repeatable && !call.signal?.aborted) {
        await response?.body?.cancel();
        await pause(wait, call.signal);
        continue;
      }
      if (!response) throw failure(call, cause, `the daemon at ${this.address.name}`, this.#hint());
      if (response.ok) return response;
      throw ForkcellError.fromAnswer(response.status, await textOf(response, maxProblem));
    }
  }

  #hint(): string {
    return this.address.socket ? "is it running? `forkcell serve` starts it" : "";
  }

  /** Returns the token and what sends requests. */
  #ready(): Promise<[string | undefined, Send]> {
    this.#token ??= readToken(this.#options);
    this.#send ??= this.#connect();
    return Promise.all([this.#token, this.#send]);
  }

  async #once(call: Call): Promise<Response> {
    const [token, send] = await this.#ready();
    const headers: Record<string, string> = { Accept: "application/json", ...call.headers };
    if (token) headers["Authorization"] = `Bearer ${token}`;
    if (call.body) headers["Content-Type"] = "application/json";
    // A redirection would carry the token to another place.
    const init: RequestInit = { method: call.method, headers, redirect: "manual", signal: call.signal ?? null };
    if (call.body) init.body = JSON.stringify(call.body);
    if (call.content) {
      headers["Content-Type"] = call.content.type;
      init.body = call.content.data as BodyInit; // fetch of Node takes parts too
      (init as { duplex?: string }).duplex = "half";
    }
    return send(this.address.base + call.path, init);
  }

  /** Returns what sends requests: in Node a fetch that reaches sockets and has no time limit. */
  async #connect(): Promise<Send> {
    if (!globalThis.process?.versions?.node) return (url, init) => fetch(url, init);
    const undici = await import("undici");
    const connect = this.address.socket ? { socketPath: this.address.socket } : {};
    const agent = new undici.Agent({ connect, headersTimeout: 0, bodyTimeout: 0 });
    this.#close = () => agent.close();
    return async (url, init) => {
      const response = await undici.fetch(url, { ...(init as import("undici").RequestInit), dispatcher: agent });
      return response as unknown as Response;
    };
  }
}

/** Returns the text of an answer, which is not longer than the limit. */
async function textOf(response: Response, limit: number): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  const texts: string[] = [];
  let size = 0;
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    size += part.value.length;
    if (size > limit) {
      await reader?.cancel().catch(() => {});
      throw new ForkcellError("protocol", { message: `an answer of more than ${limit} bytes` });
    }
    texts.push(decoder.decode(part.value, { stream: true }));
  }
  return texts.join("") + decoder.decode();
}

/** Returns the error of a call without an answer. That of a caller who aborts is the reason of the signal. */
function failure(call: Call, cause: unknown, what: string, hint = ""): unknown {
  if (call.signal?.aborted) return call.signal.reason;
  if (cause instanceof ForkcellError) return cause;
  // fetch says why in the cause of its error.
  const reason = ((cause as Error)?.cause as Error)?.message ?? (cause as Error)?.message;
  return new ForkcellError("connection", { message: `${what}: ${reason}`, hint, cause });
}

export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
