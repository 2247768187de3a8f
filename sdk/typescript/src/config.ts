// Which daemon a client uses.

export interface ClientOptions {
  /** unix:PATH, http://HOST:PORT or https://HOST:PORT; without it, FORKCELL_URL or the local socket. */
  url?: string;
  token?: string;
  /** The file that has the token; without it, FORKCELL_TOKEN_FILE. The local socket needs none. */
  tokenFile?: string;
  /** The program that sends directories to a daemon elsewhere; without it, forkcell in the search path. */
  binary?: string;
}

/** Where a daemon is: a unix socket, or the beginning of every URL. */
export interface Address {
  socket?: string;
  base: string;
  name: string;
}

function variable(name: string): string | undefined {
  return globalThis.process?.env?.[name] || undefined;
}

/** Returns the address of a daemon. */
export function parseAddress(given?: string): Address {
  const url = given ?? variable("FORKCELL_URL") ?? `unix:${localSocket()}`;
  if (url.startsWith("unix:")) {
    if (url === "unix:") throw new TypeError(`bad URL ${url}: the path is missing`);
    return { socket: url.slice("unix:".length), base: "http://localhost", name: url };
  }
  const parts = URL.canParse(url) ? new URL(url) : undefined;
  if (!parts || !/^https?:$/.test(parts.protocol) || !parts.hostname || parts.username || parts.search || parts.pathname !== "/") {
    throw new TypeError(`bad URL ${url}: want unix:PATH, http://HOST:PORT or https://HOST:PORT`);
  }
  if (parts.protocol === "http:" && !loopback(parts.hostname)) {
    throw new TypeError(`bad URL ${url}: HTTP without TLS is for this machine only; use https`);
  }
  return { base: parts.origin, name: parts.origin };
}

/** Returns the token, or undefined. */
export async function readToken(options: ClientOptions): Promise<string | undefined> {
  const file = options.tokenFile ?? variable("FORKCELL_TOKEN_FILE");
  if (options.token || !file) return options.token;
  const { readFile } = await import("node:fs/promises");
  return (await readFile(file, "utf8")).trim();
}

function localSocket(): string {
  const home = variable("FORKCELL_HOME");
  if (home) return `${home}/api.sock`;
  const data = variable("XDG_DATA_HOME");
  if (data?.startsWith("/")) return `${data}/forkcell/api.sock`;
  return `${variable("HOME") ?? ""}/.local/share/forkcell/api.sock`;
}

function loopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
}
