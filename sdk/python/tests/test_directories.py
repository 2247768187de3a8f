"""Directories of this machine, and a daemon elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import daemon_program

from forkcell import AsyncForkcell, Forkcell, ForkcellError


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Serve a home on loopback, and return the URL and a token."""
    there = tmp_path_factory.mktemp("there")
    env = {**os.environ, "FORKCELL_HOME": str(there)}
    made = subprocess.run(
        [daemon_program(), "token", "create", "--quiet", "--name", "t", "--scope", "run", "--scope", "decide"],
        env=env, check=True, capture_output=True, text=True,
    )
    serving = [daemon_program(), "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(serving, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        monkeypatch.setenv("FORKCELL_HOME", str(tmp_path_factory.mktemp("own")))
        yield f"http://{address}", made.stdout.strip()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_directory(elsewhere: tuple[str, str], project: Path) -> None:
    (project / ".env").write_text("KEY=secret\n")
    url, token = elsewhere
    with Forkcell(url, token=token, binary=daemon_program()) as fc:
        cell = fc.cells.create(project, name="demo", policy="version: 1\n", labels={"a": "b"})
        assert cell.created is not None and [left.path for left in cell.created.left_out] == [".env"]
        assert cell.run("echo two > hello.txt; test ! -e .env").ok
        accepted = cell.accept(apply=True, reason="seen")
        assert accepted.applied is not None and (project / "hello.txt").read_text() == "two\n"
        cell.undo()
        assert (project / "hello.txt").read_text() == "hello\n"
        assert len(cell.apply(dry_run=True).written) == 1
        (project / "hello.txt").write_text("mine\n")
        with pytest.raises(ForkcellError) as e:
            cell.apply()
        assert e.value.code == "conflict" and e.value.details
        assert len(cell.refresh(on_conflict="theirs").changed) == 1
        assert fc.cells.create(project).name
        with pytest.raises(ForkcellError, match="polcy is no setting"):
            fc.cells.create(project, polcy="offline")  # type: ignore[call-arg]


def test_race_of_a_directory(elsewhere: tuple[str, str], project: Path) -> None:
    url, token = elsewhere
    with Forkcell(url, token=token, binary=daemon_program()) as fc:
        cell = fc.cells.create(project)
        for told in (None, lambda a: None):
            race = cell.race(["false", "echo two > hello.txt"], accept=True, apply=True, on_attempt=told)
            assert race.result.applied is not None and (project / "hello.txt").read_text() == "two\n"
            with pytest.raises(ForkcellError, match="if_match"):
                cell.undo(if_match=1)
            cell.undo()
            assert race.winner is not None
            cell.restore(run=race.winner.run_id)
        assert (project / "hello.txt").read_text() == "hello\n"
        with pytest.raises(ForkcellError) as e:
            cell.race("true", n=1, apply=True)
        assert e.value.code == "usage"


def test_nothing_is_decided_without_the_program(elsewhere: tuple[str, str], project: Path) -> None:
    url, token = elsewhere
    with Forkcell(url, token=token, binary=daemon_program()) as fc:
        cell = fc.cells.create(project)
        run = cell.run("echo two > hello.txt")
        with pytest.raises(ForkcellError) as e:
            cell.accept(apply=True, if_match=1)
        assert e.value.code == "changed"
        with Forkcell(url, token=token, binary="/nonexistent") as other, pytest.raises(ForkcellError) as e:
            other.cells.named(cell.name).accept(apply=True)
        assert e.value.code == "no_local_binary"
        assert fc.runs.get(run.run_id).decision == "pending"


@pytest.mark.anyio
async def test_directory_async(elsewhere: tuple[str, str], project: Path) -> None:
    url, token = elsewhere
    async with AsyncForkcell(url, token=token, binary=daemon_program()) as fc:
        cell = await fc.cells.create(project)
        assert (await cell.run("echo two > hello.txt")).ok
        await cell.accept(apply=True)
        assert (project / "hello.txt").read_text() == "two\n"
