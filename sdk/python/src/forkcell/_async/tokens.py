"""Tokens of a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from .. import models
from .._call import Call, post
from .transport import AsyncTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..bodies import TokenBody


class AsyncTokens:
    """Makes and revokes tokens."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, scopes: Sequence[str], **options: Unpack[TokenBody]) -> models.TokenCreated:
        """Make a token. The result is the only document that has its secret."""
        body = {**options, "name": name, "scopes": list(scopes)}
        return await self._transport.send(post("/v1/tokens", body), models.TokenCreated)

    def list(self) -> AsyncIterator[models.TokenInfo]:
        """Return the tokens, the oldest first."""
        return self._transport.pages("/v1/tokens", models.TokenInfo)

    async def revoke(self, token: str) -> None:
        """Revoke a token, by its name or id. It takes effect at once."""
        await self._transport.document(Call("DELETE", f"/v1/tokens/{quote(token, safe='')}"))
