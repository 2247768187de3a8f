"""Calls whose answer is lost, and addresses that are refused."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forkcell import Forkcell, ForkcellError


@contextmanager
def relay(daemon: str, cut: int) -> Iterator[tuple[str, list[int]]]:
    """Pass connections on to the daemon, and cut the first ones after it has answered."""
    seen: list[int] = []
    with tempfile.TemporaryDirectory(prefix="fc") as home, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{home}/s")
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                seen.append(1)
                threading.Thread(target=pass_on, args=(connection, daemon, len(seen) <= cut), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"unix:{home}/s", seen
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def pass_on(connection: socket.socket, daemon: str, cut: bool) -> None:
    with connection, socket.socket(socket.AF_UNIX) as up:
        up.connect(daemon.removeprefix("unix:"))
        threading.Thread(target=copy, args=(connection, up), daemon=True).start()
        if cut:
            # The daemon has done what it was asked for, and nobody is told.
            up.recv(1)
        else:
            copy(up, connection)
        # Closing alone would not wake the other thread.
        for side in (connection, up):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # a side has gone
        while data := source.recv(1 << 16):
            target.sendall(data)


def test_lost_answers(fc: Forkcell, daemon: str, project: Path) -> None:
    with relay(daemon, 2) as (url, seen), Forkcell(url) as other:
        cell = other.cells.create(project, name="retries")
        assert len(seen) == 3
    assert [c.name for c in fc.cells.list() if c.name.startswith("retries")] == ["retries"]
    with relay(daemon, 1) as (url, seen), Forkcell(url) as other:
        with pytest.raises(ForkcellError) as e:
            other.cells.named(cell.name).run("true")
        assert (e.value.code, len(seen)) == ("connection", 1)
        r = other.cells.named(cell.name).run("echo x >> log", idempotency_key="once", wait="30s")
    with relay(daemon, 1) as (url, _), Forkcell(url) as other:
        assert other.cells.named(cell.name).run("echo x >> log", idempotency_key="once", wait="30s").run_id == r.run_id


@pytest.mark.parametrize("url", ["unix:", "ftp://localhost", "http://example.com", "localhost:80", "http://u:p@localhost", "http://localhost/x"])
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ValueError):
        Forkcell(url)


def test_no_upload(project: Path) -> None:
    with Forkcell("https://example.com", token="fct_x") as fc, pytest.raises(ForkcellError) as e:
        fc.cells.create(project)
    assert e.value.code == "no_local_binary"
