"""Branches of a warm cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import models

if TYPE_CHECKING:
    from .cell import AsyncCell


class AsyncBranch:
    """The result of a branch. Iterating gives the new cells."""

    result: models.BranchResult
    """The document."""
    cells: list[AsyncCell]
    """The new cells."""

    def __init__(self, result: models.BranchResult, cells: list[AsyncCell]) -> None:
        self.result = result
        self.cells = cells

    def __iter__(self) -> Iterator[AsyncCell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)
