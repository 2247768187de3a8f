"""Commands in live cells with their input and output in a WebSocket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
from threading import Lock
from contextlib import nullcontext
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token, generate_nonce

from .._call import Call
from .._decode import field, loads
from .._errors import ForkcellError, is_code
from .._results import ExecExit
from .._stream import Lines
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "forkcell.exec.v1"
PART = 64 << 10
MAX_MESSAGE = 16 << 20
PART_COST = 256  # what a part of a message takes besides its content
CLOSING = 10  # seconds
STREAMS = {b"\1": "stdout", b"\2": "stderr"}


class ExecSocket:
    """A connection to a command in a live cell.

    Iterating gives the output as it comes: the name of the stream, stdout or stderr, and
    bytes. Leaving a with block closes the connection; the command goes on, and
    cell.attach(socket.id) joins it. A command that gets much input while it writes much
    output needs one thread or task for each direction.
    """

    id: str
    """The id of the command, for cell.attach."""
    exit: ExecExit | None
    """How the command ended, once it has."""

    def __init__(self, response: httpx.Response) -> None:
        self.id = ""
        self.exit = None
        self._response = response
        self._network: Any = response.extensions["network_stream"]
        self._frames = Connection(ConnectionType.CLIENT)
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: bytes | str) -> None:
        """Send input to the command."""
        content = data.encode() if isinstance(data, str) else data
        for start in range(0, len(content), PART):
            self._send(BytesMessage(data=b"\0" + content[start : start + PART]))

    def close_input(self) -> None:
        """Tell the command that there is no more input."""
        self._tell(type="stdin_closed")

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal of the command another size."""
        self._tell(type="resize", cols=cols, rows=rows)

    def signal(self, name: str) -> None:
        """Send the command a signal by its name, such as INT."""
        self._tell(type="signal", name=name)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for message in self._messages():
            if isinstance(message, bytes):
                if message[:1] not in STREAMS:
                    raise ForkcellError("protocol", message="the socket sent output of no stream")
                yield STREAMS[message[:1]], message[1:]
            elif field(message, "type") == "exit":
                self.exit = ExecExit(field(message, "exit_code"), field(message, "signal"))
                self.close()
                return
        raise ForkcellError("lost", message="the socket was closed before the command ended", hint=f"join it by attach({self.id!r})")

    def wait(
        self, *, on_stdout: Callable[[str], object] | None = None, on_stderr: Callable[[str], object] | None = None
    ) -> ExecExit:
        """Return how the command ended, when it has. on_stdout and on_stderr are called with each line."""
        lines = {"stdout": Lines(on_stdout), "stderr": Lines(on_stderr)}
        if self.exit is None:
            for name, data in self:
                lines[name].feed(data)
        for stream in lines.values():
            stream.feed(b"", final=True)
        assert self.exit is not None  # the loop ends with it, or with an error
        return self.exit

    def close(self) -> None:
        """Close the connection. A command that has not ended goes on."""
        with nullcontext():
            with suppress(ForkcellError):  # it may be closed
                self._send(CloseConnection(code=1000))
            self._response.close()

    def _tell(self, **message: Any) -> None:
        self._send(TextMessage(data=json.dumps(message)))

    def _send(self, event: Event) -> None:
        try:
            with self._lock:
                self._network.write(self._frames.send(event))
        except (httpcore.NetworkError, LocalProtocolError) as e:
            raise ForkcellError("connection", message=f"the socket is closed: {e}") from e

    def _messages(self) -> Iterator[Any]:
        """Return the messages: bytes as they are, text as the document that it is."""
        parts: list[Any] = []
        size = 0
        for event in self._events():
            if isinstance(event, Ping):
                self._send(event.response())
            elif isinstance(event, CloseConnection):
                if event.code == 1011:  # the reason is a code
                    raise ForkcellError(event.reason if is_code(event.reason) else "internal", message="the command could not be followed to its end")
                return
            elif isinstance(event, (BytesMessage, TextMessage)):
                parts.append(event.data)
                size += len(event.data) + PART_COST
                if size > MAX_MESSAGE:
                    raise ForkcellError("protocol", message=f"a message of more than {MAX_MESSAGE} bytes")
                if event.message_finished:
                    text = isinstance(event, TextMessage)
                    yield loads("".join(parts)) if text else b"".join(bytes(p) for p in parts)
                    parts, size = [], 0

    def _events(self) -> Iterator[Event]:
        while True:
            for event in self._frames.events():
                yield event
            try:
                data = self._network.read(PART)
                self._frames.receive_data(data or None)
            except RemoteProtocolError as e:
                raise ForkcellError("protocol", message=f"the socket: {e}") from e
            except httpcore.NetworkError as e:
                raise ForkcellError("connection", message=f"the socket was cut: {e}") from e
            if not data:
                return

    def _begin(self) -> Self:
        for message in self._messages():
            if isinstance(message, dict) and field(message, "type") == "started":
                self.id = field(message, "exec_id")
                return self
        raise ForkcellError("protocol", message="the socket did not begin with the id of the command")


def connect(transport: Transport, call: Call) -> ExecSocket:
    """Open the socket of a command."""
    nonce = generate_nonce()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    call.headers |= upgrade | {"Sec-WebSocket-Key": nonce.decode(), "Sec-WebSocket-Protocol": PROTOCOL}
    call.repeatable = False  # it executes a command
    response = transport.answer(call)
    accepted = response.headers.get("Sec-WebSocket-Accept", "").encode() == generate_accept_token(nonce)
    if response.status_code != 101 or not accepted or response.headers.get("Sec-WebSocket-Protocol") != PROTOCOL:
        response.close()
        raise ForkcellError("protocol", response.status_code, message="the answer is no WebSocket")
    return ExecSocket(response)._begin()
