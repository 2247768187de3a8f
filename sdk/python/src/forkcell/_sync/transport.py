"""Sends calls to a daemon."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import time
import httpx

from .._binary import Binary
from .._call import Call, get, retry_wait
from .._config import Address
from .._decode import decode, field, loads
from .._errors import ForkcellError
from .._stream import Event, EventParser, LineSplitter

T = TypeVar("T")
PAGE = 500
MAX_DOCUMENT = 256 << 20
MAX_PROBLEM = 1 << 20


class Transport:
    """The connection to a daemon."""

    def __init__(self, address: Address, token: str | None, verify: ssl.SSLContext | bool, binary: str = "forkcell") -> None:
        self.address = address
        self.binary = Binary(binary, address, token)
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = httpx.Client(
            base_url=address.base,
            headers=headers,
            timeout=httpx.Timeout(None, connect=10),
            transport=httpx.HTTPTransport(uds=address.socket) if address.socket else None,
            verify=verify,
            # A proxy of the environment would get the token in the clear.
            trust_env=address.base.startswith("https:"),
        )

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call, kind: type[T]) -> T:
        """Send a call, and return the document of its answer."""
        return decode(kind, self.document(call))

    def document(self, call: Call) -> Any:
        """Send a call, and return the JSON of its answer, or None."""
        content = self.text(call)
        return loads(content) if content else None

    def text(self, call: Call) -> str:
        """Send a call, and return its answer as text."""
        return (self.whole(call, "application/json, text/plain")).decode("utf-8", "replace")

    def whole(self, call: Call, accept: str, hint: str = "") -> bytes:
        """Send a call, and return its answer, which is not too long for that."""
        return _join(self.parts(call, accept), hint)

    def parts(self, call: Call, accept: str) -> Iterator[bytes]:
        """Send a call, and return its answer in parts as they come."""
        response = self.answer(replace(call, headers={"Accept": accept, **call.headers}))
        try:
            for part in _bytes(response):
                yield part
        except httpx.RequestError as e:
            raise ForkcellError("connection", message=f"the answer was cut: {e}") from e
        finally:
            response.close()

    def lines(self, call: Call, accept: str) -> Iterator[bytes]:
        """Send a call, and return the lines of its answer as they come."""
        splitter = LineSplitter()
        for part in self.parts(call, accept):
            for line in splitter.feed(part):
                yield line
        if rest := splitter.rest():
            yield rest

    def follow(self, call: Call, take: Callable[[Event], Any]) -> Any:
        """Send a call whose answer is a stream, and return what take returns for the result at its end."""
        with self.events(call) as events:
            for event in events:
                result = take(event)
                if result is not None:
                    return result
        raise ForkcellError("lost", message="the stream ended before the result", hint="what the call began was ended with it")

    def fetch(self, call: Call) -> httpx.Response:
        """Send a call once, and return its answer as it is."""
        response, failure = self._once(call)
        if response is None:
            raise self.address.unreachable(failure) from failure
        try:
            content = _join(_bytes(response))
        except httpx.RequestError as e:
            raise ForkcellError("connection", message=f"the answer was cut: {e}") from e
        finally:
            response.close()
        return httpx.Response(response.status_code, headers=response.headers, content=content, request=response.request)

    @contextmanager
    def events(self, call: Call) -> Iterator[Iterator[Event]]:
        """Send a call whose answer is a stream of events."""
        headers = {**call.headers, "Accept": "text/event-stream"}
        response = self.answer(replace(call, headers=headers))
        try:
            yield _events(response)
        finally:
            response.close()

    def pages(self, path: str, kind: type[T], **query: Any) -> Iterator[T]:
        """Return the items of a list, page by page as they are used."""
        call = get(path, limit=PAGE, **query)
        while True:
            page = self.document(call)
            items, following = field(page, "items"), field(page, "next")
            if not isinstance(items, list) or not isinstance(following, (str, type(None))):
                raise ForkcellError("protocol", message="the answer is no list")
            for item in items:
                yield decode(kind, item)
            if following is None:
                return
            if not items or following == call.query.get("cursor"):
                raise ForkcellError("protocol", message="a list without an end")
            call.query["cursor"] = following

    def answer(self, call: Call) -> httpx.Response:
        """Send a call, again where that is allowed, and return an answer that reports success."""
        attempt = 0
        while True:
            attempt += 1
            response, failure = self._once(call)
            status = response.status_code if response else None
            wait = retry_wait(status, response.headers.get("Retry-After") if response else None, attempt)
            if response is not None and (wait is None or not call.repeatable):
                return self._check(response)
            if wait is None or not call.repeatable:
                raise self.address.unreachable(failure) from failure
            if response is not None:
                response.close()
            time.sleep(wait)

    def _once(self, call: Call) -> tuple[httpx.Response | None, httpx.TransportError | None]:
        request = self._http.build_request(
            call.method, call.path, json=call.body, content=call.content, params=call.query, headers=call.headers
        )
        try:
            return self._http.send(request, stream=True), None
        except httpx.TransportError as e:
            return None, e

    def _check(self, response: httpx.Response) -> httpx.Response:
        if response.status_code < 300:  # 101 is a socket
            return response
        content = bytearray()
        try:
            for part in _bytes(response):
                content += part
                if len(content) > MAX_PROBLEM:
                    break
            document = loads(bytes(content))
        except (ForkcellError, httpx.HTTPError):
            document = None
        finally:
            response.close()
        raise ForkcellError.from_problem(response.status_code, document)


def _bytes(response: httpx.Response) -> Iterator[bytes]:
    """Return the content of an answer as it was sent: unpacked, a few bytes are as many as a daemon likes."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ForkcellError("protocol", message="the answer is compressed, which was not asked for")
    for part in response.iter_raw():
        yield part


def _join(parts: Iterator[bytes], hint: str = "") -> bytes:
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > MAX_DOCUMENT:
            raise ForkcellError("protocol", message=f"an answer of more than {MAX_DOCUMENT} bytes", hint=hint)
    return bytes(content)


def _events(response: httpx.Response) -> Iterator[Event]:
    parser = EventParser()
    try:
        for data in _bytes(response):
            for event in parser.feed(data):
                if event.name == "problem":
                    problem = event.json()
                    raise ForkcellError.from_problem(problem.get("status", 0) if isinstance(problem, dict) else 0, problem)
                yield event
    except httpx.RequestError as e:
        raise ForkcellError("connection", message=f"the stream was cut: {e}") from e
