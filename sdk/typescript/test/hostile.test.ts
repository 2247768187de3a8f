// A daemon that sends what no daemon sends.
import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { Forkcell, ForkcellError } from "@forkcell/sdk";

type Answer = (response: ServerResponse, path: string) => void;

/** Serves an answer to every request while work goes on. */
async function against(answer: Answer, work: (url: string) => Promise<void>): Promise<void> {
  const server = createServer((request, response) => {
    response.on("error", () => {});
    request.resume();
    answer(response, request.url ?? "");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const document = (doc: unknown): Answer => (response) => response.setHeader("Content-Type", "application/json").end(JSON.stringify(doc));

const refused = (e: unknown) => e instanceof ForkcellError && e.code === "protocol";

/** Returns a program that writes its arguments to a file, and the file. */
async function program(): Promise<{ path: string; said: () => Promise<string[]> }> {
  const dir = await mkdtemp(join(tmpdir(), "hostile"));
  const path = join(dir, "forkcell");
  await writeFile(path, `#!/bin/sh\nprintf '%s\\n' "$@" > ${dir}/args\nprintf '{"cell": "demo", "written": []}'\n`, { mode: 0o755 });
  return { path, said: async () => (await readFile(join(dir, "args"), "utf8")).trimEnd().split("\n") };
}

test("names and ids of an answer follow their grammars", async () => {
  for (const cell of ["--to=/tmp/x", "-x", "../x", "a/b", "a\nb", "a\u001b]52;c;eA==\u0007", "a\u202eb", "A"]) {
    await against(document({ cell, cell_id: "cell_1" }), async (url) => {
      const fc = new Forkcell({ url, token: "t" });
      await assert.rejects(fc.cells.create({ source: { empty: true } }), refused, cell);
      await fc.close();
    });
  }
  // A field is the same under each name that becomes that of the client.
  for (const item of [{ run_id: "run_1/../../x" }, { runId: "run_1/../../x" }, { run_id: "run_1", runId: "--to=/tmp/x" }]) {
    await against(document({ items: [item], next: null }), async (url) => {
      const fc = new Forkcell({ url, token: "t" });
      await assert.rejects((async () => { for await (const _ of fc.runs.list()); })(), refused);
      await fc.close();
    });
  }
});

test("the name of a cell is no flag of the program", async () => {
  const { path, said } = await program();
  await against(document({ cell: "demo", source: "upload:upl_1" }), async (url) => {
    const fc = new Forkcell({ url, token: "t", binary: path });
    await fc.cells.named("--to=/tmp/x").apply();
    const args = await said();
    assert.deepEqual(args.slice(-2), ["--", "--to=/tmp/x"]);
    await fc.close();
  });
});

test("the program is not that of the working directory", async () => {
  const { path } = await program();
  const before = { dir: process.cwd(), path: process.env["PATH"] };
  process.chdir(dirname(path));
  try {
    await against(document({ cell: "demo", source: "upload:upl_1" }), async (url) => {
      for (const PATH of ["", ".", ":/nonexistent", "bin/..:/nonexistent"]) {
        process.env["PATH"] = PATH;
        const fc = new Forkcell({ url, token: "t" });
        await assert.rejects(fc.cells.named("x").apply(), (e) => e instanceof ForkcellError && e.code === "no_local_binary", PATH);
        await fc.close();
      }
    });
  } finally {
    process.chdir(before.dir);
    process.env["PATH"] = before.path;
  }
});

test("redirections, long answers and endless lists are refused", async () => {
  const redirect: Answer = (response) => response.writeHead(302, { Location: "http://127.0.0.1:1/" }).end();
  await against(redirect, async (url) => {
    const fc = new Forkcell({ url, token: "t" });
    await assert.rejects(fc.version(), refused);
    await fc.close();
  });
  await against(document({ items: [], next: "again" }), async (url) => {
    const fc = new Forkcell({ url, token: "t" });
    await assert.rejects((async () => { for await (const _ of fc.cells.list()); })(), refused);
    await fc.close();
  });
  const flood: Answer = (response) => {
    const part = Buffer.from("data:\n".repeat(10_000));
    const more = () => { while (!response.destroyed && response.write(part)); };
    response.writeHead(200, { "Content-Type": "text/event-stream" }).on("drain", more);
    more();
  };
  await against(flood, async (url) => {
    const fc = new Forkcell({ url, token: "t" });
    await assert.rejects((async () => { for await (const _ of fc.events.follow()); })(), refused);
    await fc.close();
  });
  const problem: Answer = (response) => response.writeHead(400).end(JSON.stringify({ code: "a\u001b[2J", detail: 7 }));
  await against(problem, async (url) => {
    const fc = new Forkcell({ url, token: "t" });
    await assert.rejects(fc.version(), refused);
    await fc.close();
  });
});

test("documents of another form are refused", async () => {
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  for (const text of [deep, `{"a":${deep}}`, "7", '"a"', "null"]) {
    await against((response) => response.end(text), async (url) => {
      const fc = new Forkcell({ url, token: "t" });
      await assert.rejects((async () => { for await (const _ of fc.cells.list()); })(), refused, text.slice(0, 9));
      if (text.length < 9) await assert.rejects((async () => { for await (const _ of fc.events.list()); })(), refused, text);
      await fc.close();
    });
  }
});

test("a file without an end is not read as a whole", async () => {
  const endless: Answer = (response) => {
    const part = Buffer.alloc(1 << 20);
    const more = () => { while (!response.destroyed && response.write(part)); };
    response.on("drain", more);
    more();
  };
  await against(endless, async (url) => {
    const fc = new Forkcell({ url, token: "t" });
    await assert.rejects(fc.cells.named("demo").files.read("a"), refused);
    for await (const part of fc.cells.named("demo").files.stream("a")) {
      assert.ok(part.length > 0);
      break;
    }
    await fc.close();
  });
});

test("the text of an error does not draw", () => {
  const evil = "a\u001b]52;c;eA==\u0007\nb\u202ec\u009b31m";
  const error = ForkcellError.fromProblem(400, { code: "usage", detail: evil, hint: evil, details: [evil] });
  assert.doesNotMatch(error.message, /[\p{C}\p{Zl}\p{Zp}]/u);
  assert.equal(error.hint, evil);
});
