// Every operation of the API, found in the daemon's journal after the methods were called.
import assert from "node:assert/strict";
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { type Cell, Forkcell, type ForkcellError } from "@forkcell/sdk";
import { newProject, startDaemon, type Daemon } from "./daemon.js";

let daemon: Daemon;
let fc: Forkcell;

before(async () => {
  daemon = await startDaemon();
  fc = new Forkcell({ url: daemon.url });
});
after(async () => {
  await fc.close();
  await daemon.stop();
});

// The operations without a method, and why.
const leftOut = {
  metrics: "Prometheus reads it",
  docs: "people read it",
  agentSocket: "the command line uses it for terminals",
  checkAgent: "it succeeds only with an agent on the host; its error is looked at",
  runSocket: "the command line uses it for terminals; run takes input too",
  getAccepted: "the command line uses it to write back",
  reportPublication: "the command line uses it after it has published",
  planRun: "the command line uses it for dry runs",
  forwardPort: "the command line uses it; ports answer with HTTP",
  copyFiles: "the command line uses it for cp",
  getCellRun: "it is getRun",
  cancelCellRun: "it is cancelRun",
  getCellRunLogs: "it is getRunLogs",
  listRunEvents: "it is listEvents of a run",
  listCellRunEvents: "it is listEvents of a run",
};

test("every operation has a method", async () => {
  await change(await fc.cells.create({ source: await newProject(), name: "every" }));
  await operate();
  const live = await fc.cells.create({ source: await newProject(), name: "every-live" });
  await live.start();
  await execute(live);
  await useFiles(live);
  await usePorts(live);
  await live.stop();
  await useBranches(await fc.cells.create({ source: await newProject(), name: "every-warm" }));
  await look(live);
  await useSessions(await fc.cells.create({ source: await newProject(), name: "every-agent" }));
  const wanted = Object.keys(leftOut).sort();
  const all = await operations();
  for (const begin = Date.now(); ; ) {
    const done = await succeeded();
    const missing = all.filter(([, route]) => !done.has(route)).map(([id]) => id);
    // A request is recorded after its answer.
    if (missing.length > wanted.length && Date.now() < begin + 60_000) continue;
    assert.deepEqual(missing.sort(), wanted);
    break;
  }
});

async function useSessions(cell: Cell): Promise<void> {
  assert.ok((await all(fc.agents.list())).some((agent) => agent.name === "generic" && agent.ready));
  assert.ok((await fc.agents.get("claude")).document);
  await assert.rejects(fc.agents.check("generic")); // it has no program
  assert.ok((await all(fc.agents.credentials("claude", { mode: "build" }))).length > 0);
  const wanted = { arguments: ["sh", "-c", "echo work > work; cat"], turns: "1h", allowNongit: true };
  assert.equal((await fc.sessions.plan(cell, "generic", wanted)).terms.sessionAssurance, "managed");
  const session = await fc.sessions.start(cell, "generic", wanted);
  assert.equal(session.started?.status, "running");
  const running = await all(fc.sessions.list({ agent: "generic", status: "running" }));
  assert.deepEqual(running.map((info) => info.sessionId), [session.name]);
  assert.equal((await fc.sessions.get(session.name)).cell.name, session.name);
  assert.equal((await session.send("hello")).sentBytes, 6);
  const back = await session.rewind({ to: 0 });
  assert.equal(back.session?.status, "running");
  assert.equal((await all(session.turns()))[0]?.turn, 0);
  assert.equal((await session.stop()).status, "exited");
  await session.accept({ reason: "good" });
  assert.ok((await all(session.timeline())).some((entry) => entry.kind === "exit"));
  await assert.rejects(session.publish("work")); // its source is no git repository
  await session.remove({ force: true });
}

/** Returns the routes of requests that succeeded, went to a port where nothing listens, or ask for what the host cannot do. */
async function succeeded(): Promise<Set<string>> {
  const done = new Set<string>();
  for await (const record of fc.events.list({ class: "api_activity" })) {
    const { operation, response } = record["api"] as { operation: string; response: { code: number } };
    if (response.code < 400 || [422, 502].includes(response.code)) done.add(operation);
  }
  return done;
}

async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of list) items.push(item);
  return items;
}

