"""Commands with their input and output in a socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forkcell import AsyncForkcell, Cell, Forkcell, ForkcellError


@pytest.fixture
def live(fc: Forkcell, project: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    with fc.cells.create(project, name=request.node.name.replace("_", "-")) as cell:
        cell.start()
        yield cell


def test_streams(live: Cell) -> None:
    data = b"0123456789" * 100_000
    with live.open_exec("cat; echo $WORD >&2; exit 3", env={"WORD": "oops"}, workdir="/tmp") as s:

        def feed() -> None:
            s.write(data)
            s.close_input()

        thread = threading.Thread(target=feed)
        thread.start()
        found = {"stdout": b"", "stderr": b""}
        for name, part in s:
            found[name] += part
        thread.join()
        assert found == {"stdout": data, "stderr": b"oops\n"}
        assert s.exit and (s.exit.exit_code, s.exit.signal) == (3, "")
        assert s.wait() == s.exit
    with pytest.raises(ForkcellError) as e:
        live.open_exec("true", timeout="soon")
    assert e.value.code == "usage"


def test_terminal(live: Cell) -> None:
    line = "trap 'stty size' WINCH; stty size; echo ready; while true; do read x && echo \"got $x\"; done"
    with live.open_exec(line, tty=True, cols=80, rows=24) as s:
        wait_for(s, b"24 80\r\nready")
        s.resize(100, 30)
        wait_for(s, b"30 100")
    with live.attach(s.id) as again:
        wait_for(again, b"30 100")  # replayed
        again.write("one\n")
        wait_for(again, b"got one")
        again.signal("KILL")
        assert again.wait().signal == "KILL"
    with pytest.raises(ForkcellError) as e:
        live.attach("none")
    assert (e.value.code, e.value.status) == ("not_found", 404)


def test_attached(live: Cell) -> None:
    with live.open_exec("echo ready; exec sleep 1000", attached=True) as s:
        wait_for(s, b"ready")
    while any("sleep" in p.args for p in live.processes()):
        pass


def test_keyboard(live: Cell) -> None:
    with live.open_exec("while read x; do echo \"got $x\"; done", tty=True) as s:
        with live.attach(s.id, keyboard="share") as first, live.attach(s.id, keyboard="share") as second:
            second.write("watched\n")
            first.write("typed\n")
            wait_for(first, b"got typed")
            with live.attach(s.id, keyboard="take") as third:
                third.write("taken\n")
                wait_for(third, b"got taken")
        s.close_input()


def wait_for(socket: object, text: bytes) -> None:
    found = b""
    for _, part in iter(socket):  # type: ignore[call-overload]
        found += part
        if text in found:
            return


@pytest.mark.anyio
async def test_async(daemon: str, project: Path) -> None:
    async with AsyncForkcell(daemon) as fc, await fc.cells.create(project, name="async-socket") as cell:
        await cell.start()
        lines: list[str] = []
        async with await cell.open_exec(["cat"]) as s:
            await s.write("hello\n")
            await s.close_input()
            exit = await s.wait(on_stdout=lines.append)
        assert (exit.exit_code, lines) == (0, ["hello"])
        await cell.files.write("a.txt", "text")
        assert await cell.files.read("a.txt") == b"text"
        attempts: list[int] = []
        await cell.aclose()
        race = await cell.race(["true", "false"], on_attempt=lambda a: attempts.append(a.attempt))
        assert sorted(attempts) == [1, 2] and race.winner and race.winner.attempt == 1
