// A real daemon on a home of its own, for the tests of one file.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export interface Daemon {
  /** The local socket. */
  url: string;
  /** The same daemon over TCP, where it wants a token. */
  http: string;
  stop(): Promise<void>;
}

export async function startDaemon(): Promise<Daemon> {
  const program = process.env["FORKCELL_BIN"];
  if (!program) throw new Error("FORKCELL_BIN is not set");
  const home = await mkdtemp(join(tmpdir(), "fc"));
  const url = `unix:${home}/api.sock`;
  const child = spawn(program, ["serve", "--json", "--listen", url, "--listen", "127.0.0.1:0"], { env: { ...process.env, FORKCELL_HOME: home }, stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  // It prints its addresses when they can be connected to.
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    exited.then(() => Promise.reject(new Error("the daemon ended"))),
  ])) as [string];
  const { listening } = JSON.parse(line) as { listening: string[] };
  return {
    url,
    http: `http://${listening.find((address) => !address.startsWith("unix:"))}`,
    async stop() {
      child.kill("SIGTERM");
      await exited;
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Makes a directory with one file. */
export async function newProject(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "project"));
  await writeFile(join(dir, "hello.txt"), "hello\n");
  return dir;
}
