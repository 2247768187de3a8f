"""Branches of a warm cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import models

if TYPE_CHECKING:
    from .cell import Cell


class Branch:
    """The result of a branch. Iterating gives the new cells."""

    result: models.BranchResult
    """The document."""
    cells: list[Cell]
    """The new cells."""

    def __init__(self, result: models.BranchResult, cells: list[Cell]) -> None:
        self.result = result
        self.cells = cells

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)
