import { grammars } from "./grammar.js";

/** What the caller can do about a failure. */
export type Kind = "failed" | "usage" | "not_found" | "refused" | "busy";

// The parts of a ForkcellError besides its code.
export interface ErrorParts {
  kind?: Kind;
  status?: number;
  hint?: string;
  message?: string;
  details?: string[];
  requestId?: string;
  cause?: unknown;
}

/**
 * A failure that the daemon reports, or that the client finds before it sends anything.
 * `kind` sorts failures by what the caller can do about them. `code` is a stable word such as "not_found". `status` is that of HTTP, and 0 if there
 * was no answer. `hint` says what to do.
 */
export class ForkcellError extends Error {
  readonly kind: Kind;
  readonly code: string;
  readonly status: number;
  readonly hint: string;
  readonly details: string[];
  /** The id of the request in the log and the journal of the daemon. */
  readonly requestId: string;

  constructor(code: string, parts: ErrorParts = {}) {
    super(visible(textOf(parts, code)), { cause: parts.cause });
    this.name = "ForkcellError";
    this.kind = parts.kind ?? (code === "usage" ? "usage" : "failed");
    this.code = code;
    this.status = parts.status ?? 0;
    this.hint = parts.hint ?? "";
    this.details = parts.details ?? [];
    this.requestId = parts.requestId ?? "";
  }

  /** Returns the error of an answer: that of its problem document, if it is one. */
  static fromAnswer(status: number, text: string): ForkcellError {
    try {
      return ForkcellError.fromProblem(status, JSON.parse(text));
    } catch {
      return ForkcellError.fromProblem(status, undefined);
    }
  }

  /** Returns the error of a problem document. */
  static fromProblem(status: number, document: unknown): ForkcellError {
    const p = (document ?? {}) as { code?: unknown; detail?: unknown; hint?: unknown; kind?: unknown; details?: unknown; instance?: unknown };
    if (!isCode(p.code)) return new ForkcellError("protocol", { status, message: `unexpected answer with the status ${status}` });
    return new ForkcellError(p.code, {
      kind: knownKind(p.kind),
      status: Number(status) || 0, hint: String(p.hint ?? ""), message: String(p.detail ?? ""),
      details: Array.isArray(p.details) ? p.details.map(String) : [], requestId: String(p.instance ?? ""),
    });
  }
}

/** Returns a kind as this version knows it: "failed" for any other. */
export function knownKind(value: unknown): Kind {
  switch (value) {
    case "usage": case "not_found": case "refused": case "busy":
      return value;
  }
  return "failed";
}

/** Reports whether a value is a code: programs compare it, and print it. */
export function isCode(value: unknown): value is string {
  return typeof value === "string" && grammars.name.test(value);
}

/** Returns one line in which all is visible: the text is the daemon's, and an uncaught error prints it. */
function visible(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

// How many details the text of an error has.
const shown = 5;

function textOf({ message, hint, details = [] }: ErrorParts, code: string): string {
  const list = details.slice(0, shown);
  if (details.length > shown) list.push(`and ${details.length - shown} more`);
  const what = [message || code, ...(list.length > 0 ? [list.join("; ")] : [])].join(": ");
  return hint ? `${what} (${hint})` : what;
}
