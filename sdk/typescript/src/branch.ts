import type { Cell } from "./cell.js";
import type { BranchResult } from "./types.js";

/** The result of a branch. Iterating gives the new cells. */
export class Branch implements Iterable<Cell> {
  /** The document. */
  readonly result: BranchResult;
  /** The new cells. */
  readonly cells: Cell[];

  constructor(result: BranchResult, cells: Cell[]) {
    this.result = result;
    this.cells = cells;
  }

  [Symbol.iterator](): Iterator<Cell> {
    return this.cells[Symbol.iterator]();
  }
}