/** Returns id and route of each operation of the daemon. */
async function operations(): Promise<[string, string][]> {
  const document = await new Promise<string>((resolve, reject) => {
    const options = { socketPath: daemon.url.slice("unix:".length), path: "/openapi.json" };
    request(options, (answer) => resolve(text(answer))).once("error", reject).end();
  });
  const { paths } = JSON.parse(document) as { paths: Record<string, Record<string, { operationId: string }>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, o]): [string, string] => [o.operationId, `${method.toUpperCase()} ${path}`]),
  );
}

/** Makes a template, and uses branches of it. */
async function useBranches(cell: Cell): Promise<void> {
  await cell.warmPython({ modules: ["json"] }, { warm: { readyTimeout: "50s" } });
  const branch = await cell.branch({ n: 2, name: "every-try" });
  assert.deepEqual([...branch].map((c) => c.name), ["every-try-1", "every-try-2"]);
  assert.ok(branch.result.source === cell.name && branch.result.children[0]!.firstAnswerUs > 0);
  const race = await cell.race([{ code: "1 / 0" }, { code: "2" }], { warm: true });
  assert.equal(race.winner?.attempt, 2);
  assert.ok((await cell.race({ code: "1" }, { warm: true, n: 2 })).winner);
  const [first, second] = branch.cells as [Cell, Cell];
  assert.equal((await first.eval("print('out'); x = 41")).output, "out\n");
  assert.deepEqual((await first.eval("{'a_b': x + 1}")).valueJson, { a_b: 42 });
  assert.equal((await second.eval("x")).error?.type, "NameError");
  await assert.rejects(cell.branch({ from: "base" }), (e: ForkcellError) => e.code === "no_memory");
  await assert.rejects(cell.branch({}, { ifMatch: 2 ** 40 }), (e: ForkcellError) => e.code === "changed");
  await assert.rejects(first.checkpoint({ memory: true }), (e: ForkcellError) => e.code === "runtime");
  for (const c of [first, second, cell]) await c.stop();
}

/** Changes an idle cell. */
async function change(cell: Cell): Promise<void> {
  assert.equal((await fc.cells.get("every")).name, "every");
  await cell.update({ labels: { my_team: "a" }, ttl: "1h" });
  assert.deepEqual((await all(fc.cells.list({ labels: { my_team: "a" } }))).map((c) => c.name), ["every"]);
  const info = await cell.update({ name: "every-renamed", ttl: null, labels: null });
  assert.deepEqual([cell.name, info.ttl, info.labels], ["every-renamed", "", {}]);
  await cell.policy();
  await cell.setPolicy("offline");
  await cell.checkpoint({ name: "one" });
  await cell.run("echo hi > hello.txt");
  await fc.policies.suggest({ cell: cell.name });
  await cell.diff().changes();
  await cell.reject();
  await cell.run("echo hi > hello.txt");
  await cell.accept();
  await cell.apply();
  await cell.undo();
  await cell.restore({ checkpoint: "one" });
  await cell.refresh();
  await cell.verify();
  assert.ok((await all(cell.checkpoints())).length >= 3 && (await all(cell.log())).length >= 3);
  assert.ok((await cell.disk()).cells.length);
  await cell.fork({ name: "every-fork" });
  const attempts: number[] = [];
  const race = await cell.race("true", { n: 2, keep: true, onAttempt: (a) => attempts.push(a.attempt) });
  assert.equal((await cell.choose(race.attempts[1]!.cell)).winner?.attempt, 2);
  assert.deepEqual(attempts.sort(), [1, 2]);
  const { upload } = await fc.upload(cell.export());
  const copy = await fc.cells.create({ source: { upload }, name: "every-copy" });
  assert.equal(copy.created?.root, (await cell.status()).root);
  await copy.remove({ force: true });
  assert.equal((await copy.undelete()).name, "every-copy");
  await copy.remove({ force: true, now: true });
}

/** Uses what is about the daemon. */
async function operate(): Promise<void> {
  assert.deepEqual([(await fc.health()).status, (await fc.ready()).status, (await fc.version()).api], ["ok", "ok", "v1"]);
  await fc.key();
  await fc.gc({ dryRun: true });
  assert.ok((await fc.usage()).cells.some((u) => u.cell === "every-renamed"));
  assert.ok((await fc.doctor())[0]?.status && (await fc.disk()).cells.length);
  const made = await fc.tokens.create({ name: "every", scopes: ["read"], quota: { liveCells: 3 } });
  const [listed] = await all(fc.tokens.list());
  assert.deepEqual([listed?.id, listed?.quota?.liveCells], [made.id, 3]);
  await fc.tokens.revoke(made.id);
  assert.ok((await all(fc.policies.presets())).some((p) => p.name === "offline"));
  await fc.policies.validate("offline");
  await fc.policies.explain({ policy: "offline", host: "example.com:443" });
}

