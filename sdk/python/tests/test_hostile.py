"""A daemon that sends what no daemon sends."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from wsproto.utilities import generate_accept_token

from forkcell import Forkcell, ForkcellError


@contextmanager
def against(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve an answer to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                answer(self)
            except OSError:
                pass  # the client had enough

        do_POST = do_GET

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()


def document(value: Any, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        text = json.dumps(value).encode()
        request.send_response(status)
        for name, of in headers.items():
            request.send_header(name, of)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    return answer


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(ForkcellError) as e:
        yield
    assert e.value.code == "protocol"


@pytest.mark.parametrize("cell", ["--to=/tmp/x", "-x", "../x", "a/b", "a\n", "a\x1b]52;c;eA==\x07", "a\u202eb", "A", 7, ["a"], {}])
def test_names_follow_their_grammar(cell: Any) -> None:
    with against(document({"cell": cell})) as url, Forkcell(url, token="t") as fc, refused():
        fc.cells.create({"empty": True})


@pytest.mark.parametrize("item", [{"run_id": "run_1/../../x"}, {"run_id": "run_1\x1b[2J"}, 7, None, []])
def test_ids_follow_their_grammar(item: Any) -> None:
    with against(document({"items": [item], "next": None})) as url, Forkcell(url, token="t") as fc, refused():
        list(fc.runs.list())


def test_a_name_is_no_flag_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "forkcell"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/args\necho \'{{"error": {{"code": "seen"}}}}\' >&2\nexit 1\n')
    program.chmod(0o755)
    with Forkcell("http://127.0.0.1:1", token="t", binary=str(program)) as fc:
        for verb in ("apply", "undo", "refresh"):
            with pytest.raises(ForkcellError) as e:
                fc.cells.named("x")._transport.binary.move(verb, "--to=/tmp/x", {"on_conflict": "fail"})
            assert e.value.code == "seen"
            assert (tmp_path / "args").read_text().splitlines()[-2:] == ["--", "--to=/tmp/x"]


def test_the_program_is_not_that_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the directory that a cell writes to."""
    program = tmp_path / "forkcell"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\necho '{{}}'\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in ("", ".", ":/nonexistent", "bin/..:/nonexistent"):
        monkeypatch.setenv("PATH", path)
        with Forkcell("http://127.0.0.1:1", token="t") as fc, pytest.raises(ForkcellError) as e:
            fc.cells.named("x")._transport.binary.move("apply", "x", {})
        assert e.value.code == "no_local_binary", path
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "answer",
    [
        document({}, 302, Location="http://127.0.0.1:1/"),
        document({"code": "a\x1b[2J"}, 400),
        document({"code": ["a"]}, 400),
        document("text"),
        document({"version": {}}),
    ],
)
def test_what_is_no_answer(answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
    with against(answer) as url, Forkcell(url, token="t") as fc, refused():
        fc.version()


def test_a_list_without_an_end() -> None:
    pages: list[Any] = [{"items": [], "next": "again"}, {"items": []}, []]
    for page in pages:
        with against(document(page)) as url, Forkcell(url, token="t") as fc, refused():
            list(fc.cells.list())


@pytest.mark.parametrize("page", [{"items": 7, "next": None}, {"items": {"a": 1}, "next": None}, {"items": [{}], "next": 7}, {"items": [{}], "next": {}}])
def test_what_is_no_list(page: Any) -> None:
    with against(document(page)) as url, Forkcell(url, token="t") as fc, refused():
        list(fc.runs.list())


def test_a_time_to_wait_that_is_no_number() -> None:
    with against(document({}, 503, **{"Retry-After": "\u00b2"})) as url, Forkcell(url, token="t") as fc, refused():
        fc.version()


@pytest.mark.parametrize("event", ["result", "started", "stdout", "problem"])
@pytest.mark.parametrize("data", ["7", "null", "[]", '"run_id"', "{}"])
def test_what_is_no_event(event: str, data: str) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(f"event: {event}\ndata: {data}\n\n".encode())

    with against(answer) as url, Forkcell(url, token="t") as fc, refused():
        fc.cells.named("demo").run("true", on_stdout=print, on_started=print)


def packed(times: int, size: int = 16 << 20) -> bytes:
    """Return zeros that were compressed so many times."""
    data = bytes(size)
    for _ in range(times):
        data = gzip.compress(data)
    return data


@pytest.mark.parametrize("times", [1, 2])
def test_answers_are_not_compressed(times: int) -> None:
    """What is asked for as it is, is not unpacked: a few bytes become as many as a daemon likes."""
    data = packed(times)

    def answer(request: BaseHTTPRequestHandler) -> None:
        assert request.headers["Accept-Encoding"] == "identity"
        request.send_response(200)
        request.send_header("Content-Encoding", ", ".join(["gzip"] * times))
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    with against(answer) as url, Forkcell(url, token="t") as fc:
        cell = fc.cells.named("demo")
        for ask in (fc.version, lambda: cell.files.read("a"), lambda: list(fc.events.follow()), lambda: cell.fetch(80, "/")):
            with refused():
                ask()


def test_a_file_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read as a whole is bounded: a cell makes files of any size."""
    monkeypatch.setattr("forkcell._sync.transport.MAX_DOCUMENT", 1 << 20)

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(bytes(65_536))

    with against(endless) as url, Forkcell(url, token="t") as fc:
        cell = fc.cells.named("demo")
        for ask in (lambda: cell.files.read("a"), lambda: cell.fetch(80, "/")):
            with refused():
                ask()
        assert len(next(iter(cell.files.stream("a")))) > 0


def test_nested_documents() -> None:
    def deep(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"[" * 200_000)

    with against(deep) as url, Forkcell(url, token="t") as fc, refused():
        fc.version()


@pytest.mark.parametrize("part", [b"data:\n" * 10_000, b"x" * 65_536])
def test_a_flood_of_events(part: bytes) -> None:
    def flood(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        while True:
            request.wfile.write(part)

    with against(flood) as url, Forkcell(url, token="t") as fc, refused():
        for _ in fc.events.follow():
            pass


def test_the_text_of_an_error_does_not_draw() -> None:
    evil = "a\x1b]52;c;eA==\x07\nb\u202ec\x9b31m"
    problem = {"code": "usage", "detail": evil, "hint": evil, "details": [evil]}
    with against(document(problem, 400)) as url, Forkcell(url, token="t") as fc:
        with pytest.raises(ForkcellError) as e:
            fc.version()
    assert str(e.value).isprintable()
    assert e.value.message == evil


def test_token_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is sent in the clear to this machine only, whatever proxy the environment names."""
    seen: list[str | None] = []

    def proxy(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers.get("Authorization"))
        document({})(request)

    with against(proxy) as url, against(document({"version": "1"}, 500)) as daemon:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with Forkcell(daemon, token="secret") as client, pytest.raises(ForkcellError):
            client.version()
    assert seen == []


@pytest.mark.parametrize(
    ("frame", "more"),
    [
        (b"\x82\x00", b""),
        (b"\x82\x02\x07x", b""),
        (b"\x82\x7f" + (1 << 30).to_bytes(8, "big") + b"\x01", bytes(65_536)),  # one of 1 GiB
        (b"\x02\x00", b"\x00\x00" * 32_768),  # one in empty pieces, without an end
        (b"\x01\x00", b"\x00\x00" * 32_768),
    ],
)
def test_output_of_no_stream(frame: bytes, more: bytes) -> None:
    """A message that is no output of a command, or does not end, is an error of the protocol."""

    def socket(request: BaseHTTPRequestHandler) -> None:
        accept = generate_accept_token(request.headers["Sec-WebSocket-Key"].encode()).decode()
        request.protocol_version = "HTTP/1.1"
        request.send_response(101)
        for name, value in (("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept), ("Sec-WebSocket-Protocol", "forkcell.exec.v1")):
            request.send_header(name, value)
        request.end_headers()
        started = json.dumps({"type": "started", "exec_id": "exec_01k00000000000000000000000"}).encode()
        request.wfile.write(b"\x81" + bytes([len(started)]) + started + frame)
        while more:
            request.wfile.write(more)

    with against(socket) as url, Forkcell(url) as client, pytest.raises(ForkcellError) as raised:
        client.cells.named("demo").open_exec("true").wait()
    assert raised.value.code == "protocol"
