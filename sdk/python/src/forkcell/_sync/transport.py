"""Sends calls to a daemon."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import time
import httpx

from .._call import Call, get, retry_wait
from .._config import Address
from .._decode import decode
from .._errors import ForkcellError
from .._stream import Event, EventParser, Recorder

T = TypeVar("T")
PAGE = 500


class Transport:
    """The connection to a daemon."""

    def __init__(self, address: Address, token: str | None, verify: ssl.SSLContext | bool) -> None:
        self.address = address
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=address.base,
            headers=headers,
            timeout=httpx.Timeout(None, connect=10),
            transport=httpx.HTTPTransport(uds=address.socket) if address.socket else None,
            verify=verify,
        )

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call, kind: type[T]) -> T:
        """Send a call, and return the document of its answer."""
        return decode(kind, self.document(call))

    def document(self, call: Call) -> Any:
        """Send a call, and return the JSON of its answer, or None."""
        content = self.text(call)
        try:
            return json.loads(content) if content else None
        except ValueError as e:
            raise ForkcellError("protocol", message=f"the answer is not JSON: {e}") from e

    def text(self, call: Call) -> str:
        """Send a call, and return its answer as text."""
        response = self._answer(call)
        try:
            return (response.read()).decode("utf-8", "replace")
        except httpx.TransportError as e:
            raise ForkcellError("connection", message=f"the answer was cut: {e}") from e
        finally:
            response.close()

    def follow(self, call: Call, kind: type[T]) -> T:
        """Send a call whose answer is a stream of output, and return the result at its end."""
        recorder = Recorder(call)
        with self.events(call) as events:
            for event in events:
                result = recorder.take(event)
                if result is not None:
                    return decode(kind, result)
        raise ForkcellError("lost", message="the stream ended before the result", hint="the run was ended with it")

    @contextmanager
    def events(self, call: Call) -> Iterator[Iterator[Event]]:
        """Send a call whose answer is a stream of events."""
        headers = {**call.headers, "Accept": "text/event-stream"}
        response = self._answer(replace(call, headers=headers))
        try:
            yield _events(response)
        finally:
            response.close()

    def pages(self, path: str, kind: type[T], **query: Any) -> Iterator[T]:
        """Return the items of a list, page by page as they are used."""
        call = get(path, limit=PAGE, **query)
        while True:
            page = self.document(call)
            for item in page["items"]:
                yield decode(kind, item)
            if page["next"] is None:
                return
            call.query["cursor"] = page["next"]

    def _answer(self, call: Call) -> httpx.Response:
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
                raise ForkcellError("connection", message=f"the daemon at {self.address}: {failure}") from failure
            if response is not None:
                response.close()
            time.sleep(wait)

    def _once(self, call: Call) -> tuple[httpx.Response | None, httpx.TransportError | None]:
        request = self._http.build_request(call.method, call.path, json=call.body, params=call.query, headers=call.headers)
        try:
            return self._http.send(request, stream=True), None
        except httpx.TransportError as e:
            return None, e

    def _check(self, response: httpx.Response) -> httpx.Response:
        if response.status_code < 300:
            return response
        try:
            document = json.loads(response.read())
        except ValueError:
            document = None
        finally:
            response.close()
        raise ForkcellError.from_problem(response.status_code, document)


def _events(response: httpx.Response) -> Iterator[Event]:
    parser = EventParser()
    try:
        for data in response.iter_bytes():
            for event in parser.feed(data):
                yield event
    except httpx.TransportError as e:
        raise ForkcellError("connection", message=f"the stream was cut: {e}") from e
