// Writes what is generated: schema.ts and open.ts from the API, and the reference page.
// With --check it compares instead, and fails if something differs.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const api = new URL("../../../api/openapi.yaml", import.meta.url);
const reference = new URL("../../../docs/reference/sdk-typescript.md", import.meta.url);
const source = (name) => new URL(`../src/${name}`, import.meta.url);
const mark = "<!-- The rest is generated: make sdk-generate -->\n";
const note = "// Generated from api/openapi.yaml by make sdk-generate.\n";

/** Returns the names of fields that are maps or any JSON: the keys in them are not names of the API. */
function openFields(node, found = new Set()) {
  if (ts.isPropertySignature(node) && node.type) {
    const map = ts.isTypeLiteralNode(node.type) && node.type.members.some(ts.isIndexSignatureDeclaration);
    if (map || node.type.kind === ts.SyntaxKind.UnknownKeyword) found.add(node.name.getText());
  }
  node.forEachChild((child) => {
    openFields(child, found);
  });
  return found;
}

/** Returns the public methods of a class, and its properties that have a text, a line each. */
function rows(node, file) {
  const listed = (m) => ts.isMethodDeclaration(m) || ts.isGetAccessor(m) || (ts.isPropertyDeclaration(m) && m.type && ts.getJSDocCommentsAndTags(m).length > 0);
  return node.members.filter((m) => listed(m) && ts.isIdentifier(m.name)).map((m) => {
    const signature = ts.isMethodDeclaration(m) ? `${m.name.getText(file)}(${m.parameters.map((p) => p.getText(file)).join(", ")})` : m.name.getText(file);
    const doc = ts.getJSDocCommentsAndTags(m).map((d) => ts.getTextOfJSDocComment(d.comment)).join(" ").replace(/\s+/g, " ");
    const first = /^.*?\.(?= |$)/.exec(doc)?.[0] ?? doc;
    const typed = `${signature}: ${m.type.getText(file)}`.replaceAll("|", "\\|");
    return `| \`${typed}\` | ${first} |\n`;
  });
}

function page() {
  let text = readFileSync(reference, "utf8").split(mark)[0] + mark;
  for (const name of ["client.ts", "cells.ts", "cell.ts", "branch.ts", "files.ts", "execsocket.ts", "diff.ts", "race.ts", "events.ts", "resources.ts", "sessions.ts"]) {
    const file = ts.createSourceFile(name, readFileSync(source(name), "utf8"), ts.ScriptTarget.ES2022, true);
    for (const node of file.statements.filter(ts.isClassDeclaration)) {
      text += `\n## ${node.name.text}\n\n| | |\n|---|---|\n${rows(node, file).join("")}`;
    }
  }
  return text;
}

const schema = note + astToString(await openapiTS(api));
const tree = ts.createSourceFile("schema.ts", schema, ts.ScriptTarget.ES2022, true);
const components = tree.statements.find((s) => ts.isInterfaceDeclaration(s) && s.name.text === "components");
const open = [...openFields(components)].filter((name) => name !== "headers").sort();
const out = new Map([
  [source("schema.ts"), schema],
  [source("open.ts"), `${note}export const openFields = ${JSON.stringify(open)};\n`],
  [reference, page()],
]);
for (const [path, text] of out) {
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
    console.error(`${fileURLToPath(path)} is out of date: make sdk-generate`);
    process.exitCode = 1;
  }
}
