"""The parser of streams."""

from __future__ import annotations

from forkcell._stream import EventParser, Lines


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
