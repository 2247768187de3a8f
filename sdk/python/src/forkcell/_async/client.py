"""The client."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from .. import _config, models
from .._call import Call, get, post
from .cells import AsyncCells
from .resources import AsyncDecisions, AsyncEvents, AsyncPolicies, AsyncReceipts, AsyncRuns
from .sessions import AsyncAgents, AsyncSessions
from .tokens import AsyncTokens
from .transport import AsyncTransport

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ..bodies import GCBody


class AsyncForkcell:
    """A client of a daemon.

    url is unix:PATH, http://HOST:PORT or https://HOST:PORT; without it, FORKCELL_URL or
    the socket of the default home. The token is that of token_file or FORKCELL_TOKEN_FILE;
    the local socket needs none. verify is an ssl.SSLContext for certificates of a private
    authority. binary is the program that sends directories to a daemon elsewhere.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        verify: ssl.SSLContext | bool = True,
        binary: str = "forkcell",
    ) -> None:
        self._transport = AsyncTransport(_config.address(url), _config.token(token, token_file), verify, binary)
        self.cells = AsyncCells(self._transport)
        self.runs = AsyncRuns(self._transport)
        self.receipts = AsyncReceipts(self._transport)
        self.decisions = AsyncDecisions(self._transport)
        self.policies = AsyncPolicies(self._transport)
        self.events = AsyncEvents(self._transport)
        self.tokens = AsyncTokens(self._transport)
        self.sessions = AsyncSessions(self._transport)
        self.agents = AsyncAgents(self._transport)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transport.address}>"

    @property
    def local(self) -> bool:
        """Whether the daemon is on a local socket, so that both sides see the same files."""
        return self._transport.address.socket is not None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def version(self) -> models.VersionInfo:
        """Return the version of the daemon, and of the API that it speaks."""
        return await self._transport.send(get("/version"), models.VersionInfo)

    async def health(self) -> models.Health:
        """Report whether the daemon runs."""
        return await self._transport.send(get("/healthz"), models.Health)

    async def ready(self) -> models.Health:
        """Report whether the daemon takes requests. One that is stopping is an error with the code draining."""
        return await self._transport.send(Call("GET", "/readyz"), models.Health)

    async def doctor(self) -> list[models.Check]:
        """Return what the daemon's host can enforce."""
        return (await self._transport.send(get("/v1/doctor"), models.DoctorCheck)).controls

    async def usage(self) -> models.UsageResult:
        """Return what cells use, for each and in all."""
        return await self._transport.send(get("/v1/usage"), models.UsageResult)

    async def disk(self) -> models.DiskResult:
        """Return the disk space of all cells and of the home."""
        return await self._transport.send(get("/v1/disk"), models.DiskResult)

    async def upload(self, archive: bytes | AsyncIterable[bytes]) -> models.Upload:
        """Send a tar archive, which may be compressed by zstd, for the source of a new cell.

        source={"upload": upload.upload} uses it. One that is not used is removed after an
        hour.
        """
        call = Call("POST", "/v1/uploads", content=archive, headers={"Content-Type": "application/x-tar"})
        return await self._transport.send(call, models.Upload)

    async def key(self) -> models.KeyInfo:
        """Return the key that signs receipts."""
        return await self._transport.send(get("/v1/keys"), models.KeyInfo)

    async def gc(self, **options: Unpack[GCBody]) -> models.GCResult:
        """Free states that nothing needs."""
        return await self._transport.send(post("/v1/gc", options), models.GCResult)

    def graph(self) -> AsyncIterator[models.GraphNode]:
        """Return the lineage of all states, the oldest first."""
        return self._transport.pages("/v1/graph", models.GraphNode)
