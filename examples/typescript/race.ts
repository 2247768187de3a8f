// Runs the tests of a project in a cell, and races two attempts at fixing it. The
// directory that this runs in has a directory "project" with two scripts that fix it.
import { Forkcell } from "@forkcell/sdk";

const fc = new Forkcell(); // FORKCELL_URL, else the local socket
const cell = await fc.cells.create({ source: "./project", policy: "dev" });
const r = await cell.run("pytest -q", { restoreOnFail: true, onStdout: console.log });
if (r.ok) await cell.accept({ apply: true, reason: "tests pass" });
for (const a of await cell.race(["./fix-a.sh", "./fix-b.sh"], { judge: "pytest -q", keep: true })) {
  console.log(a.score, await a.diff().stat());
}
await cell.close();
await fc.close();
