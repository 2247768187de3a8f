// WebSockets: those of the package ws in Node, else those of the platform.
import { ForkcellError } from "./errors.js";

/** A WebSocket, and what it tells. */
export interface Wire {
  send(data: string | Uint8Array): Promise<void>;
  /** Stops and continues the messages. */
  hold(hold: boolean): void;
  close(): void;
}

export interface WireEvents {
  message(data: string | Uint8Array): void;
  closed(code: number, reason: string): void;
}

/** Where a WebSocket leads. */
export interface WireTarget {
  base: string;
  path: string;
  protocol: string;
  socket?: string | undefined;
  token?: string | undefined;
}

const maxMessage = 16 << 20;
const maxProblem = 1 << 20;

/** Opens a WebSocket. */
export function openWire(target: WireTarget, events: WireEvents): Promise<Wire> {
  return globalThis.process?.versions?.node ? nodeWire(target, events) : platformWire(target, events);
}

async function nodeWire(target: WireTarget, events: WireEvents): Promise<Wire> {
  const [{ WebSocket }, net] = await Promise.all([import("ws"), import("node:net")]);
  const { socket } = target;
  const ws = new WebSocket(target.base.replace(/^http/, "ws") + target.path, target.protocol, {
    headers: target.token ? { Authorization: `Bearer ${target.token}` } : {},
    maxPayload: maxMessage,
    ...(socket ? { createConnection: () => net.connect(socket) } : {}),
  });
  await new Promise<void>((resolve, reject) => {
    ws.once("open", resolve);
    ws.once("error", (cause) => reject(new ForkcellError("connection", { message: `the socket: ${cause.message}`, cause })));
    ws.once("unexpected-response", (request, response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        if ((text += part).length > maxProblem) request.destroy();
      });
      response.once("close", () => {
        reject(ForkcellError.fromAnswer(response.statusCode ?? 0, text));
        request.destroy();
      });
    });
    ws.on("message", (data: Buffer, binary: boolean) => events.message(binary ? data : data.toString("utf8")));
    ws.once("close", (code, reason) => events.closed(code, reason.toString("utf8")));
  });
  ws.on("error", () => {}); // the close event follows
  return {
    send: (data) =>
      new Promise((resolve, reject) => {
        ws.send(data, (cause) => {
          if (cause) reject(new ForkcellError("connection", { message: `the socket is closed: ${cause.message}`, cause }));
          else resolve();
        });
      }),
    hold: (hold) => (hold ? ws.pause() : ws.resume()),
    close: () => ws.close(1000),
  };
}

async function platformWire(target: WireTarget, events: WireEvents): Promise<Wire> {
  if (target.token) {
    throw new ForkcellError("usage", { message: "this platform cannot send a token with a WebSocket", hint: "use Node" });
  }
  const ws = new WebSocket(target.base.replace(/^http/, "ws") + target.path, target.protocol);
  ws.binaryType = "arraybuffer";
  await new Promise<void>((resolve, reject) => {
    ws.onopen = () => resolve();
    ws.onerror = () => reject(new ForkcellError("connection", { message: "the socket could not be opened" }));
    ws.onmessage = ({ data }) => events.message(typeof data === "string" ? data : new Uint8Array(data as ArrayBuffer));
    ws.onclose = ({ code, reason }) => events.closed(code, reason);
  });
  return {
    send: async (data) => ws.send(data as string | Uint8Array<ArrayBuffer>),
    hold: () => {},
    close: () => ws.close(1000),
  };
}
