// The part that needs only fetch, where nothing of Node is.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Forkcell, ForkcellError } from "@forkcell/sdk";
import { newProject, startDaemon } from "./daemon.js";

test("no module is loaded before it is needed", async () => {
  const dir = dirname(fileURLToPath(import.meta.resolve("@forkcell/sdk")));
  for (const name of (await readdir(dir)).filter((n) => n.endsWith(".js"))) {
    const text = await readFile(`${dir}/${name}`, "utf8");
    assert.doesNotMatch(text, /^(import|export) .*from "[^.]/m, name);
  }
});

test("a page works by fetch", async () => {
  const daemon = await startDaemon();
  const admin = new Forkcell({ url: daemon.url });
  const { token } = await admin.tokens.create({ name: "page", scopes: ["run"] });
  await admin.cells.create({ source: await newProject(), name: "page" });
  await admin.cells.named("page").start();
  const { process } = globalThis;
  Object.defineProperty(globalThis, "process", { value: undefined, configurable: true, writable: true });
  try {
    const fc = new Forkcell({ url: daemon.http, token });
    const cell = fc.cells.named("page");
    const lines: string[] = [];
    const r = await cell.exec("echo one; echo two", { onStdout: (line) => lines.push(line) });
    assert.deepEqual([r.ok, lines], [true, ["one", "two"]]);
    await cell.files.write("a.txt", "text");
    assert.equal(new TextDecoder().decode(await cell.files.read("a.txt")), "text");
    await assert.rejects(cell.openExec("true"), (e) => e instanceof ForkcellError && e.code === "usage");
    await assert.rejects(fc.cells.create({ source: "." }), (e) => e instanceof ForkcellError && e.code === "no_local_binary");
  } finally {
    globalThis.process = process;
  }
  await admin.cells.named("page").close();
  await admin.close();
  await daemon.stop();
});
