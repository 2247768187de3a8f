"""One request, without sending it."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict
from urllib.parse import quote

MAX_ATTEMPTS = 5
FIRST_WAIT = 0.05  # seconds
# The longest time that the daemon may ask a call to wait before it is sent again.
LONGEST_WAIT = 30.0


class EventFilter(TypedDict, total=False):
    """Which events are meant; without a field, all."""

    cell: str
    run: str
    class_: str  # the number or the name of a class, such as detection_finding
    action: str  # allowed or denied
    since: str  # a time, or a duration such as 2h


@dataclass
class Call:
    """A request. repeatable says that it can be sent again."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: Any = None  # a body that is not JSON: bytes, or an iterable of them
    repeatable: bool = False
    on_stdout: Callable[[str], object] | None = None
    on_stderr: Callable[[str], object] | None = None
    on_started: Callable[[str], object] | None = None

    @property
    def streams(self) -> bool:
        return bool(self.on_stdout or self.on_stderr or self.on_started)


def get(path: str, /, **query: Any) -> Call:
    """Return a call that reads."""
    return Call("GET", path, query={k.rstrip("_"): v for k, v in query.items() if v is not None}, repeatable=True)


def post(path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None, if_match: int | None = None) -> Call:
    """Return a POST that is done once, also if it has to be sent again."""
    return conditional(Call("POST", path, fields(body), headers={"Idempotency-Key": key or new_key()}, repeatable=True), if_match)


def owned(path: str, body: Mapping[str, Any], *, key: str | None = None, if_match: int | None = None) -> Call:
    """Return a POST whose work ends with its caller, unless it has a key."""
    if key:
        return post(path, body, key=key, if_match=if_match)
    return conditional(Call("POST", path, fields(body)), if_match)


def conditional(call: Call, revision: int | None) -> Call:
    """Make a call conditional: it fails with the code changed if the cell has another revision."""
    if revision is not None:
        call.headers["If-Match"] = f'"{revision}"'
    return call


def fields(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a body without what is None. except_ is the field except, a reserved word."""
    if body is None:
        return None
    return {name.rstrip("_"): value for name, value in body.items() if value is not None}


def argv(given: str | Sequence[str]) -> list[str]:
    """Return the arguments of a command. Text is a line for the shell."""
    return ["sh", "-c", given] if isinstance(given, str) else list(given)


def cell_path(name: str, below: str = "") -> str:
    return f"/v1/cells/{quote(name, safe='')}{below}"


def new_key() -> str:
    return secrets.token_hex(16)


def retry_wait(status: int | None, retry_after: str | None, attempt: int) -> float | None:
    """Return how long to wait before a call is sent again, or None if it must not be.

    status is None if no answer came.
    """
    if attempt >= MAX_ATTEMPTS or status not in (None, 429, 503):
        return None
    wait = FIRST_WAIT * 2 ** (attempt - 1) * random.uniform(1, 2)
    if retry_after and retry_after.isdecimal():
        asked = float(retry_after)
        return max(asked, wait) if asked <= LONGEST_WAIT else None
    return None if status == 429 else wait
