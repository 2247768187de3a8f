// What a user does, against a real daemon.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { createConnection, createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Forkcell, ForkcellError, type RunInfo } from "@forkcell/sdk";
import { newProject, startDaemon, type Daemon } from "./daemon.js";

let daemon: Daemon;
let fc: Forkcell;

before(async () => {
  daemon = await startDaemon();
  process.env["FORKCELL_URL"] = daemon.url;
  fc = new Forkcell();
});
after(async () => {
  await fc.close();
  await daemon.stop();
});

const code = (want: string) => (e: unknown) => e instanceof ForkcellError && e.code === want;

test("a run is accepted, applied and undone", async () => {
  const source = await newProject();
  const cell = await fc.cells.create({ source, name: "story", policy: "offline", labels: { my_team: "a" } });
  assert.equal(cell.created?.files, 1);
  const lines: string[] = [];
  const errors: string[] = [];
  const r = await cell.run("cat; echo $MY_VAR; echo oops >&2; echo hi > hello.txt", {
    stdin: "one\n", env: { MY_VAR: "two" }, onStdout: (l) => lines.push(l), onStderr: (l) => errors.push(l),
  });
  assert.ok(r.ok);
  assert.deepEqual([lines, r.stdout, errors, r.changedFiles], [["one", "two"], "one\ntwo\n", ["oops"], 1]);
  const accepted = await cell.accept({ apply: true, reason: "good" });
  assert.equal(accepted.applied?.written[0]?.path, "hello.txt");
  assert.equal(await readFile(join(source, "hello.txt"), "utf8"), "hi\n");
  await cell.undo();
  assert.equal(await readFile(join(source, "hello.txt"), "utf8"), "hello\n");
  await cell.remove({ force: true });
  await assert.rejects(fc.cells.get("story"), (e) => e instanceof ForkcellError && e.kind === "not_found" && e.code === "not_found" && e.status === 404 && e.requestId !== "");
});

for (const look of ["changes", "stat", "patch", "run"] as const) {
  test(`what was seen by ${look} is accepted, and nothing that came meanwhile`, async () => {
    const source = await newProject();
    const cell = await fc.cells.create({ source, name: `seen-${look}` });
    await cell.run("touch good");
    if (look === "run") await cell.run("touch more");
    else assert.ok(await cell.diff()[look]());
    const evil = await fc.cells.named(cell.name).run("touch evil");
    const accepted = await cell.accept({ apply: true });
    assert.ok(accepted.runId !== evil.runId && !accepted.alsoDecided.join().includes(evil.runId));
    assert.deepEqual((await readdir(source)).filter((name) => name === "good" || name === "evil"), ["good"]);
    // A fork begins with undecided work, and says so; what others did before it is not taken with it.
    const [fork] = await cell.fork({ name: `seen-${look}-fork` });
    assert.ok(fork);
    await fork.run("touch own");
    await fork.accept();
    await fc.cells.named(fork.name).run("touch unseen");
    const last = await fork.run("touch last");
    await assert.rejects(fork.accept(), code("not_shown"));
    await fork.restore({ run: last.runId });
    await fork.accept(); // it has shown nothing: all
  });
}

test("a command that fails is a result", async () => {
  const cell = await fc.cells.create({ source: await newProject(), name: "failure" });
  const r = await cell.run(["sh", "-c", "printf '\\377'; exit 3"], { restoreOnFail: true, onStdout: () => {} });
  assert.deepEqual([r.ok, r.exitCode, r.decision, r.stdoutBase64], [false, 3, "restored", "/w=="]);
  const { revision } = await cell.status();
  await cell.checkpoint({ name: "one" }, { ifMatch: revision });
  await assert.rejects(cell.checkpoint({ name: "two" }, { ifMatch: revision }), code("changed"));
  await assert.rejects(cell.run("true", { timeout: "soon" }), code("usage"));
});

test("a live cell executes commands and is stopped", async () => {
  const cell = await fc.cells.create({ source: await newProject(), name: "live" });
  await cell.start();
  const lines: string[] = [];
  assert.equal((await cell.exec("cat; exit 4", { stdin: "in" })).exitCode, 4);
  const r = await cell.exec(["echo", "hello"], { onStdout: (l) => lines.push(l) });
  assert.deepEqual([r.ok, lines, r.stdout], [true, ["hello"], "hello\n"]);
  await cell[Symbol.asyncDispose]();
  assert.equal((await cell.status()).state, "idle");
});

