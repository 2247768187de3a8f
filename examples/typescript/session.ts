// Starts an agent on a project, tells it what to do, and takes back what it did last. The
// directory that this runs in has a directory "project". A shell stands for the agent; with
// one that is installed, such as claude, its name stands in place of generic.
import { Forkcell, type Session } from "@forkcell/sdk";

const fc = new Forkcell(); // FORKCELL_URL, else the local socket
const cell = await fc.cells.create({ source: "./project", name: "agent-typescript" });
const session = await fc.sessions.start(cell, "generic", { arguments: ["sh"], turns: "1s", allowNongit: true });
for (const [turn, line] of ["./fix-b.sh", "rm roman.py"].entries()) {
  await session.send(line);
  while (!(await taken(session)).includes(turn + 1)) await new Promise((resolve) => setTimeout(resolve, 100));
}
await session.rewind({ to: 1, reason: "it removed the program" });
const ended = await session.stop();
console.log(ended.sessionId, ended.status);
console.log(await session.cell.diff({ from: ended.beganCheckpointId, to: ended.headCheckpointId }).stat());
await fc.close();

/** Returns the numbers of the turns so far. */
async function taken(session: Session): Promise<number[]> {
  const numbers: number[] = [];
  for await (const turn of session.turns()) numbers.push(turn.turn);
  return numbers;
}
