"""Loads pytest and the tests once, so that branches of this interpreter only run them."""

import contextlib
import io

import pytest


class Collector:
    """Keeps the names of the tests that pytest finds."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.nodeid for item in session.items]


QUIET = ["-q", "-p", "no:cacheprovider"]
found = Collector()
pytest.main([*QUIET, "--collect-only"], plugins=[found])


def run(worker: int, workers: int) -> dict[str, object]:
    """Runs every test of one worker, and returns how that ended."""
    names, said = found.names[worker::workers], io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main([*QUIET, *names])
    return {"tests": len(names), "code": int(code), "said": said.getvalue()}