test("lists, receipts and policies", async () => {
  const cell = await fc.cells.create({ source: await newProject(), name: "evidence" });
  const r = await cell.run("true");
  assert.ok((await fc.receipts.verify({ receipt: r.receiptId })).ok);
  assert.ok(await fc.receipts.bundle(r.receiptId));
  assert.deepEqual((await cell.fork({ name: "evidence-try", n: 2 })).map((c) => c.name), ["evidence-try-1", "evidence-try-2"]);
  assert.equal((await fc.policies.explain({ cell: "evidence", path: "/srv/secret" })).allowed, false);
  const names: string[] = [];
  for await (const c of fc.cells.list({ state: "idle" })) names.push(c.name);
  assert.ok(names.includes("evidence-try-1"));
  const begun = await cell.begin("sleep 1000");
  await fc.runs.cancel(begun.runId);
  await cell.run("true", { wait: "30s" });
  const runs: RunInfo[] = [];
  for await (const run of cell.runs()) runs.push(run);
  assert.deepEqual(runs.map((run) => run.outcome), ["succeeded", "interrupted", "succeeded"]);
});

test("a race keeps the attempt that its judge passes", async () => {
  const cell = await fc.cells.create({ source: await newProject(), name: "race" });
  const race = await cell.race(["echo 41 > answer", "echo 42 > answer"], { judge: "grep -q 42 answer", keep: true });
  assert.deepEqual([...race].map((a) => a.judgeExitCode), [1, 0]);
  assert.equal(race.winner?.attempt, 2);
  assert.match((await race.winner?.diff().patch()) ?? "", /\+42/);
  assert.match((await race.winner?.diff().stat()) ?? "", /answer \| 1 \+/);
  const chosen = await cell.choose(race.attempts[0]!.cell, { reason: "rounder", apply: true });
  assert.equal(chosen.winner?.attempt, 1);
  assert.ok(chosen.result.decisionId && chosen.result.applied);
  await assert.rejects(cell.choose(race.attempts[1]!.cell), { code: "moved" });
  await cell.run("echo 1 > one; echo 2 > two");
  assert.deepEqual((await cell.diff({ paths: ["two"] }).changes()).changes.map((c) => c.path), ["two"]);
});

test("aborting a run ends it", async () => {
  const cell = await fc.cells.create({ source: await newProject(), name: "abort" });
  const control = new AbortController();
  const enough = new Error("enough");
  let id = "";
  const run = cell.run("sleep 1000", { restoreOnFail: true, signal: control.signal, onStarted: (i) => { id = i; control.abort(enough); } });
  await assert.rejects(run, enough);
  await cell.run("true", { wait: "30s" });
  assert.equal((await fc.runs.get(id)).outcome, "interrupted");
});

test("a lost answer does nothing twice", async () => {
  let seen = 0;
  const relay = createServer((connection) => {
    const cut = ++seen <= 2;
    const up = createConnection(daemon.url.slice("unix:".length));
    connection.on("error", () => {}).pipe(up.on("error", () => {}));
    // The daemon has done what it was asked for, and nobody is told.
    if (cut) up.once("data", () => connection.destroy());
    else up.pipe(connection);
    connection.on("close", () => up.destroy());
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const other = new Forkcell({ url: `http://127.0.0.1:${(relay.address() as AddressInfo).port}` });
  try {
    await other.cells.create({ source: { path: await newProject() }, name: "retries" });
    assert.equal(seen, 3);
    seen = 0;
    await other.close();
    await assert.rejects(new Forkcell({ url: `http://127.0.0.1:${(relay.address() as AddressInfo).port}` }).cells.named("retries").run("true"), code("connection"));
    assert.equal(seen, 1);
  } finally {
    relay.close();
  }
});

test("a closed client says so", async () => {
  const other = new Forkcell();
  await other.version();
  await other.close();
  await assert.rejects(other.version(), (e) => code("connection")(e) && /closed/.test(String(e)) && !/forkcell serve/.test(String(e)));
});

test("addresses", async () => {
  for (const url of ["unix:", "ftp://localhost", "http://example.com", "localhost:80", "http://u:p@localhost", "http://localhost/x"]) {
    assert.throws(() => new Forkcell({ url }), TypeError, url);
  }
  await assert.rejects(new Forkcell({ url: "unix:/nowhere" }).version(), (e) => code("connection")(e) && /ENOENT.*forkcell serve/.test(String(e)));
  await assert.rejects(new Forkcell({ url: "https://example.com", binary: "no-such-program" }).cells.create({ source: "." }), code("no_local_binary"));
});
