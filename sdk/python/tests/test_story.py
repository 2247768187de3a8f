"""What a user does, against a real daemon."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from forkcell import AsyncForkcell, Forkcell, ForkcellError


def test_story(fc: Forkcell, project: Path) -> None:
    cell = fc.cells.create(project, name="story", policy="offline")
    assert cell.created and cell.created.files == 1
    lines: list[str] = []
    errors: list[str] = []
    r = cell.run("cat; echo two; echo oops >&2; echo hi > hello.txt", stdin="one\n", on_stdout=lines.append, on_stderr=errors.append)
    assert r.ok and r.changed_files == 1
    assert (lines, r.stdout, errors, r.stderr) == (["one", "two"], "one\ntwo\n", ["oops"], "oops\n")
    diff = cell.diff(run=r.run_id)
    assert [c.path for c in diff.changes().changes] == ["hello.txt"]
    assert "hello.txt | 2 +-" in diff.stat() and "+hi" in diff.patch() and cell.diff(paths=["other"]).patch() == ""
    accepted = cell.accept(apply=True, reason="good")
    assert accepted.applied and accepted.applied.written[0].path == "hello.txt"
    assert (project / "hello.txt").read_text() == "hi\n"
    cell.undo()
    assert (project / "hello.txt").read_text() == "hello\n"
    cell.remove(force=True)
    with pytest.raises(ForkcellError) as e:
        fc.cells.get("story")
    assert (e.value.code, e.value.status) == ("not_found", 404) and e.value.kind == "not_found" and e.value.request_id


@pytest.mark.parametrize("look", ["changes", "stat", "patch", "run"])
def test_accept_what_was_seen(fc: Forkcell, project: Path, look: str) -> None:
    cell = fc.cells.create(project, name=f"seen-{look}")
    cell.run("touch good")
    if look == "run":
        cell.run("touch more")
    else:
        assert getattr(cell.diff(), look)()
    other = fc.cells.named(cell.name)
    evil = other.run("touch evil")
    accepted = cell.accept(apply=True)
    assert accepted.run_id != evil.run_id and evil.run_id not in "".join(accepted.also_decided)
    assert (project / "good").exists() and not (project / "evil").exists()
    # A fork begins with undecided work, and says so; what others did before it is not taken with it.
    fork = cell.fork(name=f"seen-{look}-fork")[0]
    fork.run("touch own")
    fork.accept()
    fc.cells.named(fork.name).run("touch unseen")
    last = fork.run("touch last")
    with pytest.raises(ForkcellError) as e:
        fork.accept()
    assert e.value.code == "not_shown"
    fork.restore(run=last.run_id)
    fork.accept()  # it has shown nothing: all


def test_failure_is_a_result(fc: Forkcell, project: Path) -> None:
    cell = fc.cells.create(project, name="failure")
    r = cell.run(["sh", "-c", "printf '\\377'; exit 3"], restore_on_fail=True)
    assert (r.ok, r.exit_code, r.decision, r.stdout_bytes) == (False, 3, "restored", b"\xff")
    revision = cell.status().revision
    cell.checkpoint(name="one", if_match=revision)
    with pytest.raises(ForkcellError) as e:
        cell.checkpoint(name="two", if_match=revision)
    assert e.value.code == "changed"
    with pytest.raises(ForkcellError) as e:
        cell.run("true", timeout="soon")
    assert (e.value.code, e.value.status) == ("usage", 400)
    with pytest.raises(ForkcellError, match="body.timeout"):
        cell.run("true", timeout=5)  # type: ignore[arg-type]


def test_leaving_a_cell_keeps_the_error(daemon: str, project: Path) -> None:
    with Forkcell(daemon) as fc, pytest.raises(ZeroDivisionError), fc.cells.create(project, name="error") as cell:
        cell.name = "no name"  # it cannot be stopped
        raise ZeroDivisionError


def test_live(fc: Forkcell, project: Path) -> None:
    with fc.cells.create(project, name="live") as cell:
        cell.start()
        lines: list[str] = []
        assert cell.exec("cat; exit 4", stdin="in").exit_code == 4
        r = cell.exec(["echo", "hello"], on_stdout=lines.append)
        assert r.ok and lines == ["hello"] and r.stdout == "hello\n"
        assert cell.status().state == "live"
    assert cell.status().state == "idle"


def test_evidence(fc: Forkcell, project: Path) -> None:
    cell = fc.cells.create(project, name="evidence")
    r = cell.run("true")
    assert fc.receipts.verify(receipt=r.receipt_id).ok
    assert fc.receipts.bundle(r.receipt_id)
    assert [i.receipt_id for i in fc.receipts.list("evidence")] == [r.receipt_id]
    assert [c.name for c in cell.fork(name="evidence-try", n=2)] == ["evidence-try-1", "evidence-try-2"]
    assert not fc.policies.explain(cell="evidence", path="/srv/secret").allowed
    assert {"evidence", "evidence-try-1"} <= {c.name for c in fc.cells.list(state="idle")}
    assert list(fc.events.list(cell="evidence"))
    with pytest.raises(ForkcellError) as e:
        next(fc.events.follow("nonsense"))
    assert e.value.code == "usage"
    begun = cell.begin("sleep 1000")
    fc.runs.cancel(begun.run_id)
    cell.run("true", wait="30s")
    assert fc.runs.get(begun.run_id).outcome == "interrupted"


def test_race(fc: Forkcell, project: Path) -> None:
    cell = fc.cells.create(project, name="race")
    judged: list[int] = []
    for told in (None, lambda a: judged.append(a.attempt)):
        race = cell.race(["echo 41 > answer", "echo 42 > answer"], judge="grep -q 42 answer", keep=True, on_judged=told)
        assert [a.judge_exit_code for a in race] == [1, 0]
        assert race.winner and race.winner.attempt == 2 and "+42" in race.winner.diff().patch()
    assert sorted(judged) == [1, 2]
    for commands, code in (("make", "x"), (["make"], "x"), ("make", ["x"])):
        with pytest.raises(ValueError, match="commands or code"):
            cell.race(commands, code=code)


def test_leaving_a_run_ends_it(fc: Forkcell, project: Path) -> None:
    cell = fc.cells.create(project, name="leaving")
    started: list[str] = []

    def leave(run: str) -> None:
        started.append(run)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cell.run("sleep 1000", restore_on_fail=True, on_started=leave)
    cell.run("true", wait="30s")
    assert fc.runs.get(started[0]).outcome == "interrupted"


@pytest.mark.anyio
async def test_async(daemon: str, project: Path) -> None:
    async with AsyncForkcell(daemon) as fc, await fc.cells.create(project, name="async") as cell:
        lines: list[str] = []
        r = await cell.run("echo hello", on_stdout=lines.append)
        assert r.ok and lines == ["hello"]
        assert [i.run_id async for i in cell.runs()] == [r.run_id]
        await cell.start()
        assert (await cell.exec("exit 4")).exit_code == 4
        await cell.aclose()
        assert (await cell.status()).state == "idle"


@pytest.mark.anyio
async def test_cancelling_a_task_ends_its_run(daemon: str, project: Path) -> None:
    async with AsyncForkcell(daemon) as fc:
        started: list[str] = []
        with anyio.CancelScope() as scope:

            def leave(run: str) -> None:
                started.append(run)
                scope.cancel()

            async with await fc.cells.create(project, name="cancelling") as cell:
                await cell.run("sleep 1000", restore_on_fail=True, on_started=leave)
        await cell.run("true", wait="30s")
        assert (await fc.runs.get(started[0])).outcome == "interrupted"
