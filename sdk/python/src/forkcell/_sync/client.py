"""The client."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from .. import _config, models
from .._call import Call, get, post
from .cells import Cells
from .resources import Decisions, Events, Policies, Receipts, Runs
from .sessions import Agents, Sessions
from .tokens import Tokens
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ..bodies import GCBody


class Forkcell:
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
        self._transport = Transport(_config.address(url), _config.token(token, token_file), verify, binary)
        self.cells = Cells(self._transport)
        self.runs = Runs(self._transport)
        self.receipts = Receipts(self._transport)
        self.decisions = Decisions(self._transport)
        self.policies = Policies(self._transport)
        self.events = Events(self._transport)
        self.tokens = Tokens(self._transport)
        self.sessions = Sessions(self._transport)
        self.agents = Agents(self._transport)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transport.address}>"

    @property
    def local(self) -> bool:
        """Whether the daemon is on a local socket, so that both sides see the same files."""
        return self._transport.address.socket is not None

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def version(self) -> models.VersionInfo:
        """Return the version of the daemon, and of the API that it speaks."""
        return self._transport.send(get("/version"), models.VersionInfo)

    def health(self) -> models.Health:
        """Report whether the daemon runs."""
        return self._transport.send(get("/healthz"), models.Health)

    def ready(self) -> models.Health:
        """Report whether the daemon takes requests. One that is stopping is an error with the code draining."""
        return self._transport.send(Call("GET", "/readyz"), models.Health)

    def doctor(self) -> list[models.Check]:
        """Return what the daemon's host can enforce."""
        return (self._transport.send(get("/v1/doctor"), models.DoctorCheck)).controls

    def usage(self) -> models.UsageResult:
        """Return what cells use, for each and in all."""
        return self._transport.send(get("/v1/usage"), models.UsageResult)

    def disk(self) -> models.DiskResult:
        """Return the disk space of all cells and of the home."""
        return self._transport.send(get("/v1/disk"), models.DiskResult)

    def upload(self, archive: bytes | Iterable[bytes]) -> models.Upload:
        """Send a tar archive, which may be compressed by zstd, for the source of a new cell.

        source={"upload": upload.upload} uses it. One that is not used is removed after an
        hour.
        """
        call = Call("POST", "/v1/uploads", content=archive, headers={"Content-Type": "application/x-tar"})
        return self._transport.send(call, models.Upload)

    def key(self) -> models.KeyInfo:
        """Return the key that signs receipts."""
        return self._transport.send(get("/v1/keys"), models.KeyInfo)

    def gc(self, **options: Unpack[GCBody]) -> models.GCResult:
        """Free states that nothing needs."""
        return self._transport.send(post("/v1/gc", options), models.GCResult)

    def graph(self) -> Iterator[models.GraphNode]:
        """Return the lineage of all states, the oldest first."""
        return self._transport.pages("/v1/graph", models.GraphNode)
