"""Making and finding cells."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from .. import models
from .._call import post
from .._decode import decode
from .cell import AsyncCell
from .transport import AsyncTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..bodies import CreateCell


class AsyncCells:
    """Makes and finds cells."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[CreateCell],
    ) -> AsyncCell:
        """Make a cell.

        source is a directory of this machine; or it is the API's own form, such as
        {"empty": True} or {"path": "/srv/project"}, a directory of the daemon's machine.
        To a daemon elsewhere the program forkcell of this machine sends the directory,
        without what the secret rules leave out; accept, apply, undo and refresh of the
        cell then use the same directory.
        """
        if source is not None and not isinstance(source, Mapping):
            path = os.path.abspath(source)
            if self._transport.address.socket is None:
                document = await to_thread.run_sync(self._transport.binary.create, path, options)
                sent = decode(models.InitResult, document)
                return AsyncCell(self._transport, sent.cell, sent)
            source = {"path": path}
        body = {**options, "source": source}
        made = await self._transport.send(post("/v1/cells", body, key=idempotency_key), models.InitResult)
        return AsyncCell(self._transport, made.cell, made)

    async def get(self, name: str) -> AsyncCell:
        """Return a cell that exists."""
        cell = self.named(name)
        await cell.status()
        return cell

    def named(self, name: str) -> AsyncCell:
        """Return a cell without asking the daemon whether it exists."""
        return AsyncCell(self._transport, name)

    def list(self, *, state: str | None = None, labels: Mapping[str, str] | None = None) -> AsyncIterator[models.CellInfo]:
        """Return the cells in a state and with labels, the oldest first."""
        label = [f"{key}={value}" for key, value in (labels or {}).items()]
        return self._transport.pages("/v1/cells", models.CellInfo, state=state, label=label or None)
