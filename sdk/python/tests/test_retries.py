"""Calls whose answer is lost, and addresses that are refused."""

from __future__ import annotations

import itertools
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forkcell import Forkcell, ForkcellError


@contextmanager
def relay(daemon: str, cut: int, room: int = 1 << 40) -> Iterator[tuple[str, list[int]]]:
    """Pass connections on to the daemon.

    The first ones are cut after it has answered, the others after room bytes.
    """
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
                threading.Thread(target=pass_on, args=(connection, daemon, 0 if len(seen) <= cut else room), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"unix:{home}/s", seen
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def pass_on(connection: socket.socket, daemon: str, room: int) -> None:
    with connection, socket.socket(socket.AF_UNIX) as up:
        up.connect(daemon.removeprefix("unix:"))
        threading.Thread(target=copy, args=(connection, up), daemon=True).start()
        if room == 0:
            # The daemon has done what it was asked for, and nobody is told.
            up.recv(1)
        else:
            copy(up, connection, room)
        # Closing alone would not wake the other thread.
        for side in (connection, up):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


def copy(source: socket.socket, target: socket.socket, room: int = 1 << 40) -> None:
    with suppress(OSError):  # a side has gone
        while room > 0 and (data := source.recv(min(room, 1 << 16))):
            target.sendall(data)
            room -= len(data)


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


def test_events_resume(fc: Forkcell, daemon: str, project: Path) -> None:
    cell = fc.cells.create(project, name="resume")
    follower = fc.events.follow(cell="resume")
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(next(follower)[0]))
    thread.start()
    while not found:
        cell.run("true")
    thread.join()
    for _ in range(3):
        cell.run("true")
    want = first_five(fc, found[0])
    with relay(daemon, 0, room=4000) as (url, seen), Forkcell(url) as other:
        assert first_five(other, found[0]) == want
        assert len(seen) >= 2


def first_five(fc: Forkcell, after: str) -> list[str]:
    return [event[0] for event in itertools.islice(fc.events.follow(after, cell="resume"), 5)]


@pytest.mark.parametrize("url", ["unix:", "ftp://localhost", "http://example.com", "localhost:80", "http://u:p@localhost", "http://localhost/x"])
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ValueError):
        Forkcell(url)


def test_no_daemon(tmp_path: Path) -> None:
    with Forkcell(f"unix:{tmp_path}/s") as fc, pytest.raises(ForkcellError, match="forkcell serve") as e:
        fc.version()
    assert e.value.code == "connection" and "'connection'" in repr(e.value) and str(tmp_path) in repr(fc)


def test_no_upload(project: Path) -> None:
    with Forkcell("https://example.com", token="fct_x", binary="no-such-program") as fc, pytest.raises(ForkcellError) as e:
        fc.cells.create(project)
    assert e.value.code == "no_local_binary"
