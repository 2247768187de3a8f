// One request, without sending it.

const maxAttempts = 5;
const firstWait = 50; // milliseconds
// The longest time that the daemon may ask a call to wait before it is sent again.
const longestWait = 30_000;

/** A request. `repeatable` says that it can be sent again. */
export interface Call {
  method: string;
  path: string;
  body?: Record<string, unknown>;
  /** A body that is not JSON. */
  content?: { type: string; data: Content };
  headers: Record<string, string>;
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

/** Text, bytes, or parts of bytes. */
export type Content = string | Uint8Array | AsyncIterable<Uint8Array>;

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, and a run or exec that it began. */
  signal?: AbortSignal;
}

/** What a change of a cell takes. */
export interface ChangeOptions extends CallOptions {
  /** The daemon does a request with this key once, however often it is sent. */
  idempotencyKey?: string;
  /** The change fails with the code "changed" unless the cell has this revision. */
  ifMatch?: number;
}

/** Returns a call that reads. */
export function get(path: string, options: CallOptions = {}): Call {
  return { method: "GET", path, headers: {}, repeatable: true, signal: options.signal };
}

/** Returns a POST that is done once, also if it has to be sent again. */
export function post(path: string, body: Record<string, unknown> | undefined, options: ChangeOptions = {}): Call {
  const key = options.idempotencyKey ?? crypto.randomUUID();
  return change("POST", path, body, { ...options, idempotencyKey: key });
}

/** Returns a change. Without a key its work ends with its caller, and it is not sent again. */
export function change(method: string, path: string, body: Record<string, unknown> | undefined, options: ChangeOptions): Call {
  const headers: Record<string, string> = {};
  if (options.idempotencyKey) headers["Idempotency-Key"] = options.idempotencyKey;
  if (options.ifMatch !== undefined) headers["If-Match"] = `"${options.ifMatch}"`;
  const call: Call = { method, path, headers, repeatable: options.idempotencyKey !== undefined, signal: options.signal };
  if (body) call.body = body;
  return call;
}

/** Returns the arguments of a command. Text is a line for the shell. */
export function argv(command: string | readonly string[]): string[] {
  return typeof command === "string" ? ["sh", "-c", command] : [...command];
}

/** Parameters of a request. A list is one parameter for each item. */
export type Query = Record<string, string | readonly string[] | undefined>;

/** Returns a path with a query of what is defined. */
export function withQuery(path: string, query: Query): string {
  const found = Object.entries(query).flatMap(([key, value]) => [value ?? []].flat().map((v) => [key, v]));
  return found.length ? `${path}?${new URLSearchParams(found)}` : path;
}

/**
 * Returns the milliseconds to wait before a call is sent again, or undefined if it must
 * not be. `status` is undefined if no answer came.
 */
export function retryWait(status: number | undefined, retryAfter: string | null, attempt: number): number | undefined {
  if (attempt >= maxAttempts || (status !== undefined && status !== 429 && status !== 503)) return undefined;
  const wait = firstWait * 2 ** (attempt - 1) * (1 + Math.random());
  if (retryAfter !== null && /^\d+$/.test(retryAfter)) {
    const asked = Number(retryAfter) * 1000;
    return asked <= longestWait ? Math.max(asked, wait) : undefined;
  }
  return status === 429 ? undefined : wait;
}
