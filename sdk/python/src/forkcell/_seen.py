"""What a cell has shown to its caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Seen:
    """The undecided work that a cell has shown: runs and captured states, the oldest first. accept takes nothing else."""

    def __init__(self, ids: Sequence[str] | None = None) -> None:
        self._ids = list(ids or ())

    def set(self, ids: Sequence[str] | None = None) -> None:
        """Remember what a comparison of all undecided work showed."""
        self._ids = list(ids or ())

    def add(self, ids: Sequence[str] | None) -> None:
        """Remember more work."""
        self._ids = list(dict.fromkeys([*self._ids, *(ids or ())]))

    def ran(self, run: str, decision: str) -> None:
        """Remember a run, if it waits for a decision."""
        if decision == "pending":
            self.add([run])

    def left(self, run: str) -> None:
        """Forget what a move back from a run has left."""
        self._ids = self._ids[: self._ids.index(run)] if run in self._ids else []

    def bind(self, request: Any, if_match: int | None) -> None:
        """Have a request that chooses nothing name what the caller has seen."""
        if request.get("run") or request.get("runs") or if_match is not None:
            return
        runs = [id for id in self._ids if id not in (request.get("leave_out") or ())]
        if runs:
            request["runs"] = runs
