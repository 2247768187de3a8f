// Directories of this machine, and a daemon elsewhere.
import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Forkcell, ForkcellError } from "@forkcell/sdk";
import { newProject, startDaemon } from "./daemon.js";

test("a directory is sent, and written back", async () => {
  const daemon = await startDaemon();
  const admin = new Forkcell({ url: daemon.url });
  const { token } = await admin.tokens.create({ name: "ada", scopes: ["run", "decide"] });
  process.env["FORKCELL_HOME"] = await mkdtemp(join(tmpdir(), "own"));
  const project = await newProject();
  await writeFile(join(project, ".env"), "KEY=secret\n");
  const hello = () => readFile(join(project, "hello.txt"), "utf8");
  const fc = new Forkcell({ url: daemon.http, token, binary: process.env["FORKCELL_BIN"] ?? "" });
  const cell = await fc.cells.create({ source: project, name: "demo", policy: "version: 1\n", labels: { a: "b" } });
  assert.deepEqual(cell.created?.leftOut.map((left) => left.path), [".env"]);
  assert.ok((await cell.run("echo two > hello.txt; test ! -e .env")).ok);
  const accepted = await cell.accept({ apply: true, reason: "seen" });
  assert.deepEqual([accepted.applied?.written.length, await hello()], [1, "two\n"]);
  await cell.undo();
  assert.equal(await hello(), "hello\n");
  assert.equal((await cell.apply({ dryRun: true })).written.length, 1);
  await writeFile(join(project, "hello.txt"), "mine\n");
  await assert.rejects(cell.apply(), (e) => e instanceof ForkcellError && e.code === "conflict" && e.details.length === 1);
  assert.equal((await cell.refresh({ onConflict: "theirs" })).changed.length, 1);
  assert.ok((await fc.cells.create({ source: project })).name);
  await fc.close();
  await admin.close();
  await daemon.stop();
});
