"""Results that can do more than their documents."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

from . import models


class _Output:
    stdout: str
    stderr: str
    stdout_base64: str | None
    stderr_base64: str | None

    @property
    def stdout_bytes(self) -> bytes:
        """The standard output, also if it is not UTF-8."""
        return base64.b64decode(self.stdout_base64) if self.stdout_base64 else self.stdout.encode()

    @property
    def stderr_bytes(self) -> bytes:
        """The standard error, also if it is not UTF-8."""
        return base64.b64decode(self.stderr_base64) if self.stderr_base64 else self.stderr.encode()


@dataclass(kw_only=True)
class RunAnswer(models.RunAnswer, _Output):
    """The result of a run."""

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.outcome == "succeeded"


@dataclass(kw_only=True)
class ExecAnswer(models.ExecAnswer, _Output):
    """How a command in a live cell ended."""

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.exit_code == 0


@dataclass(frozen=True)
class ExecExit:
    """How a command ended. signal is the name of the signal that ended it, such as KILL, or ""."""

    exit_code: int
    signal: str


@dataclass(kw_only=True)
class FileEvent:
    """A change in a watched directory. Paths are relative to it; from_ is the old path of what was renamed."""

    event: Literal["started", "created", "modified", "removed", "renamed", "overflow"]
    path: str = ""
    from_: str = ""
