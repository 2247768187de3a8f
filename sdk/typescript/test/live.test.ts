// Commands with their input and output in a socket, and events that resume.
import assert from "node:assert/strict";
import { createConnection, createServer, type AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { type Cell, type ExecSocket, Forkcell, ForkcellError } from "@forkcell/sdk";
import { newProject, startDaemon, type Daemon } from "./daemon.js";

let daemon: Daemon;
let fc: Forkcell;
let cell: Cell;

before(async () => {
  daemon = await startDaemon();
  fc = new Forkcell({ url: daemon.url });
  cell = await fc.cells.create({ source: await newProject(), name: "live" });
  await cell.start();
});
after(async () => {
  await cell.close();
  await fc.close();
  await daemon.stop();
});

const code = (want: string) => (e: unknown) => e instanceof ForkcellError && e.code === want;

test("a command gets input and gives both streams", async () => {
  const s = await cell.openExec("cat; echo $WORD >&2; exit 3", { env: { WORD: "oops" }, workdir: "/tmp" });
  const input = "0123456789".repeat(100_000);
  const sent = s.write(input).then(() => s.closeInput());
  const found = { stdout: "", stderr: "" };
  for await (const { stream, data } of s) found[stream] += new TextDecoder().decode(data);
  await sent;
  assert.equal(found.stdout.length, input.length);
  assert.deepEqual([found.stdout === input, found.stderr, s.exit], [true, "oops\n", { exitCode: 3, signal: "" }]);
  await assert.rejects(cell.openExec("true", { timeout: "soon" }), code("usage"));
});

test("a terminal is resized, left, joined again and ended by a signal", async () => {
  const control = new AbortController();
  const line = "trap 'stty size' WINCH; stty size; echo ready; while true; do read x && echo \"got $x\"; done";
  const s = await cell.openExec(line, { tty: true, cols: 80, rows: 24, signal: control.signal });
  await waitFor(s, "24 80\r\nready");
  await s.resize(100, 30);
  await waitFor(s, "30 100");
  const enough = new Error("enough");
  control.abort(enough);
  await assert.rejects(s.wait(), enough);
  const again = await cell.attach(s.id);
  await waitFor(again, "30 100"); // replayed
  await again.write("one\n");
  await waitFor(again, "got one");
  await again.signal("KILL");
  assert.equal((await again.wait()).signal, "KILL");
  await assert.rejects(cell.attach("none"), (e) => code("not_found")(e) && (e as ForkcellError).status === 404);
});

async function waitFor(socket: ExecSocket, want: string): Promise<void> {
  let found = "";
  for await (const { data } of socket) {
    found += new TextDecoder().decode(data);
    if (found.includes(want)) return;
  }
}

test("events resume after a lost connection", async () => {
  const idle = await fc.cells.create({ source: await newProject(), name: "resume" });
  const follower = fc.events.follow({ cell: "resume" });
  const first = follower.next();
  let begun = false;
  void first.then(() => (begun = true));
  while (!begun) await idle.run("true");
  const after = (await first).value.id as string;
  await follower.return(undefined);
  for (let i = 0; i < 3; i++) await idle.run("true");
  const want = await five(fc, after);
  let seen = 0;
  const relay = createServer((connection) => {
    const up = createConnection(daemon.url.slice("unix:".length));
    let room = 4000;
    seen++;
    connection.on("error", () => {}).pipe(up.on("error", () => {}));
    up.on("data", (data) => {
      connection.write(data.subarray(0, room));
      room -= data.length;
      if (room <= 0) connection.end();
    });
    connection.on("close", () => up.destroy());
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const other = new Forkcell({ url: `http://127.0.0.1:${(relay.address() as AddressInfo).port}` });
  assert.deepEqual(await five(other, after), want);
  assert.ok(seen >= 2, `${seen} connections`);
  relay.close();
  await other.close();
  await assert.rejects(fc.events.follow({}, { after: "nonsense" }).next(), code("usage"));
});

async function five(client: Forkcell, after: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of client.events.follow({ cell: "resume" }, { after })) {
    if (ids.push(id) === 5) break;
  }
  return ids;
}
