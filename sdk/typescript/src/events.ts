import { get, retryWait, withQuery, type CallOptions } from "./call.js";
import { ForkcellError } from "./errors.js";
import { objectOf } from "./names.js";
import { pause, type Transport } from "./transport.js";

/** Which events are meant; without a field, all. */
export interface EventFilter {
  cell?: string;
  run?: string;
  /** The number or the name of a class, such as detection_finding. */
  class?: string;
  action?: "allowed" | "denied";
  /** A time, or a duration such as 2h. */
  since?: string;
}

/** An event as it happens, and the position after it. */
export interface FollowedEvent {
  id: string;
  event: Record<string, unknown>;
}

/** Shows what happened in cells, as OCSF objects. */
export class Events {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the events so far. */
  async *list(filter: EventFilter = {}, options: CallOptions = {}): AsyncGenerator<Record<string, unknown>> {
    const call = get(withQuery("/v1/events", { ...filter }), options);
    for await (const line of this.#transport.lines(call, "application/jsonl")) {
      const event = objectOf(line, "the line");
      // A journal could not be read to its end.
      if ("code" in event && "instance" in event) throw ForkcellError.fromProblem(Number(event["status"]), event);
      yield event;
    }
  }

  /**
   * Returns events as they happen, after the event with the id `after`, or from now on. A
   * lost connection is made again, and no event is missed or comes twice.
   */
  async *follow(filter: EventFilter = {}, options: CallOptions & { after?: string } = {}): AsyncGenerator<FollowedEvent> {
    const call = get(withQuery("/v1/events", { ...filter, follow: "true" }), options);
    let after = options.after ?? "";
    for (let failures = 0; ; ) {
      if (after) call.headers["Last-Event-ID"] = after;
      try {
        for await (const { name, id, data } of this.#transport.events(call)) {
          failures = 0;
          after = id || after;
          if (name === "event") yield { id, event: objectOf(data, "the event") };
        }
      } catch (e) {
        if (!(e instanceof ForkcellError) || e.code !== "connection") throw e;
      }
      const wait = retryWait(undefined, null, ++failures);
      if (wait === undefined) throw new ForkcellError("connection", { message: "the stream of events was cut" });
      await pause(wait, options.signal);
    }
  }
}
