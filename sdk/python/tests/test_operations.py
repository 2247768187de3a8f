"""Every operation of the API, found in the daemon's journal after the methods were called."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from forkcell import Cell, Forkcell, ForkcellError

# The operations without a method, and why.
LEFT_OUT = {
    "metrics": "Prometheus reads it",
    "docs": "people read it",
    "agentSocket": "the command line uses it for terminals",
    "checkAgent": "it succeeds only with an agent on the host; its error is looked at",
    "runSocket": "the command line uses it for terminals; run takes input too",
    "getAccepted": "the command line uses it to write back",
    "reportPublication": "the command line uses it after it has published",
    "planRun": "the command line uses it for dry runs",
    "forwardPort": "the command line uses it; ports answer with HTTP",
    "copyFiles": "the command line uses it for cp",
    "getCellRun": "it is getRun",
    "cancelCellRun": "it is cancelRun",
    "getCellRunLogs": "it is getRunLogs",
    "listRunEvents": "it is listEvents of a run",
    "listCellRunEvents": "it is listEvents of a run",
}


def test_every_operation(fc: Forkcell, daemon: str, project: Path) -> None:
    cell = fc.cells.create(project, name="every")
    change(fc, cell)
    operate(fc)
    with fc.cells.create(project, name="every-live") as live:
        live.start()
        execute(live)
        use_files(live)
        use_ports(live)
    with fc.cells.create(project, name="every-warm") as warm:
        use_branches(warm)
    look(fc, live)
    use_sessions(fc, project)
    with httpx.Client(transport=httpx.HTTPTransport(uds=daemon.removeprefix("unix:"))) as direct:
        paths = direct.get("http://localhost/openapi.json").json()["paths"]
    routes = {o["operationId"]: f"{method.upper()} {path}" for path, methods in paths.items() for method, o in methods.items()}
    missing: set[str] = set()
    begin = time.monotonic()
    while missing != set(LEFT_OUT) and time.monotonic() < begin + 60:  # a request is recorded after its answer
        done = succeeded(fc)
        missing = {operation for operation, route in routes.items() if route not in done}
    assert missing == set(LEFT_OUT)


def use_sessions(fc: Forkcell, project: Path) -> None:
    cell = fc.cells.create(project, name="every-agent")
    assert any(agent.name == "generic" and agent.ready for agent in fc.agents.list())
    assert fc.agents.get("claude").document
    with pytest.raises(ForkcellError):
        fc.agents.check("generic")  # it has no program
    assert list(fc.agents.credentials("claude", mode="build"))
    command = ["sh", "-c", "echo work > work; cat"]
    assert fc.sessions.plan(cell, "generic", arguments=command, allow_nongit=True).terms.session_assurance == "managed"
    session = fc.sessions.start(cell, "generic", arguments=command, turns="1h", allow_nongit=True)
    assert session.started and session.started.status == "running"
    assert [info.session_id for info in fc.sessions.list(agent="generic", status="running")] == [session.name]
    assert fc.sessions.get(session.name).cell.name == session.name
    assert session.send("hello").sent_bytes == 6
    back = session.rewind(to=0)
    assert back.turn == 0 and back.session and back.session.status == "running"
    assert [turn.turn for turn in session.turns()][0] == 0
    assert session.stop().status == "exited"
    session.accept(reason="good")
    assert "exit" in {entry.kind for entry in session.timeline()}
    try:
        session.publish("work")
        raise AssertionError("its source is no git repository")
    except ForkcellError:
        pass
    session.remove(force=True)


def succeeded(fc: Forkcell) -> set[str]:
    """Return the routes of requests that succeeded, went to a port where nothing listens, or ask for what the host cannot do."""
    calls = [record["api"] for record in fc.events.list(class_="api_activity")]
    return {c["operation"] for c in calls if c["response"]["code"] < 400 or c["response"]["code"] in (422, 502)}


def change(fc: Forkcell, cell: Cell) -> None:
    """Change an idle cell."""
    assert fc.cells.get("every").name == "every"
    cell.update(labels={"team": "a"}, ttl="1h")
    assert [c.name for c in fc.cells.list(labels={"team": "a"})] == ["every"]
    info = cell.update(name="every-renamed", ttl=None, labels=None)
    assert (cell.name, info.ttl, info.labels) == ("every-renamed", "", {})
    cell.policy()
    cell.set_policy("offline")
    cell.checkpoint(name="one")
    cell.run("echo hi > hello.txt")
    fc.policies.suggest(cell=cell.name)
    cell.diff().changes()
    cell.reject()
    cell.run("echo hi > hello.txt")
    cell.accept()
    cell.apply()
    cell.undo()
    cell.restore(checkpoint="one")
    cell.refresh()
    cell.verify()
    assert len(list(cell.checkpoints())) >= 3 and len(list(cell.log())) >= 3
    assert cell.disk().cells
    cell.fork(name="every-fork")
    kept = cell.race("true", n=2, keep=True)
    chosen = cell.choose(kept.attempts[1].cell, reason="the second")
    assert chosen.winner and chosen.winner.attempt == 2 and chosen.result.decision_id
    assert cell.choose(kept.attempts[1].cell, apply=True).result.decision_id == chosen.result.decision_id
    upload = fc.upload(cell.export())
    copy = fc.cells.create({"upload": upload.upload}, name="every-copy")
    assert copy.created and copy.created.root == cell.status().root
    copy.remove(applied=copy.status().head)
    assert copy.undelete().name == "every-copy"
    copy.remove(force=True, now=True)


def operate(fc: Forkcell) -> None:
    """Use what is about the daemon."""
    assert fc.health().status == fc.ready().status == "ok"
    assert fc.version().api == "v1"
    fc.key()
    fc.gc(dry_run=True)
    assert any(u.cell == "every-renamed" for u in fc.usage().cells)
    assert fc.doctor()[0].status and fc.disk().cells
    made = fc.tokens.create("every", ["read"], expires="1h")
    assert made.token and made.id in [t.id for t in fc.tokens.list()]
    fc.tokens.revoke(made.id)
    assert "offline" in [p.name for p in fc.policies.presets()]
    fc.policies.validate("offline")
    fc.policies.explain(policy="offline", host="example.com:443")


def execute(cell: Cell) -> None:
    """Use a live cell."""
    cell.exec("true")
    for verb in (cell.pause, cell.resume):
        try:
            verb()
        except ForkcellError as e:  # an ordinary user may have no freezer
            assert e.code == "freezer"
    assert cell.pause(fs_only=True).on_disk
    assert cell.resume().state == "live"
    assert next(cell.processes()).pid
    with cell.open_exec(["cat"]) as first, cell.attach(first.id) as second:
        second.close_input()
        assert first.wait().exit_code == 0


def use_branches(cell: Cell) -> None:
    """Make a template, and use branches of it."""
    cell.warm_python(modules=["json"], warm={"ready_timeout": "50s"})
    branch = cell.branch(n=2, name="every-try")
    assert [c.name for c in branch] == ["every-try-1", "every-try-2"] and len(branch) == 2
    assert branch.result.source == cell.name and branch.result.children[0].first_answer_us > 0
    race = cell.race(code=["1 / 0", "open('won', 'w').write('by code')"], warm=True, keep=True)
    assert race.winner and race.winner.attempt == 2 and race.winner.diff().stat()
    assert cell.race(code="json.dumps(1)", n=2, warm=True).winner
    first, second = branch
    with first, second:
        assert first.eval("print('out'); x = 41").output == "out\n"
        assert (first.eval("x + 1").value, first.eval("[x]").value_json) == ("42", [41])
        error = second.eval("x").error
        assert error and error.type == "NameError"
        refused("no_memory", lambda: cell.branch(from_="base"))
        refused("changed", lambda: cell.branch(if_match=1 << 40))
        refused("runtime", lambda: first.checkpoint(memory=True))


def refused(code: str, call: Callable[[], object]) -> None:
    """Call what the daemon refuses with a code."""
    with pytest.raises(ForkcellError) as e:
        call()
    assert e.value.code == code


def use_ports(cell: Cell) -> None:
    """Send requests to a listener, and to a port where none is."""
    with cell.open_exec("python3 -u -m http.server --bind 127.0.0.1 8080") as server:
        for _, part in server:
            if b"Serving" in part:
                break
        response = cell.fetch(8080, "/hello.txt?a=b")
        assert (response.status_code, response.text, "Set-Cookie" in response.headers) == (200, "hello\n", False)
        server.signal("KILL")
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert cell.fetch(8081, "/", method=method, content="x" if method == "POST" else None).status_code == 502


def use_files(cell: Cell) -> None:
    """Use every verb of files."""
    for event in cell.files.watch(recursive=True):
        if event.event == "started":
            cell.files.write("new.txt", "0123", mode=0o600)
        elif event.path == "new.txt":
            break
    cell.files.mkdir("a/b")
    cell.files.move("new.txt", "a/moved.txt")
    info = cell.files.stat("a/moved.txt")
    assert (info.mode, info.size, info.type) == ("0600", 4, "file")
    assert {e.path for e in cell.files.list(depth=2)} == {"hello.txt", "a", "a/b", "a/moved.txt"}
    assert (cell.files.read("a/moved.txt"), b"".join(cell.files.stream("a/moved.txt", offset=2))) == (b"0123", b"23")
    cell.files.write("large", (bytes(1 << 20) for _ in range(3)))
    assert cell.files.stat("large").size == 3 << 20
    tar = subprocess.run(["tar", "-t"], input=b"".join(cell.files.archive("a")), capture_output=True, check=True)
    assert b"moved.txt" in tar.stdout
    cell.files.remove("a", recursive=True)


def look(fc: Forkcell, cell: Cell) -> None:
    """Read what a run leaves."""
    begun = cell.begin("echo hello; sleep 1000")
    output = fc.runs.output(begun.run_id, follow=True)
    assert next(output) == b"hello\n"
    fc.runs.cancel(begun.run_id)
    assert list(output) == []
    r = cell.run("echo oops >&2", wait="30s")
    assert b"".join(fc.runs.output(r.run_id, stream="stderr")) == b"oops\n"
    assert fc.runs.get(r.run_id).outcome == "succeeded"
    assert r.run_id in [i.run_id for i in cell.runs()] and r.run_id in [i.run_id for i in fc.runs.list()]
    assert r.receipt_id in [i.receipt_id for i in fc.receipts.list(cell.name)]
    assert json.dumps(fc.receipts.get(r.receipt_id)) and fc.receipts.bundle(r.receipt_id)
    assert fc.receipts.verify(receipt=r.receipt_id).ok
    assert next(fc.decisions.list()) and next(fc.graph())
    assert list(fc.events.list(run=r.run_id))
