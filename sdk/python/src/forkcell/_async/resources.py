"""Runs, receipts, decisions and policies of a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import anyio

from .. import models
from .._call import get, post, retry_wait
from .._decode import loads
from .._errors import ForkcellError
from .transport import AsyncTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._call import EventFilter
    from ..bodies import ExplainBody, ReceiptVerifyRequest, SuggestBody


class AsyncRuns:
    """Finds runs of all cells."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self) -> AsyncIterator[models.RunInfo]:
        """Return the runs, the oldest first."""
        return self._transport.pages("/v1/runs", models.RunInfo)

    async def get(self, run: str) -> models.RunInfo:
        """Return a run, which may be running."""
        return await self._transport.send(get(f"/v1/runs/{quote(run, safe='')}"), models.RunInfo)

    async def cancel(self, run: str) -> models.RunInfo:
        """End a run. It is decided as its flags say."""
        return await self._transport.send(post(f"/v1/runs/{quote(run, safe='')}/cancel"), models.RunInfo)

    def output(self, run: str, *, stream: Literal["stdout", "stderr"] = "stdout", follow: bool = False) -> AsyncIterator[bytes]:
        """Return what a run wrote, in parts. follow goes on until the run has ended."""
        query = {"stream": stream, "follow": "true" if follow else None}
        return self._transport.parts(get(f"/v1/runs/{quote(run, safe='')}/logs", **query), "application/octet-stream")


class AsyncEvents:
    """Shows what happened in cells, as OCSF objects."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, **options: Unpack[EventFilter]) -> AsyncIterator[Any]:
        """Return the events so far."""
        async for line in self._transport.lines(get("/v1/events", **options), "application/jsonl"):
            event = loads(line)
            if isinstance(event, dict) and "code" in event and "instance" in event:  # a journal could not be read to its end
                raise ForkcellError.from_problem(event.get("status", 0), event)
            yield event

    async def follow(self, after: str = "", **options: Unpack[EventFilter]) -> AsyncIterator[tuple[str, Any]]:
        """Return the id and the object of each event as it happens.

        It begins after the event with the id after, or now. A lost connection is made
        again, and no event is missed or comes twice.
        """
        call = get("/v1/events", follow="true", **options)
        failures = 0
        while True:
            if after:
                call.headers["Last-Event-ID"] = after
            try:
                async with self._transport.events(call) as events:
                    async for event in events:
                        after, failures = event.id or after, 0
                        if event.name == "event":
                            yield event.id, event.json()
            except ForkcellError as e:
                if e.code != "connection":
                    raise
            failures += 1
            wait = retry_wait(None, None, failures)
            if wait is None:
                raise ForkcellError("connection", message="the stream of events was cut")
            await anyio.sleep(wait)


class AsyncReceipts:
    """Shows and verifies what was signed."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, cell: str | None = None) -> AsyncIterator[models.ReceiptInfo]:
        """Return the receipts of a cell or of all cells, the oldest first."""
        return self._transport.pages("/v1/receipts", models.ReceiptInfo, cell=cell)

    async def get(self, receipt: str) -> Any:
        """Return the statement of a receipt with its present decision, as JSON."""
        return await self._transport.document(get(f"/v1/receipts/{quote(receipt, safe='')}"))

    async def bundle(self, receipt: str) -> Any:
        """Return a bundle that can be verified elsewhere, as JSON."""
        return await self._transport.document(get(f"/v1/receipts/{quote(receipt, safe='')}/bundle"))

    async def verify(self, **options: Unpack[ReceiptVerifyRequest]) -> models.ReceiptVerifyResult:
        """Check signatures, chains and bound hashes. What does not hold is in the result."""
        return await self._transport.send(post("/v1/receipts/verify", options), models.ReceiptVerifyResult)


class AsyncDecisions:
    """Shows what was decided."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, cell: str | None = None, run: str | None = None) -> AsyncIterator[models.DecisionInfo]:
        """Return the decisions about a cell and a run, the oldest first."""
        return self._transport.pages("/v1/decisions", models.DecisionInfo, cell=cell, run=run)


class AsyncPolicies:
    """Checks and explains policies. A policy is YAML, or the name of a preset."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def presets(self) -> AsyncIterator[models.Preset]:
        """Return the policies that come with the daemon."""
        return self._transport.pages("/v1/policies", models.Preset)

    async def validate(self, policy: str) -> models.PolicyResult:
        """Check a policy, and return its canonical form."""
        return await self._transport.send(post("/v1/policies/validate", {"policy": policy}), models.PolicyResult)

    async def explain(self, **options: Unpack[ExplainBody]) -> models.Explanation:
        """Say what a policy decides about a path, a host or a system call."""
        return await self._transport.send(post("/v1/policies/explain", options), models.Explanation)

    async def suggest(self, **options: Unpack[SuggestBody]) -> models.PolicySuggestion:
        """Return a policy that allows what a run was denied, for a person to review."""
        return await self._transport.send(post("/v1/policies/suggest", options), models.PolicySuggestion)
