// The parser of streams.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, Lines, Recorder } from "../src/stream.js";

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
