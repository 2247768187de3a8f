"""Runs, receipts, decisions and policies of a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .. import models
from .._call import get, post
from .transport import AsyncTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
