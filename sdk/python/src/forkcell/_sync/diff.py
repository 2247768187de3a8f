"""Comparisons of two states."""

from __future__ import annotations

from typing import Any

from .. import models
from .._call import get
from .._seen import Seen
from .transport import Transport


class Diff:
    """A comparison of two states. Each method compares them."""

    def __init__(self, transport: Transport, path: str, query: dict[str, Any], seen: Seen | None = None) -> None:
        self._transport = transport
        self._path = path
        self._query = query
        self._seen = seen or Seen()

    def changes(self) -> models.DiffResult:
        """Return the paths that differ."""
        result = self._transport.send(get(self._path, **self._query), models.DiffResult)
        if any(self._query.get(name) for name in ("run", "from", "to", "since_apply")):
            self._seen.add(result.runs)
        else:
            self._seen.set(result.runs)
        return result

    def stat(self) -> str:
        """Return the changed lines of each file, as text."""
        return self._text("stat")

    def patch(self) -> str:
        """Return a unified diff."""
        return self._text("patch")

    def _text(self, format: str) -> str:
        # Of undecided work the text is about the states that changes has just seen.
        query = self._query
        if not any(query.get(name) for name in ("from", "to", "since_apply")):
            result = self.changes()
            if result.runs:
                query = query | {"run": None, "from": result.from_, "to": result.to}
        return self._transport.text(get(self._path, format=format, **query))
