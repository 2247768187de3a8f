"""Comparisons of two states."""

from __future__ import annotations

from typing import Any

from .. import models
from .._call import get
from .transport import AsyncTransport


class AsyncDiff:
    """A comparison of two states. Each method compares them."""

    def __init__(self, transport: AsyncTransport, path: str, query: dict[str, Any]) -> None:
        self._transport = transport
        self._path = path
        self._query = query

    async def changes(self) -> models.DiffResult:
        """Return the paths that differ."""
        return await self._transport.send(get(self._path, **self._query), models.DiffResult)

    async def stat(self) -> str:
        """Return the changed lines of each file, as text."""
        return await self._transport.text(get(self._path, format="stat", **self._query))

    async def patch(self) -> str:
        """Return a unified diff."""
        return await self._transport.text(get(self._path, format="patch", **self._query))
