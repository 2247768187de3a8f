"""Streams of server-sent events, and the output of commands in them."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ._call import Call
from ._decode import field, loads
from ._errors import ForkcellError

MAX_EVENT = 64 << 20
LINE_COST = 256  # what a line takes besides its text
MAX_LINE = 64 << 10
MAX_OUTPUT = 1 << 20


@dataclass
class Event:
    """One event of a stream."""

    name: str = ""
    id: str = ""
    data: str = ""

    def json(self) -> Any:
        return loads(self.data)


class LineSplitter:
    """Finds the lines in the bytes of a stream, without their ends."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of a line that has not ended
        self.size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes, and return the lines that are complete with them."""
        first, *lines = data.split(b"\n")
        self._parts.append(first)
        self.size += len(first)
        for line in lines:
            yield self.rest()
            self._parts, self.size = [line], len(line)
        if self.size > MAX_EVENT:
            raise ForkcellError("protocol", message=f"a line of more than {MAX_EVENT} bytes")

    def rest(self) -> bytes:
        """Return the line that has not ended, or nothing, and forget it."""
        line, self._parts, self.size = b"".join(self._parts), [], 0
        return line


class EventParser:
    """Finds the events in the bytes of a stream. An event that is cut off is dropped."""

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._fields: list[tuple[str, str]] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Add bytes, and return the events that are complete with them."""
        for line in self._lines.feed(data):
            self._size += len(line) + LINE_COST
            if event := self._line(line.rstrip(b"\r").decode("utf-8", "replace")):
                yield event
            if self._size > MAX_EVENT:
                raise ForkcellError("protocol", message=f"an event of more than {MAX_EVENT} bytes")
        if self._size + self._lines.size > MAX_EVENT:
            raise ForkcellError("protocol", message=f"an event of more than {MAX_EVENT} bytes")

    def _line(self, line: str) -> Event | None:
        if line:
            key, _, value = line.partition(":")
            if key in ("event", "id", "data"):
                self._fields.append((key, value.removeprefix(" ")))
            return None
        found, self._fields, self._size = self._fields, [], 0
        if not found:
            return None
        last = dict(found)
        return Event(last.get("event", ""), last.get("id", ""), "\n".join(v for k, v in found if k == "data"))


class Lines:
    """Calls a function with each line of a stream of bytes, without its end."""

    def __init__(self, function: Callable[[str], object] | None) -> None:
        self._function = function
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> None:
        if self._function is None:
            return
        *lines, self._rest = (self._rest + self._decoder.decode(data, final)).split("\n")
        for line in lines:
            self._function(line.removesuffix("\r"))
        if self._rest and (final or len(self._rest) > MAX_LINE):
            rest, self._rest = self._rest, ""
            self._function(rest)


class _Record:
    """Passes one stream on, and keeps its beginning as an answer without a stream has it."""

    def __init__(self, function: Callable[[str], object] | None) -> None:
        self.lines = Lines(function)
        self.data = bytearray()
        self.cut = False

    def feed(self, data: bytes) -> None:
        room = MAX_OUTPUT - len(self.data)
        self.data += data[:room]
        self.cut = self.cut or len(data) > room
        self.lines.feed(data)

    def document(self, name: str) -> dict[str, str]:
        try:
            # Not the end of a text if it was cut: the cut may be in the middle of a character.
            return {name: codecs.getincrementaldecoder("utf-8")().decode(self.data, final=not self.cut)}
        except UnicodeDecodeError:
            return {name: "", f"{name}_base64": base64.b64encode(self.data).decode("ascii")}


def _bytes(document: Any) -> bytes:
    """Return the bytes of a part of an output."""
    try:
        return base64.b64decode(field(document, "data"))
    except (ValueError, TypeError) as e:
        raise ForkcellError("protocol", message=f"the output is not base64: {e}") from e


class Recorder:
    """Handles the events of a command."""

    def __init__(self, call: Call) -> None:
        self._stdout, self._stderr = _Record(call.on_stdout), _Record(call.on_stderr)
        self._on_started = call.on_started

    def take(self, event: Event) -> dict[str, Any] | None:
        """Handle an event, and return the result document if it is the last one."""
        if event.name not in ("stdout", "stderr", "started", "result"):
            return None  # of a later version
        document = event.json()
        if not isinstance(document, dict):
            raise ForkcellError("protocol", message=f"the event {event.name} is no document")
        if event.name in ("stdout", "stderr"):
            record = self._stdout if event.name == "stdout" else self._stderr
            record.feed(_bytes(document))
        elif event.name == "started" and self._on_started:
            self._on_started(field(document, "run_id" if "run_id" in document else "exec_id"))
        elif event.name == "result":
            return self._result(document)
        return None

    def _result(self, document: dict[str, Any]) -> dict[str, Any]:
        for record in (self._stdout, self._stderr):
            record.lines.feed(b"", final=True)
        document["truncated"] = self._stdout.cut or self._stderr.cut
        return document | self._stdout.document("stdout") | self._stderr.document("stderr")
