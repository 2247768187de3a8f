"""The client of a Forkcell daemon.

Forkcell is a client, AsyncForkcell the same for asyncio and trio. Without an argument
they use the daemon that FORKCELL_URL names, else the one on the local socket.

    from forkcell import Forkcell

    fc = Forkcell()
    with fc.cells.create(source="./project", policy="dev") as cell:
        r = cell.run("pytest -q", restore_on_fail=True, on_stdout=print)
        if r.ok:
            cell.accept(apply=True, reason="tests pass")

A failure that the daemon reports is a ForkcellError with a stable code. A command that
fails is not an error: its exit code is in the result.
"""

from . import models
from ._async.cell import AsyncCell
from ._async.client import AsyncForkcell
from ._async.sessions import AsyncSession
from ._errors import ForkcellError
from ._results import ExecAnswer, ExecExit, FileEvent, RunAnswer
from ._sync.cell import Cell
from ._sync.client import Forkcell
from ._sync.sessions import Session

ForkcellError.__module__ = "forkcell"  # where users find it

__all__ = [
    "AsyncCell",
    "AsyncForkcell",
    "AsyncSession",
    "Cell",
    "ExecAnswer",
    "ExecExit",
    "FileEvent",
    "Forkcell",
    "ForkcellError",
    "RunAnswer",
    "Session",
    "models",
]
