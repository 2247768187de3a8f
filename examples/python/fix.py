"""Race five attempts at fixing a failing test of a project, and apply the winner.

    python fix.py DIRECTORY COMMAND COMMAND...

Each COMMAND is one attempt: a script, a patch, or an agent with another prompt. Each
runs in a fork of its own, and pytest judges the result. The project is left alone until
an attempt has won; then its changes are accepted and written to DIRECTORY.
"""

import sys

from forkcell import Forkcell


def main(directory: str, commands: list[str]) -> int:
    with Forkcell() as fc, fc.cells.create(directory, policy="dev") as cell:
        before = cell.run("pytest -q", restore_on_fail=True)
        if before.ok:
            print("the tests pass already")
            return 0
        race = cell.race(
            commands,
            judge="pytest -q",
            accept=True,
            apply=True,
            on_judged=lambda a: print(f"attempt {a.attempt}: {'passes' if a.judge_exit_code == 0 else 'fails'}"),
        )
        if race.winner is None:
            print("no attempt passes the tests")
            return 1
        assert race.result.applied is not None
        print(f"attempt {race.winner.attempt} wins: {commands[race.winner.attempt - 1]}")
        for change in race.result.applied.written:
            print(f"  {change.path}")
        print(f"receipt {race.winner.receipt_id}")
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
