"""The parser of streams."""

from __future__ import annotations

import base64
import json

import pytest

from forkcell._call import Call
from forkcell._stream import MAX_OUTPUT, Event, EventParser, Lines, Recorder


def test_events_in_pieces() -> None:
    text = b":\n\nevent: a\nid: 7\ndata: one\ndata:two\n\r\n: comment\ndata: {}\n\nevent: cut\ndata: x"
    for size in (1, 3, len(text)):
        parser = EventParser()
        found = [e for i in range(0, len(text), size) for e in parser.feed(text[i : i + size])]
        assert [(e.name, e.id, e.data) for e in found] == [("a", "7", "one\ntwo"), ("", "", "{}")]


def test_lines() -> None:
    found: list[str] = []
    lines = Lines(found.append)
    for piece in (b"a\r\nb", b"\xc3", b"\xa4\n", b"", b"\xffrest"):
        lines.feed(piece)
    lines.feed(b"", final=True)
    assert found == ["a", "b\u00e4", "\ufffdrest"]


@pytest.mark.parametrize(
    ("output", "truncated", "kept"),
    [
        (b"x" * MAX_OUTPUT, False, {"stdout": "x" * MAX_OUTPUT}),
        # The cut is in the middle of a character.
        (b"a" + "\u00e4".encode() * MAX_OUTPUT, True, {"stdout": "a" + "\u00e4" * (MAX_OUTPUT // 2 - 1)}),
        (b"a\xc3", False, {"stdout": "", "stdout_base64": "YcM="}),
    ],
)
def test_kept_output(output: bytes, truncated: bool, kept: dict[str, str]) -> None:
    recorder = Recorder(Call("POST", "/"))
    recorder.take(Event("stdout", "", json.dumps({"data": base64.b64encode(output).decode()})))
    assert recorder.take(Event("result", "", "{}")) == {"truncated": truncated, "stderr": "", **kept}
