// Runs, receipts, decisions, policies and tokens of a daemon.
import { change, get, post, withQuery, type CallOptions } from "./call.js";
import { snake } from "./names.js";
import type { Transport } from "./transport.js";
import type * as t from "./types.js";

/** Finds runs of all cells. */
export class Runs {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the runs, the oldest first. */
  list(options: CallOptions = {}): AsyncIterable<t.RunInfo> {
    return this.#transport.pages("/v1/runs", {}, options);
  }

  /** Returns a run, which may be running. */
  get(run: string, options: CallOptions = {}): Promise<t.RunInfo> {
    return this.#transport.send(get(`/v1/runs/${encodeURIComponent(run)}`, options));
  }

  /** Ends a run. It is decided as its flags say. */
  cancel(run: string, options: CallOptions = {}): Promise<t.RunInfo> {
    return this.#transport.send(post(`/v1/runs/${encodeURIComponent(run)}/cancel`, undefined, options));
  }

  /** Returns what a run wrote, in parts. `follow` goes on until the run has ended. */
  output(run: string, options: CallOptions & { stream?: "stdout" | "stderr"; follow?: boolean } = {}): AsyncIterable<Uint8Array> {
    const query = { stream: options.stream, follow: options.follow ? "true" : undefined };
    const call = get(withQuery(`/v1/runs/${encodeURIComponent(run)}/logs`, query), options);
    return this.#transport.parts(call, "application/octet-stream");
  }
}

/** Makes and revokes tokens. */
export class Tokens {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Makes a token. The result is the only document that has its secret. */
  create(request: t.CreateToken, options: CallOptions = {}): Promise<t.TokenCreated> {
    return this.#transport.send(post("/v1/tokens", snake(request), options));
  }

  /** Returns the tokens, the oldest first. */
  list(options: CallOptions = {}): AsyncIterable<t.TokenInfo> {
    return this.#transport.pages("/v1/tokens", {}, options);
  }

  /** Revokes a token, by its name or id. It takes effect at once. */
  async revoke(token: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.document(change("DELETE", `/v1/tokens/${encodeURIComponent(token)}`, undefined, options));
  }
}

/** Shows and verifies what was signed. */
export class Receipts {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the receipts of a cell or of all cells, the oldest first. */
  list(cell?: string, options: CallOptions = {}): AsyncIterable<t.ReceiptInfo> {
    return this.#transport.pages("/v1/receipts", { cell }, options);
  }

  /** Returns the statement of a receipt with its present decision, as it is signed. */
  get(receipt: string, options: CallOptions = {}): Promise<unknown> {
    return this.#transport.document(get(`/v1/receipts/${encodeURIComponent(receipt)}`, options));
  }

  /** Returns a bundle that can be verified elsewhere. */
  bundle(receipt: string, options: CallOptions = {}): Promise<unknown> {
    return this.#transport.document(get(`/v1/receipts/${encodeURIComponent(receipt)}/bundle`, options));
  }

  /** Checks signatures, chains and bound hashes. What does not hold is in the result. */
  verify(request: t.VerifyReceipts, options: CallOptions = {}): Promise<t.ReceiptVerifyResult> {
    return this.#transport.send(post("/v1/receipts/verify", snake(request), options));
  }
}

/** Shows what was decided. */
export class Decisions {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the decisions about a cell and a run, the oldest first. */
  list(filter: { cell?: string; run?: string } = {}, options: CallOptions = {}): AsyncIterable<t.DecisionInfo> {
    return this.#transport.pages("/v1/decisions", filter, options);
  }
}

/** Checks and explains policies. A policy is YAML, or the name of a preset. */
export class Policies {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the policies that come with the daemon. */
  presets(options: CallOptions = {}): AsyncIterable<t.Preset> {
    return this.#transport.pages("/v1/policies", {}, options);
  }

  /** Checks a policy, and returns its canonical form. */
  validate(policy: string, options: CallOptions = {}): Promise<t.PolicyResult> {
    return this.#transport.send(post("/v1/policies/validate", { policy }, options));
  }

  /** Says what a policy decides about a path, a host or a system call. */
  explain(request: t.Explain, options: CallOptions = {}): Promise<t.Explanation> {
    return this.#transport.send(post("/v1/policies/explain", snake(request), options));
  }

  /** Returns a policy that allows what a run was denied, for a person to review. */
  suggest(request: t.Suggest, options: CallOptions = {}): Promise<t.PolicySuggestion> {
    return this.#transport.send(post("/v1/policies/suggest", snake(request), options));
  }
}
