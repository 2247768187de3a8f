"""The example of the repository's README prints what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_readme(daemon: str, tmp_path: Path) -> None:
    text = Path(__file__).parents[3].joinpath("README.md").read_text()
    example = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert example is not None
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "app.conf").write_text("greeting = hi\n")
    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=tmp_path, env={"FORKCELL_URL": daemon}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == example[2].strip()
