"""A real daemon on a home of its own, for all tests."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forkcell import Forkcell


def daemon_program() -> str:
    return os.environ["FORKCELL_BIN"]


@pytest.fixture(scope="session")
def daemon() -> Iterator[str]:
    """Serve an empty home, and return the URL."""
    with tempfile.TemporaryDirectory(prefix="fc") as home:
        env = {**os.environ, "FORKCELL_HOME": home}
        process = subprocess.Popen([daemon_program(), "serve"], env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            wait_for(process, Path(home, "api.sock"))
            yield f"unix:{home}/api.sock"
        finally:
            process.terminate()
            process.communicate(timeout=60)


def wait_for(process: subprocess.Popen[str], path: Path) -> None:
    """Read what the daemon prints until it can be connected to."""
    assert process.stdout is not None
    for _ in iter(process.stdout.readline, ""):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
        return
    pytest.fail(f"the daemon did not start: {process.communicate()[1]}")


@pytest.fixture
def fc(daemon: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forkcell]:
    """The client of the default daemon."""
    monkeypatch.setenv("FORKCELL_URL", daemon)
    with Forkcell() as client:
        yield client


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with one file."""
    (tmp_path / "hello.txt").write_text("hello\n")
    return tmp_path


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
