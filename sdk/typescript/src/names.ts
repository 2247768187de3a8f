// Names: camelCase here, snake_case in documents.
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

/** Returns a document of the daemon with its fields in camelCase. */
export function camel(document: unknown): unknown {
  if (Array.isArray(document)) return document.map(camel);
  if (document === null || typeof document !== "object") return document;
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => [
      name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
      open.has(name) ? value : camel(value),
    ]),
  );
}

/** Returns the body of a request, with its fields as the daemon names them. */
export function snake(options: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), open.has(name) ? value : inner(value)]),
  );
}

function inner(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inner);
  return value !== null && typeof value === "object" ? snake(value) : value;
}
