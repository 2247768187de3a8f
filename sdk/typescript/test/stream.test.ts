// The parser of streams.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, Lines } from "../src/stream.js";

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