/** Uses a live cell. */
async function execute(cell: Cell): Promise<void> {
  await cell.exec("true");
  for (const done of [() => cell.pause(), () => cell.resume()]) {
    // An ordinary user may have no freezer.
    await done().catch((e: unknown) => assert.equal((e as ForkcellError).code, "freezer"));
  }
  assert.ok((await cell.pause({ fsOnly: true })).onDisk);
  assert.equal((await cell.resume()).state, "live");
  assert.ok((await all(cell.processes()))[0]?.pid);
  const first = await cell.openExec(["cat"]);
  const second = await cell.attach(first.id);
  await second.closeInput();
  assert.deepEqual(await first.wait(), { exitCode: 0, signal: "" });
}

/** Sends requests to a listener, and to a port where none is. */
async function usePorts(cell: Cell): Promise<void> {
  const server = await cell.openExec("python3 -u -m http.server --bind 127.0.0.1 8080");
  for await (const { data } of server) if (new TextDecoder().decode(data).includes("Serving")) break;
  const answer = await cell.fetch(8080, "/hello.txt?a=b", { headers: { "X-Test": "1" } });
  assert.deepEqual([answer.status, await answer.text()], [200, "hello\n"]);
  await server.signal("KILL");
  await server.wait();
  for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
    assert.equal((await cell.fetch(8081, "/", { method })).status, 502);
  }
}

/** Uses every verb of files. */
async function useFiles(cell: Cell): Promise<void> {
  for await (const event of cell.files.watch("", { recursive: true })) {
    if (event.event === "started") await cell.files.write("new.txt", "0123", { mode: 0o600 });
    else if (event.path === "new.txt") break;
  }
  await cell.files.mkdir("a/b");
  await cell.files.move("new.txt", "a/moved.txt");
  const info = await cell.files.stat("a/moved.txt");
  assert.deepEqual([info.mode, info.size, info.type], ["0600", 4, "file"]);
  const paths = (await cell.files.list("", { depth: 2 })).map((e) => e.path);
  assert.deepEqual(paths.sort(), ["a", "a/b", "a/moved.txt", "hello.txt"]);
  const decoded = new TextDecoder().decode(await cell.files.read("a/moved.txt"));
  const [part] = await all(cell.files.stream("a/moved.txt", { offset: 2 }));
  assert.deepEqual([decoded, new TextDecoder().decode(part)], ["0123", "23"]);
  async function* large() {
    for (let i = 0; i < 3; i++) yield new Uint8Array(1 << 20);
  }
  assert.equal((await cell.files.write("large", large())).size, 3 << 20);
  assert.match(Buffer.concat(await all(cell.files.archive("a"))).toString("latin1"), /moved\.txt/);
  await cell.files.remove("a", { recursive: true });
}

/** Reads what a run leaves. */
async function look(cell: Cell): Promise<void> {
  const begun = await cell.begin("echo hello; sleep 1000");
  const output = fc.runs.output(begun.runId, { follow: true })[Symbol.asyncIterator]();
  assert.equal(new TextDecoder().decode((await output.next()).value), "hello\n");
  await fc.runs.cancel(begun.runId);
  assert.ok((await output.next()).done);
  const r = await cell.run("true", { wait: "30s" });
  assert.equal((await fc.runs.get(r.runId)).outcome, "succeeded");
  for (const list of [cell.runs(), fc.runs.list()]) assert.ok((await all(list)).some((i) => i.runId === r.runId));
  assert.ok((await all(fc.receipts.list(cell.name))).some((i) => i.receiptId === r.receiptId));
  assert.ok((await fc.receipts.get(r.receiptId)) && (await fc.receipts.bundle(r.receiptId)));
  assert.ok((await fc.receipts.verify({ receipt: r.receiptId })).ok);
  assert.ok((await all(fc.decisions.list())).length && (await all(fc.graph())).length);
  assert.ok((await all(fc.events.list({ run: r.runId }))).length);
}
