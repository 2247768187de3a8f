// Streams of server-sent events, and the output of commands in them.
import { ForkcellError } from "./errors.js";
import { checked, objectOf } from "./names.js";

const maxEvent = 64 << 20;
const lineCost = 256; // what a line takes besides its text
const maxLine = 64 << 10;
const maxOutput = 1 << 20;

/** One event of a stream. */
export interface StreamEvent {
  name: string;
  id: string;
  data: string;
}

/** Finds the lines in the bytes of a stream, without their ends. */
export class LineSplitter {
  #parts: string[] = []; // of a line that has not ended
  #decoder = new TextDecoder();
  size = 0;

  /** Adds bytes, and returns the lines that are complete with them. */
  *feed(data: Uint8Array): Generator<string> {
    const [first = "", ...lines] = this.#decoder.decode(data, { stream: true }).split("\n");
    this.#parts.push(first);
    this.size += first.length;
    for (const line of lines) {
      yield this.rest();
      this.#parts = [line];
      this.size = line.length;
    }
    if (this.size > maxEvent) throw new ForkcellError("protocol", { message: `a line of more than ${maxEvent} bytes` });
  }

  /** Returns the line that has not ended, or nothing, and forgets it. */
  rest(): string {
    const line = this.#parts.join("");
    this.#parts = [];
    this.size = 0;
    return line;
  }
}

/** Finds the events in the bytes of a stream. An event that is cut off is dropped. */
export class EventParser {
  #lines = new LineSplitter();
  #fields: [string, string][] = [];
  #size = 0;

  /** Adds bytes, and returns the events that are complete with them. */
  *feed(data: Uint8Array): Generator<StreamEvent> {
    for (const line of this.#lines.feed(data)) {
      this.#size += line.length + lineCost;
      const event = this.#line(line.replace(/\r$/, ""));
      if (event) yield event;
      this.#bound(0);
    }
    this.#bound(this.#lines.size);
  }

  #bound(more: number): void {
    if (this.#size + more > maxEvent) throw new ForkcellError("protocol", { message: `an event of more than ${maxEvent} bytes` });
  }

  #line(line: string): StreamEvent | undefined {
    if (line !== "") {
      const [, key = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (key === "event" || key === "id" || key === "data") this.#fields.push([key, value]);
      return undefined;
    }
    const fields = this.#fields;
    this.#fields = [];
    this.#size = 0;
    if (fields.length === 0) return undefined;
    const last = new Map(fields);
    const data = fields.filter(([key]) => key === "data").map(([, value]) => value);
    return { name: last.get("event") ?? "", id: last.get("id") ?? "", data: data.join("\n") };
  }
}

/** Calls a function with each line of a stream of bytes, without its end. */
export class Lines {
  #rest = "";
  #decoder = new TextDecoder();
  readonly #take: ((line: string) => void) | undefined;

  constructor(take?: (line: string) => void) {
    this.#take = take;
  }

  feed(data: Uint8Array, final = false): void {
    if (!this.#take) return;
    const lines = (this.#rest + this.#decoder.decode(data, { stream: !final })).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#take(line.replace(/\r$/, ""));
    if (this.#rest !== "" && (final || this.#rest.length > maxLine)) {
      const rest = this.#rest;
      this.#rest = "";
      this.#take(rest);
    }
  }
}

/** Passes one stream on, and keeps its beginning as an answer without a stream has it. */
class Part {
  readonly lines: Lines;
  cut = false;
  #kept = new Uint8Array(0);
  #size = 0;

  constructor(take?: (line: string) => void) {
    this.lines = new Lines(take);
  }

  feed(data: Uint8Array): void {
    const room = maxOutput - this.#size;
    this.cut ||= data.length > room;
    this.#keep(data.subarray(0, room)); // a view, which must not hold the rest
    this.lines.feed(data);
  }

  #keep(data: Uint8Array): void {
    const size = this.#size + data.length;
    if (size > this.#kept.length) {
      const more = new Uint8Array(Math.min(maxOutput, 2 * size));
      more.set(this.#kept);
      this.#kept = more;
    }
    this.#kept.set(data, this.#size);
    this.#size = size;
  }

  document(name: string): Record<string, string> {
    const bytes = this.#kept.subarray(0, this.#size);
    try {
      // Not the end of a text if it was cut: the cut may be in the middle of a character.
      return { [name]: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: this.cut }) };
    } catch {
      return { [name]: "", [`${name}_base64`]: btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")) };
    }
  }
}

/** What Run and Exec call while a command runs. */
export interface OutputOptions {
  /** Called with each line of the standard output. */
  onStdout?: (line: string) => void;
  /** Called with each line of the standard error. */
  onStderr?: (line: string) => void;
  /** Called with the id of the run or exec once it has begun. */
  onStarted?: (id: string) => void;
}

/** Returns the bytes of a part of an output. */
function bytesOf(data: unknown): Uint8Array {
  try {
    return Uint8Array.from(atob(String(data)), (c) => c.charCodeAt(0));
  } catch (cause) {
    throw new ForkcellError("protocol", { message: "the output is not base64", cause });
  }
}

/** Handles the events of a command. */
export class Recorder {
  readonly #stdout: Part;
  readonly #stderr: Part;
  readonly #onStarted: ((id: string) => void) | undefined;

  constructor(options: OutputOptions) {
    this.#stdout = new Part(options.onStdout);
    this.#stderr = new Part(options.onStderr);
    this.#onStarted = options.onStarted;
  }

  /** Handles an event, and returns the result document if it is the last one. */
  take(event: StreamEvent): Record<string, unknown> | undefined {
    // Events that it does not know belong to later versions.
    if (!["stdout", "stderr", "started", "result"].includes(event.name)) return undefined;
    const document = objectOf(event.data, `the event ${event.name}`);
    if (event.name === "result") return this.#result(document);
    if (event.name === "started") {
      const id = "run_id" in document ? checked("run_id", document["run_id"]) : checked("exec_id", document["exec_id"]);
      this.#onStarted?.(String(id));
    } else {
      const part = event.name === "stdout" ? this.#stdout : this.#stderr;
      part.feed(bytesOf(document["data"]));
    }
    return undefined;
  }

  #result(document: Record<string, unknown>): Record<string, unknown> {
    for (const part of [this.#stdout, this.#stderr]) part.lines.feed(new Uint8Array(), true);
    const truncated = this.#stdout.cut || this.#stderr.cut;
    return { ...document, truncated, ...this.#stdout.document("stdout"), ...this.#stderr.document("stderr") };
  }
}
