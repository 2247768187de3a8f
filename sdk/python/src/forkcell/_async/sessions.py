"""Sessions of coding agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from .. import models
from .._call import Call, conditional, get, post
from .cell import AsyncCell
from .transport import AsyncTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import bodies


class AsyncSession:
    """A session of a coding agent. Its cell has the verbs that all cells have, such as diff and reject."""

    name: str
    """The name of the session."""
    started: models.AgentSession | None
    """What the session was when this client started it, else None."""
    cell: AsyncCell
    """The cell of the session."""

    def __init__(self, transport: AsyncTransport, name: str, started: models.AgentSession | None = None) -> None:
        self._transport = transport
        self.name = name
        self.started = started
        self.cell = AsyncCell(transport, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def show(self) -> models.AgentSession:
        """Return everything about the session."""
        return await self._transport.send(get(self._path()), models.AgentSession)

    def turns(self) -> AsyncIterator[models.TurnInfo]:
        """Return the turns of the session, the oldest first."""
        return self._transport.pages(self._path("/turns"), models.TurnInfo)

    def timeline(self) -> AsyncIterator[models.TimelineEntry]:
        """Return what happened in the session, in order."""
        return self._transport.pages(self._path("/timeline"), models.TimelineEntry)

    async def send(self, message: str, *, no_newline: bool = False, idempotency_key: str | None = None) -> models.SentMessage:
        """Type a message into the running session, and press Enter."""
        body = {"message": message, "no_newline": no_newline}
        return await self._transport.send(post(self._path("/send"), body, key=idempotency_key), models.SentMessage)

    async def stop(self, *, force: bool = False, if_match: int | None = None) -> models.AgentSession:
        """End the session. Its run gets its receipt."""
        return await self._transport.send(post(self._path("/stop"), {"force": force}, if_match=if_match), models.AgentSession)

    async def rewind(self, *, if_match: int | None = None, **options: Unpack[bodies.RewindBody]) -> models.RewoundSession:
        """Take the session back to a turn, and start its agent again."""
        return await self._transport.send(post(self._path("/rewind"), options, if_match=if_match), models.RewoundSession)

    async def accept(self, *, if_match: int | None = None, **options: Unpack[bodies.AcceptBody]) -> models.AcceptResult:
        """Accept what the session changed, as accept of its cell does. It must have ended."""
        if options.get("apply"):  # the cell may have been made from a directory of this machine
            return await self.cell.accept(if_match=if_match, **options)
        self.cell._seen.bind(options, if_match)
        accepted = await self._transport.send(post(self._path("/accept"), options, if_match=if_match), models.AcceptResult)
        self.cell._seen.set()
        return accepted

    async def publish(self, branch: str, *, if_match: int | None = None, **options: Unpack[bodies.PublishBody]) -> models.PublishResult:
        """Put the accepted work on a new branch of the source's repository."""
        body = {**options, "branch": branch}
        return await self._transport.send(post(self._path("/publish"), body, if_match=if_match), models.PublishResult)

    async def remove(self, *, force: bool = False, if_match: int | None = None) -> None:
        """Remove a session that has ended. force does so although its work was not decided."""
        call = Call("DELETE", self._path(), query={"force": "true"} if force else {})
        await self._transport.document(conditional(call, if_match))

    def _path(self, below: str = "") -> str:
        return f"/v1/sessions/{quote(self.name, safe='')}{below}"


class AsyncSessions:
    """Starts and finds sessions of coding agents."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def start(
        self, cell: str | AsyncCell, agent: str, *, idempotency_key: str | None = None, **options: Unpack[bodies.CreateSession]
    ) -> AsyncSession:
        """Start an agent in a fork of a cell. It runs on without the caller."""
        body = {**options, "cell": name_of(cell), "agent": agent}
        info = await self._transport.send(post("/v1/sessions", body, key=idempotency_key), models.AgentSession)
        return AsyncSession(self._transport, info.session_id, info)

    async def plan(self, cell: str | AsyncCell, agent: str, **options: Unpack[bodies.CreateSession]) -> models.SessionPlan:
        """Return what would be decided about a session, and start nothing."""
        body = {**options, "cell": name_of(cell), "agent": agent}
        return await self._transport.send(post("/v1/sessions/plan", body), models.SessionPlan)

    def list(self, *, agent: str | None = None, status: str | None = None) -> AsyncIterator[models.AgentSession]:
        """Return the sessions, the oldest first."""
        return self._transport.pages("/v1/sessions", models.AgentSession, agent=agent, status=status)

    async def get(self, name: str) -> AsyncSession:
        """Return a session that exists."""
        session = self.named(name)
        await session.show()
        return session

    def named(self, name: str) -> AsyncSession:
        """Return a session without asking the daemon whether it exists."""
        return AsyncSession(self._transport, name)


class AsyncAgents:
    """Shows the coding agents of the daemon's host."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self) -> AsyncIterator[models.AgentState]:
        """Return the agents, by name."""
        return self._transport.pages("/v1/agents", models.AgentState)

    async def get(self, name: str) -> models.AgentDocument:
        """Return an agent, with the document that describes it."""
        return await self._transport.send(get(f"/v1/agents/{quote(name, safe='')}"), models.AgentDocument)

    async def check(self, name: str) -> models.AgentState:
        """Start an agent in an empty cell, far enough to see it print its version."""
        return await self._transport.send(post(f"/v1/agents/{quote(name, safe='')}/check"), models.AgentState)

    def credentials(self, name: str, *, mode: str | None = None) -> AsyncIterator[models.CredentialDecision]:
        """Say which credentials a session would get in a mode, and why. It never returns a value."""
        return self._transport.pages(f"/v1/agents/{quote(name, safe='')}/credentials", models.CredentialDecision, mode=mode)


def name_of(cell: str | AsyncCell) -> str:
    return cell if isinstance(cell, str) else cell.name
