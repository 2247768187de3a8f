"""Which daemon a client uses."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ._errors import ForkcellError


@dataclass(frozen=True)
class Address:
    """Where a daemon is: a unix socket, or the beginning of every URL."""

    socket: str | None
    base: str

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.base

    def unreachable(self, cause: object) -> ForkcellError:
        """Return the error of a daemon that does not answer."""
        hint = "is it running? `forkcell serve` starts it" if self.socket else ""
        return ForkcellError("connection", message=f"the daemon at {self}: {cause}", hint=hint)


def address(url: str | None) -> Address:
    """Return the address of a daemon: url, else FORKCELL_URL, else the local socket."""
    url = url or os.environ.get("FORKCELL_URL") or f"unix:{_local_socket()}"
    if url.startswith("unix:"):
        if url == "unix:":
            raise ValueError(f"bad URL {url!r}: the path is missing")
        return Address(url.removeprefix("unix:"), "http://localhost")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.path.strip("/"):
        raise ValueError(f"bad URL {url!r}: want unix:PATH, http://HOST:PORT or https://HOST:PORT")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise ValueError(f"bad URL {url!r}: HTTP without TLS is for this machine only; use https")
    return Address(None, f"{parts.scheme}://{parts.netloc}")


def token(given: str | None, file: str | os.PathLike[str] | None) -> str | None:
    """Return the token: the given one, else that of the file, else of FORKCELL_TOKEN_FILE."""
    if given:
        return given
    path = file or os.environ.get("FORKCELL_TOKEN_FILE")
    return Path(path).read_text(encoding="utf-8").strip() if path else None


def _local_socket() -> str:
    if home := os.environ.get("FORKCELL_HOME"):
        return os.path.abspath(os.path.join(home, "api.sock"))
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = os.path.join(Path.home(), ".local", "share")
    return os.path.join(data, "forkcell", "api.sock")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
