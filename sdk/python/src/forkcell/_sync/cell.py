"""One cell and its verbs."""

from __future__ import annotations

from collections.abc import Iterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

import httpx
from contextlib import nullcontext

from .. import models
from .._call import Call, argv, cell_path, conditional, fields, get, owned, post
from .._decode import decode
from .._errors import ForkcellError
from .._results import ExecAnswer, RunAnswer
from .._seen import Seen
from .._stream import Event, Recorder
from .branch import Branch
from .diff import Diff
from .execsocket import ExecSocket, connect
from .files import Files
from .race import Attempt, Race
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .. import bodies

T = TypeVar("T")
STOPPING = 60  # seconds, for a caller that is cancelled


class Cell:
    """One cell of a daemon. Its methods are the verbs of the command line.

    if_match makes a change conditional: it fails with the code changed unless the cell
    has this revision. Leaving a with block stops the cell if it is live, and does not
    remove it.
    """

    name: str
    """The name of the cell."""
    created: models.InitResult | None
    """How the cell was made, such as what was left out, if this client made it."""
    files: Files
    """The files of the cell."""

    def __init__(self, transport: Transport, name: str, created: models.InitResult | None = None) -> None:
        self._transport = transport
        self.name = name
        self.created = created
        self.files = Files(transport, name)
        self._seen = Seen()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ForkcellError:
            if error is None:  # else that says more
                raise

    def close(self) -> None:
        """Stop the cell if it is live."""
        with nullcontext():
            try:
                self.stop()
            except ForkcellError as e:
                if e.code not in ("not_started", "not_found"):
                    raise

    def status(self) -> models.StatusResult:
        """Return everything about the cell."""
        return self._transport.send(get(self._path()), models.StatusResult)

    def log(self) -> Iterator[models.LogEntry]:
        """Return the history of the cell, the oldest first."""
        return self._transport.pages(self._path("/log"), models.LogEntry)

    def disk(self) -> models.DiskResult:
        """Return the disk space of the cell."""
        return self._transport.send(get(self._path("/disk")), models.DiskResult)

    def update(self, *, if_match: int | None = None, **options: Unpack[bodies.UpdateBody]) -> models.CellInfo:
        """Change the name and the settings of the cell. None takes a setting away; labels are all labels."""
        call = conditional(Call("PATCH", self._path(), dict(options)), if_match)
        info = self._transport.send(call, models.CellInfo)
        self.name, self.files = info.name, Files(self._transport, info.name)
        return info

    def remove(
        self, *, force: bool = False, now: bool = False, applied: str | None = None, if_match: int | None = None
    ) -> None:
        """Remove the cell. One with work that is undecided or not applied takes force.

        force also stops a live cell, and gives up unfinished work. undelete brings the cell
        back for seven days, unless now is given. applied is a state that a directory of the
        caller has: accepted work up to it is not lost.
        """
        given = {"force": "true" if force else None, "now": "true" if now else None, "applied": applied}
        call = Call("DELETE", self._path(), query={name: value for name, value in given.items() if value})
        self._transport.document(conditional(call, if_match))

    def undelete(self) -> models.CellInfo:
        """Bring back the cell, which was removed, as it was."""
        return self._move("/undelete", {}, models.CellInfo)

    def fork(self, *, if_match: int | None = None, **options: Unpack[bodies.ForkBody]) -> list[Cell]:
        """Make cells with the state of this one, its undecided work too."""
        made = self._move("/fork", options, models.ForkedCells, if_match)
        forks = [Cell(self._transport, fork.cell) for fork in made.cells]
        for fork in forks:
            fork._seen.set(made.pending_runs)
        return forks

    def run(
        self,
        command: str | Sequence[str],
        *,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        on_started: Callable[[str], object] | None = None,
        idempotency_key: str | None = None,
        if_match: int | None = None,
        **options: Unpack[bodies.RunBody],
    ) -> RunAnswer:
        """Run a command as a transaction, and return its result when it has ended.

        Text is a line for the shell. on_stdout and on_stderr are called with each line as
        it comes; the result has the first MiB of each stream. A caller that goes away ends
        the run, unless it gave an idempotency_key.
        """
        call = owned(self._path("/runs"), {**options, "command": argv(command)}, key=idempotency_key, if_match=if_match)
        call.on_stdout, call.on_stderr, call.on_started = on_stdout, on_stderr, on_started
        answer = self._output(call, RunAnswer)
        self._seen.ran(answer.run_id, answer.decision)
        return answer

    def begin(
        self,
        command: str | Sequence[str],
        *,
        idempotency_key: str | None = None,
        if_match: int | None = None,
        **options: Unpack[bodies.RunBody],
    ) -> models.RunStarted:
        """Begin a run that goes on without the caller. runs.get has its result when it has ended."""
        call = post(self._path("/runs"), {**options, "command": argv(command)}, key=idempotency_key, if_match=if_match)
        call.headers["Prefer"] = "respond-async"
        return self._transport.send(call, models.RunStarted)

    def race(
        self,
        commands: str | Sequence[str | Sequence[str]] = (),
        *,
        code: str | Sequence[str] = (),
        judge: str | Sequence[str] | None = None,
        on_attempt: Callable[[Attempt], object] | None = None,
        on_judged: Callable[[Attempt], object] | None = None,
        idempotency_key: str | None = None,
        if_match: int | None = None,
        **options: Unpack[bodies.RaceBody],
    ) -> Race:
        """Try commands in forks of the cell, judge the results, and name the best.

        Text is one command for n attempts; a list has a command for each attempt. With
        warm=True the attempts are branches of the cell, and code is what their warm
        interpreters run instead of commands: one text for n attempts, or a list.
        on_attempt is called with each attempt when its command has ended, on_judged when
        it has been judged. A caller that goes away ends the race, unless it gave an
        idempotency_key.
        """
        body: dict[str, Any] = {**options, "cell": self.name, "judge": argv(judge) if judge else None}
        if (isinstance(commands, str) or isinstance(code, str)) and commands and code:
            raise ValueError("give commands or code; both only as lists")
        if isinstance(commands, str):
            body["command"] = argv(commands)
        elif isinstance(code, str):
            body["code"] = code
        else:
            body["attempts"] = [{"command": argv(c)} for c in commands] + [{"code": c} for c in code]
        here = bool(options.get("apply") and options.get("accept")) and self._sent()
        if here:
            body["apply"] = False
        call = owned("/v1/race", body, key=idempotency_key, if_match=if_match)
        race = Race(self._transport, self._race(call, on_attempt, on_judged))
        if here and race.winner:
            race.result.applied = self._here("apply", {}, models.ApplyResult)
        return race

    def _race(
        self, call: Call, on_attempt: Callable[[Attempt], object] | None, on_judged: Callable[[Attempt], object] | None
    ) -> Any:
        if not on_attempt and not on_judged:
            return self._transport.document(call)
        calls = {"attempt": on_attempt, "judged": on_judged}

        def take(event: Event) -> Any:
            if function := calls.get(event.name):
                function(Attempt._from(self._transport, event.json()))
            return event.json() if event.name == "result" else None

        return self._transport.follow(call, take)

    def runs(self) -> Iterator[models.RunInfo]:
        """Return the runs of the cell, the oldest first."""
        return self._transport.pages(self._path("/runs"), models.RunInfo)

    def diff(
        self,
        *,
        run: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        paths: Sequence[str] = (),
        since_apply: bool = False,
        all: bool = False,
    ) -> Diff:
        """Compare two states; without any, those around all undecided work. It sends nothing yet.

        accept takes that work then. Without undecided work the states are those of the last run.
        run is what a run changed. from_ and to are states of the cell, or other cells.
        since_apply is what the source directory does not have yet. all shows the cell's
        home too.
        """
        query = {"run": run, "from": from_, "to": to, "path": list(paths) or None}
        flags = {"since_apply": "true" if since_apply else None, "all": "true" if all else None}
        return Diff(self._transport, self._path("/diff"), query | flags, self._seen)

    def export(self, *, checkpoint: str | None = None, changes: bool = False) -> Iterator[bytes]:
        """Return a state, the present one by default, as a tar archive, in parts.

        changes is only what differs from the last applied state.
        """
        call = get(self._path("/export"), checkpoint=checkpoint, changes="true" if changes else None)
        return self._transport.parts(call, "application/x-tar")

    def checkpoints(self) -> Iterator[models.CheckpointInfo]:
        """Return the states of the cell, the oldest first."""
        return self._transport.pages(self._path("/checkpoints"), models.CheckpointInfo)

    def checkpoint(self, *, if_match: int | None = None, **options: Unpack[bodies.CheckpointBody]) -> models.CheckpointResult:
        """Name the present state."""
        return self._move("/checkpoints", options, models.CheckpointResult, if_match)

    def restore(self, *, if_match: int | None = None, **options: Unpack[bodies.RestoreBody]) -> models.MoveResult:
        """Go back to a state; without one, to the state before the last run."""
        return self._go_back("/restore", options, if_match)

    def _go_back(self, verb: str, options: Any, if_match: int | None) -> models.MoveResult:
        moved = self._move(verb, options, models.MoveResult, if_match)
        self._seen.left(moved.run_id)
        return moved

    def accept(self, *, if_match: int | None = None, **options: Unpack[bodies.AcceptBody]) -> models.AcceptResult:
        """Accept undecided work: a run, or runs.

        Without them it accepts what this cell has shown, by diff and as the results of
        runs, and nothing that came meanwhile: if other work is part of that, it fails with
        the code not_shown. A cell that has shown nothing accepts all undecided work; the
        result names it.
        """
        here = bool(options.get("apply")) and self._sent()
        if here:
            options["apply"] = False
        self._seen.bind(options, if_match)
        accepted = self._move("/accept", options, models.AcceptResult, if_match)
        self._seen.set()
        if here:
            accepted.applied = self._here("apply", {}, models.ApplyResult)
        return accepted

    def choose(self, attempt: str, *, if_match: int | None = None, **options: Unpack[bodies.ChooseBody]) -> Race:
        """Choose the winner of a race that has ended.

        attempt is the cell of an attempt that the race has kept. The cell that was raced
        moves to its state, unless it has moved since the race began.
        """
        here = bool(options.get("apply")) and self._sent()
        body: dict[str, Any] = {**options, "attempt": attempt}
        if here:
            body["apply"] = False
        document = self._transport.document(post(self._path("/choose"), body, if_match=if_match))
        race = Race(self._transport, document)
        if here:
            race.result.applied = self._here("apply", {}, models.ApplyResult)
        return race

    def reject(self, *, if_match: int | None = None, **options: Unpack[bodies.RejectBody]) -> models.MoveResult:
        """Reject a run, and go back to the state before it."""
        return self._go_back("/reject", options, if_match)

    def apply(self, *, if_match: int | None = None, **options: Unpack[bodies.ApplyBody]) -> models.ApplyResult:
        """Write accepted work to the source directory, or to another one."""
        if self._sent(if_match):
            return self._here("apply", options, models.ApplyResult)
        return self._move("/apply", options, models.ApplyResult, if_match)

    def undo(self, *, if_match: int | None = None, **options: Unpack[bodies.UndoBody]) -> models.ApplyResult:
        """Take the last apply back."""
        if self._sent(if_match):
            return self._here("undo", options, models.ApplyResult)
        return self._move("/undo", options, models.ApplyResult, if_match)

    def refresh(self, *, if_match: int | None = None, **options: Unpack[bodies.RefreshBody]) -> models.RefreshResult:
        """Take over what changed in the source directory."""
        if not options.get("upload") and self._sent(if_match):
            return self._here("refresh", options, models.RefreshResult)
        return self._move("/refresh", options, models.RefreshResult, if_match)

    def verify(self, *, if_match: int | None = None, **options: Unpack[bodies.VerifyBody]) -> models.VerifyResult:
        """Recompute the hashes of states."""
        return self._move("/verify", options, models.VerifyResult, if_match)

    def start(self, *, if_match: int | None = None, **options: Unpack[bodies.StartBody]) -> models.StartResult:
        """Make the cell live: it runs until it is stopped, and exec executes commands in it."""
        return self._move("/start", options, models.StartResult, if_match)

    def warm_python(
        self,
        *,
        modules: Sequence[str] = (),
        script: str | None = None,
        program: str | None = None,
        if_match: int | None = None,
        **options: Unpack[bodies.StartBody],
    ) -> models.StartResult:
        """Make the cell a template: a Python interpreter imports modules, runs a script of the cell, and is warm.

        Then branch makes cells that begin with its memory.
        """
        python = fields({"modules": list(modules) or None, "script": script, "program": program})
        options["warm"] = {**options.get("warm", {}), "python": python}  # type: ignore[typeddict-item]
        return self._move("/start", options, models.StartResult, if_match)

    def branch(
        self,
        *,
        from_: str | None = None,
        if_match: int | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[bodies.BranchBody],
    ) -> Branch:
        """Make live cells that begin with the memory and the files that a live cell has now, all or none.

        from_ is a checkpoint with memory, which they begin with instead.
        """
        call = post(self._path("/branch"), {**options, "from": from_}, key=idempotency_key, if_match=if_match)
        result = self._transport.send(call, models.BranchResult)
        cells = [Cell(self._transport, child.cell) for child in result.children]
        for cell in cells:
            cell._seen.set([result.checkpoint_id])
        return Branch(result, cells)

    def eval(self, code: str, *, idempotency_key: str | None = None) -> models.EvalResult:
        """Run code in the warm interpreter of a live cell, and return its value, its output and what it raised.

        Names that the code defines stay. A caller that goes away leaves the code running.
        """
        call = owned(self._path("/eval"), {"code": code}, key=idempotency_key)
        return self._transport.send(call, models.EvalResult)

    def stop(self, *, if_match: int | None = None, **options: Unpack[bodies.StopBody]) -> models.RunResult:
        """End a live cell. The whole time that it was live is one run."""
        run = self._move("/stop", options, models.RunResult, if_match)
        self._seen.ran(run.run_id, run.decision)
        return run

    def pause(self, *, if_match: int | None = None, **options: Unpack[bodies.PauseBody]) -> models.PauseResult:
        """Stop the processes of a live cell until resume. With fs_only they end, and its files are kept."""
        return self._move("/pause", options, models.PauseResult, if_match)

    def resume(self, *, if_match: int | None = None, **options: Unpack[bodies.ResumeBody]) -> models.PauseResult:
        """Continue the processes of a paused cell. With fs_only it is started without them."""
        return self._move("/resume", options, models.PauseResult, if_match)

    def processes(self) -> Iterator[models.ProcessInfo]:
        """Return the processes of a live cell."""
        return self._transport.pages(self._path("/processes"), models.ProcessInfo)

    def exec(
        self,
        command: str | Sequence[str],
        *,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        on_started: Callable[[str], object] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[bodies.ExecBody],
    ) -> ExecAnswer:
        """Execute a command in a live cell, as run does in one that is not."""
        call = owned(self._path("/exec"), {**options, "command": argv(command)}, key=idempotency_key)
        call.on_stdout, call.on_stderr, call.on_started = on_stdout, on_stderr, on_started
        return self._output(call, ExecAnswer)

    def open_exec(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        timeout: str | None = None,
        tty: bool = False,
        cols: int | None = None,
        rows: int | None = None,
        attached: bool = False,
    ) -> ExecSocket:
        """Execute a command in a live cell with its input and output in a socket.

        tty gives it a terminal of cols and rows; what it writes there is stdout. attached
        ends the command with the socket.
        """
        variables = [f"{key}={value}" for key, value in (env or {}).items()]
        query = {"command": argv(command), "env": variables or None, "workdir": workdir, "timeout": timeout}
        terminal = {"tty": "true" if tty else None, "cols": cols, "rows": rows, "attached": "true" if attached else None}
        return connect(self._transport, get(self._path("/exec"), **query, **terminal))

    def attach(
        self, exec: str, *, cols: int | None = None, rows: int | None = None, keyboard: Literal["share", "take"] | None = None
    ) -> ExecSocket:
        """Join a command that open_exec began, by its id: the last 256 KiB of its output, and what comes.

        Of the clients that share the keyboard the first one types, and one that takes it
        becomes the first. Without keyboard the client always types.
        """
        call = get(self._path(f"/exec/{quote(exec, safe='')}"), cols=cols, rows=rows, keyboard=keyboard)
        return connect(self._transport, call)

    def fetch(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: str | bytes | None = None,
    ) -> httpx.Response:
        """Send a request to a listener on the loopback of a live cell, and return its answer.

        path may have a query. The answer of the daemon itself, for example if nothing
        listens there, has the type application/problem+json.
        """
        target = self._path(f"/ports/{port}/{path.removeprefix('/')}")
        return self._transport.fetch(Call(method, target, headers=dict(headers or {}), content=content))

    def policy(self) -> models.PolicyResult:
        """Return the policy of the cell."""
        return self._transport.send(get(self._path("/policy")), models.PolicyResult)

    def set_policy(self, policy: str, *, if_match: int | None = None) -> models.PolicyApplied:
        """Give the cell another policy: YAML, or the name of a preset."""
        call = conditional(Call("PUT", self._path("/policy"), {"policy": policy}), if_match)
        return self._transport.send(call, models.PolicyApplied)

    def _path(self, below: str = "") -> str:
        return cell_path(self.name, below)

    def _sent(self, if_match: int | None = None) -> bool:
        """Report whether the files of the cell were sent to a daemon elsewhere, so that the program here writes them.

        That cannot be conditional.
        """
        if self._transport.address.socket is not None or not (self.status()).source.startswith("upload:"):
            return False
        self._transport.binary.find()
        if if_match is not None:
            raise ForkcellError("usage", message=f"if_match is not possible where files are sent to {self._transport.address}")
        return True

    def _here(self, verb: str, options: Any, kind: type[T]) -> T:
        """Carry out a verb with a directory of this machine."""
        return decode(kind, self._transport.binary.move(verb, self.name, options))

    def _move(self, below: str, options: Any, kind: type[T], if_match: int | None = None) -> T:
        return self._transport.send(post(self._path(below), options, if_match=if_match), kind)

    def _output(self, call: Call, kind: type[T]) -> T:
        if call.streams:
            return decode(kind, self._transport.follow(call, Recorder(call).take))
        return self._transport.send(call, kind)
