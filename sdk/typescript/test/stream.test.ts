// The parser of streams.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ForkcellError } from "../src/errors.js";
import { ExecSocket } from "../src/execsocket.js";
import { EventParser, Lines, Recorder } from "../src/stream.js";
import type { Transport } from "../src/transport.js";
import type { Wire, WireEvents } from "../src/wire.js";

test("events in pieces", () => {
  const bytes = new TextEncoder().encode(":\n\nevent: a\nid: 7\ndata: one\ndata:two\n\r\n: comment\ndata: {}\n\nevent: cut\ndata: x");
  for (const size of [1, 3, bytes.length]) {
    const parser = new EventParser();
    const found = [];
    for (let i = 0; i < bytes.length; i += size) found.push(...parser.feed(bytes.subarray(i, i + size)));
    assert.deepEqual(found, [{ name: "a", id: "7", data: "one\ntwo" }, { name: "", id: "", data: "{}" }]);
  }
});

test("lines", () => {
  const found: string[] = [];
  const lines = new Lines((line) => found.push(line));
  for (const piece of [[97, 13, 10, 98], [0xc3], [0xa4, 10], [], [0xff, 114]]) lines.feed(Uint8Array.from(piece));
  lines.feed(new Uint8Array(), true);
  assert.deepEqual(found, ["a", "b\u00e4", "\ufffdr"]);
});

test("kept output", () => {
  const size = 1 << 20;
  const cases: [Buffer, boolean, Record<string, string>][] = [
    [Buffer.alloc(size, "x"), false, { stdout: "x".repeat(size) }],
    // The cut is in the middle of a character.
    [Buffer.from("a" + "\u00e4".repeat(size)), true, { stdout: "a" + "\u00e4".repeat(size / 2 - 1) }],
    [Buffer.from([97, 0xc3]), false, { stdout: "", stdout_base64: "YcM=" }],
  ];
  for (const [output, truncated, kept] of cases) {
    const recorder = new Recorder({});
    recorder.take({ name: "stdout", id: "", data: JSON.stringify({ data: output.toString("base64") }) });
    assert.deepEqual(recorder.take({ name: "result", id: "", data: "{}" }), { truncated, stderr: "", ...kept });
  }
});

test("output that is not kept is not held", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const data = Buffer.alloc(1 << 20).toString("base64");
  const recorder = new Recorder({ onStdout: () => {} });
  const take = () => recorder.take({ name: "stdout", id: "", data: JSON.stringify({ data }) });
  for (let i = 0; i < 4; i++) take();
  collect();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 64; i++) take();
  collect();
  const more = process.memoryUsage().arrayBuffers - before;
  assert.ok(more < 16 << 20, `${more} bytes are held`);
});

test("a socket that nobody reads is held by the bytes that wait", async () => {
  let events!: WireEvents;
  let held = 0;
  let sent = 0;
  const wire: Wire = { send: async () => {}, hold: (hold) => { held = hold ? held || sent : 0; }, close: () => {} };
  const transport = { wire: async (_path: string, _protocol: string, on: WireEvents) => ((events = on), wire) } as unknown as Transport;
  const opened = ExecSocket.open(transport, "/");
  await new Promise(setImmediate);
  events.message(JSON.stringify({ type: "started", exec_id: "exec_1" }));
  const socket = await opened;
  for (; sent < 32; sent++) events.message(new Uint8Array(1 << 20));
  assert.ok(held > 0 && held < 16, `it was held after ${held} MiB`);
  let seen = 0;
  for await (const part of socket) {
    seen += part.data.length;
    if (seen > 31 << 20) break;
  }
  assert.equal(held, 0);
});

test("events that are no documents", () => {
  for (const name of ["stdout", "started", "result"]) {
    for (const data of ["7", "[]", '"a"', "null", "{"]) {
      const recorder = new Recorder({ onStarted: () => {} });
      assert.throws(() => recorder.take({ name, id: "", data }), (e) => e instanceof ForkcellError && e.code === "protocol", `${name} ${data}`);
    }
  }
});
