"""The error of every failed call."""

from __future__ import annotations

from typing import Any, TypeGuard

from ._grammar import GRAMMARS

# How many details the text of an error has.
SHOWN = 5


class ForkcellError(Exception):
    """A failure that the daemon reports, or that the client finds before it sends anything.

    kind says what the caller can do about it: "failed", "usage", "not_found", "refused"
    or "busy". code is a stable word such as "not_found". status is that of HTTP, and 0 if there
    was no answer. hint says what to do. details has every path or field concerned.
    request_id is the id of the request in the log and the journal of the daemon.
    """

    def __init__(
        self,
        code: str,
        status: int = 0,
        hint: str = "",
        *,
        message: str = "",
        details: list[str] | None = None,
        request_id: str = "",
        kind: str = "",
    ) -> None:
        super().__init__(message or code)
        self.kind = kind or ("usage" if code == "usage" else "failed")
        self.code = code
        self.status = status
        self.hint = hint
        self.message = message
        self.details = details or []
        self.request_id = request_id

    def __str__(self) -> str:
        """Return one line in which all is visible: the text is the daemon's, and a traceback prints it."""
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in self._text())

    def _text(self) -> str:
        text = self.message or self.code
        if self.details:
            more = len(self.details) - SHOWN
            text += ": " + "; ".join(self.details[:SHOWN] + ([f"and {more} more"] if more > 0 else []))
        return f"{text} ({self.hint})" if self.hint else text

    def __repr__(self) -> str:
        return f"ForkcellError({self.code!r}, {self.status}, message={self.message!r}, hint={self.hint!r})"

    @classmethod
    def from_problem(cls, status: int, document: Any) -> ForkcellError:
        """Return the error of a problem document."""
        if not isinstance(document, dict) or not is_code(document.get("code")):
            return cls("protocol", status, message=f"unexpected answer with the status {status}")
        return cls(
            document["code"],
            status if isinstance(status, int) else 0,
            str(document.get("hint", "")),
            message=str(document.get("detail", "")),
            details=[str(line) for line in document.get("details") or []],
            request_id=str(document.get("instance", "")),
            kind=known_kind(document.get("kind")),
        )


def known_kind(value: Any) -> str:
    """Return a kind as this version knows it: "failed" for any other."""
    return value if value in ("usage", "not_found", "refused", "busy") else "failed"


def is_code(value: Any) -> TypeGuard[str]:
    """Report whether a value is a code: programs compare it, and print it."""
    return isinstance(value, str) and bool(GRAMMARS["name"].fullmatch(value))
