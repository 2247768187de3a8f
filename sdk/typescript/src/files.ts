import { change, get, post, withQuery, type CallOptions, type Content } from "./call.js";
import { ForkcellError } from "./errors.js";
import { camel, parse } from "./names.js";
import { maxDocument, type Transport } from "./transport.js";
import type { FileEvent, FileInfo } from "./types.js";

/**
 * Reads and changes the files of a cell. A path is relative to the workspace, or absolute
 * in the cell. Files of an idle cell can be read; a change needs a live one.
 */
export class Files {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, path: string) {
    this.#transport = transport;
    this.#path = path;
  }

  /** Returns the content of a file of at most 256 MiB; `stream` returns a longer one in parts. */
  async read(path: string, options: CallOptions = {}): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of this.stream(path, options)) {
      parts.push(part);
      if ((size += part.length) > maxDocument) {
        throw new ForkcellError("protocol", { message: `a file of more than ${maxDocument} bytes`, hint: "stream returns it in parts" });
      }
    }
    return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  }

  /** Returns the content of a file from an offset on, in parts. */
  stream(path: string, options: CallOptions & { offset?: number } = {}): AsyncIterable<Uint8Array> {
    const call = get(withQuery(this.#path, { path }), options);
    if (options.offset) call.headers["Range"] = `bytes=${options.offset}-`;
    return this.#transport.parts(call, "application/octet-stream");
  }

  /** Returns a directory with everything in it as a tar archive, in parts. */
  archive(path = "", options: CallOptions = {}): AsyncIterable<Uint8Array> {
    return this.#transport.parts(get(withQuery(this.#path, { path }), options), "application/x-tar");
  }

  /**
   * Replaces a file, and makes the directories above it. `mode` is its permission bits;
   * without it they stay, and those of a new file are 0o644.
   */
  write(path: string, content: Content, options: CallOptions & { mode?: number } = {}): Promise<FileInfo> {
    const mode = options.mode?.toString(8).padStart(4, "0");
    const call = change("PUT", withQuery(this.#path, { path, mode }), undefined, options);
    return this.#transport.send({ ...call, content: { type: "application/octet-stream", data: content } });
  }

  /** Returns the entries of a directory and of so many levels below it. */
  async list(path = "", options: CallOptions & { depth?: number } = {}): Promise<FileInfo[]> {
    const call = post(`${this.#path}/list`, { path, depth: options.depth ?? 1 }, options);
    return (await this.#transport.send<{ entries: FileInfo[] }>(call)).entries;
  }

  /** Describes a file. */
  stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#transport.send(post(`${this.#path}/stat`, { path }, options));
  }

  /** Makes a directory, and those above it. */
  mkdir(path: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#transport.send(post(`${this.#path}/mkdir`, { path }, options));
  }

  /** Gives a file another path. A file there is replaced. */
  move(from: string, to: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#transport.send(post(`${this.#path}/move`, { from, to }, options));
  }

  /** Removes a file or an empty directory; with `recursive`, also one that is not empty. */
  async remove(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const recursive = options.recursive ? "true" : undefined;
    await this.#transport.document(change("DELETE", withQuery(this.#path, { path, recursive }), undefined, options));
  }

  /**
   * Returns the changes in a directory of a live cell as they happen. The first event,
   * started, says that the watch has begun. A lost connection is an error, because changes
   * in the meantime cannot be told.
   */
  async *watch(path = "", options: CallOptions & { recursive?: boolean } = {}): AsyncGenerator<FileEvent> {
    const call = change("POST", `${this.#path}/watch`, { path, recursive: options.recursive ?? false }, options);
    for await (const event of this.#transport.events(call)) yield camel(parse(event.data)) as FileEvent;
  }
}
