// The program forkcell of this machine: it sends directories to a daemon elsewhere,
// because only it knows which files hold secrets, and writes back to them, with its
// journal in the caller's own home.
import type { Address } from "./config.js";
import { ForkcellError, knownKind, type ErrorParts } from "./errors.js";
import { camel } from "./names.js";

/** The program, and the daemon that it talks to. */
export interface Binary {
  path: string;
  address: Address;
  token: string | undefined;
}

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

// The fields of a new cell that are flags of the same name, and those that are sent in another form.
const settings = ["backend", "runtime", "mount_at", "exclude", "ttl", "idle_timeout", "on_timeout"];
const others = ["name", "labels", "policy"];

/** Makes a cell from a directory of this machine. */
export async function createBy<T>(binary: Binary, directory: string, body: Record<string, unknown>, signal?: AbortSignal): Promise<T> {
  needNode(binary);
  const unknown = Object.keys(body).find((key) => body[key] !== undefined && ![...settings, ...others].includes(key));
  if (unknown) throw new ForkcellError("usage", { message: `${unknown} is no setting of a directory that is sent to ${binary.address.name}` });
  const { resolve } = await import("node:path");
  const labels = Object.entries((body["labels"] ?? {}) as Record<string, string>).map(([key, value]) => `--label=${key}=${value}`);
  const own = flags(Object.fromEntries(settings.filter((name) => name in body).map((name) => [name, body[name]])));
  const name = (body["name"] as string | undefined) ?? `cell-${globalThis.crypto.randomUUID().slice(0, 13)}`;
  return withPrivateFiles(async (write) => {
    const policy = body["policy"] as string | undefined;
    const given = policy && /[:\n]/.test(policy) ? await write("policy.yaml", policy) : policy;
    const args = ["init", `--from=${resolve(directory)}`, ...own, ...labels, ...flags({ policy: given })];
    return run<T>(binary, args, name, write, signal);
  });
}

/** Carries out apply, undo or refresh with the directory of a cell. */
export async function moveBy<T>(binary: Binary, verb: string, cell: string, body: Record<string, unknown>, signal?: AbortSignal): Promise<T> {
  needNode(binary);
  const words = verb === "undo" ? ["apply", "--undo"] : [verb];
  return withPrivateFiles((write) => run<T>(binary, [...words, ...flags(body)], cell, write, signal));
}

type Write = (name: string, text: string) => Promise<string>;

/** Calls work with a function that writes files which nobody else can read, and which go afterwards. */
async function withPrivateFiles<T>(work: (write: Write) => Promise<T>): Promise<T> {
  const { mkdtemp, rm, writeFile } = await import("node:fs/promises");
  const { tmpdir } = await import("node:os");
  const dir = await mkdtemp(`${tmpdir()}/forkcell-`);
  try {
    return await work(async (name, text) => {
      await writeFile(`${dir}/${name}`, text, { mode: 0o600 });
      return `${dir}/${name}`;
    });
  } finally {
    await rm(dir, { recursive: true });
  }
}

/**
 * Runs a verb with its flags for a cell. The name may be the daemon's word: it stands
 * after "--", so that it is never a flag.
 */
async function run<T>(binary: Binary, verb: string[], cell: string, write: Write, signal?: AbortSignal): Promise<T> {
  const own = [`--url=${binary.address.name}`, "--json", "--quiet"];
  if (binary.token) own.push(`--token-file=${await write("token", `${binary.token}\n`)}`);
  const ended = await start(binary, [...own, ...verb, "--", cell], signal);
  try {
    if (ended.code === 0) return camel(JSON.parse(ended.stdout)) as T;
    const { kind, code, message, hint, details } = (JSON.parse(ended.stderr) as { error: ErrorParts & { code: string } }).error;
    throw new ForkcellError(code, { kind: knownKind(kind), message: message ?? "", hint: hint ?? "", details: details ?? [] });
  } catch (cause) {
    if (cause instanceof ForkcellError) throw cause;
    throw new ForkcellError("protocol", { message: `${binary.path}: exit code ${ended.code}: ${ended.stderr.slice(0, 200)}` });
  }
}

async function start(binary: Binary, args: string[], signal?: AbortSignal): Promise<Ended> {
  const { spawn } = await import("node:child_process");
  const path = await needBinary(binary);
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"], ...(signal && { signal }) });
    const ended: Ended = { code: null, stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (part: string) => (ended.stdout += part));
    child.stderr.setEncoding("utf8").on("data", (part: string) => (ended.stderr += part));
    child.on("error", (cause: NodeJS.ErrnoException) => reject(cause.code === "ENOENT" ? missing(binary) : cause));
    child.on("close", (code) => {
      ended.code = code;
      resolve(ended);
    });
  });
}

/** Returns the path of the program. It throws unless it can be started. */
export async function needBinary(binary: Binary): Promise<string> {
  needNode(binary);
  const { access, constants } = await import("node:fs/promises");
  const { delimiter, isAbsolute, join } = await import("node:path");
  // What is found from the working directory may be what a cell wrote.
  const dirs = (process.env["PATH"] ?? "").split(delimiter).filter((dir) => isAbsolute(dir));
  const paths = binary.path.includes("/") ? [binary.path] : dirs.map((dir) => join(dir, binary.path));
  const found = await Promise.allSettled(paths.map((path) => access(path, constants.X_OK)));
  const path = paths[found.findIndex(({ status }) => status === "fulfilled")];
  if (path === undefined) throw missing(binary);
  return path;
}

function needNode(binary: Binary): void {
  if (!globalThis.process?.versions?.node) throw missing(binary);
}

function missing(binary: Binary): ForkcellError {
  return new ForkcellError("no_local_binary", {
    message: `the files of this machine are sent to ${binary.address.name} by the program ${binary.path}, which is not found`,
    hint: "install it, or use the daemon on the local socket, a directory of the daemon's machine, or an uploaded archive",
  });
}

/** Returns the fields of a body as flags. */
function flags(body: Record<string, unknown>): string[] {
  return Object.entries(body).flatMap(([key, value]) => {
    const name = `--${key.replaceAll("_", "-")}`;
    if (value === true) return [name];
    if (Array.isArray(value)) return value.map((item) => `${name}=${String(item)}`);
    return value === undefined || value === false ? [] : [`${name}=${String(value)}`];
  });
}
