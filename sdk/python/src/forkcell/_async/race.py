"""Races: several attempts, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import models
from .._call import cell_path
from .._decode import decode, field
from .diff import AsyncDiff
from .transport import AsyncTransport


class AsyncAttempt(models.RaceAttempt):
    """How one attempt ended, and how it was judged."""

    _transport: AsyncTransport

    @classmethod
    def _from(cls, transport: AsyncTransport, document: dict[str, Any]) -> AsyncAttempt:
        attempt = decode(cls, document)
        attempt._transport = transport
        return attempt

    def diff(self) -> AsyncDiff:
        """Compare the states before and after the attempt. Its cell must have been kept."""
        return AsyncDiff(self._transport, cell_path(self.cell, "/diff"), {"run": self.run_id})


class AsyncRace:
    """The result of a race. Iterating gives the attempts."""

    result: models.RaceResult
    """The document, with the decision."""
    attempts: list[AsyncAttempt]
    """The attempts, in their order."""

    def __init__(self, transport: AsyncTransport, document: dict[str, Any]) -> None:
        self.result = decode(models.RaceResult, document)
        self.attempts = [AsyncAttempt._from(transport, a) for a in field(document, "attempts")]

    @property
    def winner(self) -> AsyncAttempt | None:
        """The best attempt, or None if all failed."""
        found = [a for a in self.attempts if a.attempt == self.result.winner]
        return found[0] if found else None

    def __iter__(self) -> Iterator[AsyncAttempt]:
        return iter(self.attempts)

    def __len__(self) -> int:
        return len(self.attempts)
