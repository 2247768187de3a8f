// Names: camelCase here, snake_case in documents.
//
// The daemon may be a stranger's. Its names and ids become arguments of programs and parts
// of URLs, so each follows the grammar of its field.
import { ForkcellError } from "./errors.js";
import { grammarOf, grammars } from "./grammar.js";
import { openFields } from "./open.js";

type CamelName<S extends string> = S extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<CamelName<Rest>>}` : S;

/** A document with its fields in camelCase. The keys of a map stay as they are. */
export type Camel<T> = T extends (infer Item)[]
  ? Camel<Item>[]
  : T extends object
    ? string extends keyof T
      ? T
      : { [K in keyof T as K extends string ? CamelName<K> : K]: Camel<T[K]> }
    : T;

const open: ReadonlySet<string> = new Set(openFields);

// How deep a document may be.
const maxDepth = 500;

/** Returns a document of the daemon with its fields in camelCase, and its names and ids checked. */
export function camel(document: unknown, depth = 0): unknown {
  if (depth > maxDepth) throw new ForkcellError("protocol", { message: "the answer is too deep" });
  if (Array.isArray(document)) return document.map((item) => camel(item, depth + 1));
  if (document === null || typeof document !== "object") return document;
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => {
      const key = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
      // What arrives as runId is used as run_id is.
      checked(snakeName(key), value);
      return [key, open.has(name) ? value : camel(checked(name, value), depth + 1)];
    }),
  );
}

/** Returns the name of a field as documents have it. */
function snakeName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns the value of a field. It throws unless a text, or each of a list, follows the grammar of the field. */
export function checked<T>(name: string, value: T): T {
  const grammar = grammarOf.get(name);
  if (grammar === undefined) return value;
  for (const text of Array.isArray(value) ? value : [value]) {
    if (typeof text === "string" && text !== "" && !grammars[grammar].test(text)) {
      throw new ForkcellError("protocol", { message: `the field ${name} is no ${grammar}: ${JSON.stringify(text.slice(0, 80))}` });
    }
  }
  return value;
}

/** Returns the document that a text is. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ForkcellError("protocol", { message: "the answer is not JSON", cause });
  }
}

/** Returns the object that a text is. */
export function objectOf(text: string, what: string): Record<string, unknown> {
  const document = parse(text);
  if (document === null || typeof document !== "object" || Array.isArray(document)) {
    throw new ForkcellError("protocol", { message: `${what} is no document` });
  }
  return document as Record<string, unknown>;
}

/** Returns the body of a request, with its fields as the daemon names them. */
export function snake(options: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [snakeName(name), open.has(name) ? value : inner(value)]),
  );
}

function inner(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inner);
  return value !== null && typeof value === "object" ? snake(value) : value;
}
