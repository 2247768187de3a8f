import { ForkcellError, isCode } from "./errors.js";
import { checked, parse } from "./names.js";
import { Lines } from "./stream.js";
import type { Transport } from "./transport.js";
import type { Wire } from "./wire.js";

const protocol = "forkcell.exec.v1";
const inputPart = 64 << 10;
// How many messages wait for the reader, and how many bytes.
const maxWaiting = 64;
const maxBytes = 4 << 20;

/** A part of the output of a command. */
export interface Output {
  stream: "stdout" | "stderr";
  data: Uint8Array;
}

/** How a command ended. */
export interface ExecExit {
  exitCode: number;
  /** The name of the signal that ended it, such as KILL, or "". */
  signal: string;
}

type Message = { type: string; exec_id?: string; exit_code?: number; signal?: string };

/**
 * A connection to a command in a live cell. Iterating gives the output as it comes.
 * Closing it leaves the command running, and `cell.attach(socket.id)` joins it.
 */
export class ExecSocket implements AsyncIterable<Output> {
  /** The id of the command. */
  id = "";
  /** How the command ended, when it has. */
  exit: ExecExit | undefined;
  #wire: Wire | undefined;
  #waiting: (Message | Output)[] = [];
  #bytes = 0; // that wait
  #end: unknown;
  #wake: () => void = () => {};

  private constructor() {}

  /** Opens the socket of a command. */
  static async open(transport: Transport, path: string, signal?: AbortSignal): Promise<ExecSocket> {
    signal?.throwIfAborted();
    const socket = new ExecSocket();
    socket.#wire = await transport.wire(path, protocol, {
      message: (data) => socket.#take(data),
      closed: (code, reason) => socket.#close(closed(socket.id, code, reason)),
    });
    const abort = () => {
      socket.#close(signal?.reason);
      socket.close();
    };
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    const first = await socket.#next();
    if (!("type" in first) || first.type !== "started") {
      socket.close();
      throw new ForkcellError("protocol", { message: "the socket did not begin with the id of the command" });
    }
    socket.id = checked("exec_id", first.exec_id ?? "");
    return socket;
  }

  /** Sends input to the command. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += inputPart) {
      const part = bytes.subarray(at, at + inputPart);
      const message = new Uint8Array(part.length + 1); // the first byte is the channel: 0
      message.set(part, 1);
      await this.#wire?.send(message);
    }
  }

  /** Tells the command that there is no more input. */
  closeInput(): Promise<void> {
    return this.#tell({ type: "stdin_closed" });
  }

  /** Gives the terminal of the command another size. */
  resize(cols: number, rows: number): Promise<void> {
    return this.#tell({ type: "resize", cols, rows });
  }

  /** Sends the command a signal by its name, such as INT. */
  signal(name: string): Promise<void> {
    return this.#tell({ type: "signal", name });
  }

  /** Returns how the command ended, when it has. The functions are called with each line. */
  async wait(options: { onStdout?: (line: string) => void; onStderr?: (line: string) => void } = {}): Promise<ExecExit> {
    const lines = { stdout: new Lines(options.onStdout), stderr: new Lines(options.onStderr) };
    for await (const { stream, data } of this) lines[stream].feed(data);
    for (const stream of Object.values(lines)) stream.feed(new Uint8Array(), true);
    return this.exit as ExecExit; // the loop ends with it, or with an error
  }

  /** Closes the connection. A command that has not ended goes on. */
  close(): void {
    this.#wire?.hold(false); // to hear the end
    this.#wire?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Output> {
    while (!this.exit) {
      const message = await this.#next();
      if (!("type" in message)) {
        yield message;
      } else if (message.type === "exit") {
        this.exit = { exitCode: message.exit_code ?? 0, signal: message.signal ?? "" };
        this.close();
      }
    }
  }

  async #tell(message: object): Promise<void> {
    await this.#wire?.send(JSON.stringify(message));
  }

  #take(data: string | Uint8Array): void {
    this.#bytes += data.length;
    try {
      this.#waiting.push(typeof data === "string" ? messageOf(data) : { stream: data[0] === 2 ? "stderr" : "stdout", data: data.subarray(1) });
    } catch (cause) {
      this.#close(cause); // nobody catches what is thrown here
      this.close();
    }
    if (this.#waiting.length >= maxWaiting || this.#bytes >= maxBytes) this.#wire?.hold(true);
    this.#wake();
  }

  #close(reason: unknown): void {
    this.#end ??= reason;
    this.#wake();
  }

  async #next(): Promise<Message | Output> {
    for (;;) {
      const message = this.#waiting.shift();
      if (message) {
        if (this.#waiting.length === 0) {
          this.#bytes = 0;
          this.#wire?.hold(false);
        }
        return message;
      }
      if (this.#end !== undefined) throw this.#end;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

/** Returns the message that a text is. */
function messageOf(text: string): Message {
  const message = parse(text) as Message | null;
  if (typeof message?.type !== "string") throw new ForkcellError("protocol", { message: "the socket sent no message" });
  return message;
}

/** Returns the error of a socket that was closed before the command ended. */
function closed(id: string, code: number, reason: string): ForkcellError {
  if (code === 1011 && isCode(reason)) return new ForkcellError(reason, { message: "the command could not be followed to its end" });
  return new ForkcellError("lost", { message: "the socket was closed before the command ended", hint: `join it by attach("${id}")` });
}
