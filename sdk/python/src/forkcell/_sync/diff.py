"""Comparisons of two states."""

from __future__ import annotations

from typing import Any

from .. import models
from .._call import get
from .transport import Transport


class Diff:
    """A comparison of two states. Each method compares them."""

    def __init__(self, transport: Transport, path: str, query: dict[str, Any]) -> None:
        self._transport = transport
        self._path = path
        self._query = query

    def changes(self) -> models.DiffResult:
        """Return the paths that differ."""
        return self._transport.send(get(self._path, **self._query), models.DiffResult)

    def stat(self) -> str:
        """Return the changed lines of each file, as text."""
        return self._transport.text(get(self._path, format="stat", **self._query))

    def patch(self) -> str:
        """Return a unified diff."""
        return self._transport.text(get(self._path, format="patch", **self._query))
