"""The examples, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forkcell import Forkcell

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"


@pytest.mark.skipif(not Path("/usr/bin/pytest").exists(), reason="the cell needs the host's pytest (python3-pytest)")
def test_race(daemon: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "answer.txt").write_text("41\n")
    (project / "test_answer.py").write_text("def test_answer():\n    assert open('answer.txt').read() == '42\\n'\n")
    script(project / "fix-a.sh", "echo 40 > answer.txt")
    script(project / "fix-b.sh", "echo 42 > answer.txt")
    result = subprocess.run(
        [sys.executable, EXAMPLES / "race.py"],
        cwd=tmp_path,
        env={**os.environ, "FORKCELL_URL": daemon},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "1 failed" in result.stdout and result.stdout.count("answer.txt") >= 2, result.stdout
    with Forkcell(daemon) as fc:
        race = fc.cells.named("project").race(["./fix-a.sh", "./fix-b.sh"], judge="pytest -q", keep=True)
        assert race.winner and race.winner.attempt == 2 and "+42" in race.winner.diff().patch()
        assert [a.judge_exit_code for a in race] == [1, 0]


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
