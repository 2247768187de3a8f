"""What schemathesis cannot know: which cells and runs exist, and which answers never end."""

from __future__ import annotations

import os
from typing import Any

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.modes import GenerationMode

URL = os.environ["FORKCELL_FUZZ_URL"]
# The stream of a copy is bytes.
schemathesis.serializer.alias("application/vnd.forkcell.copy", "application/octet-stream")
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["FORKCELL_FUZZ_TOKEN"]


def send(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request whose answer may say that there is nothing to do."""
    answer: dict[str, Any] = session.post(URL + path, json=body, timeout=60).json()
    return answer


def make(cell: str) -> None:
    """Make a cell, unless it is there."""
    send("/v1/cells", {"name": cell, "source": {"empty": True}})


# No request removes this cell: its run and receipt stay.
make("kept")
RUN = send("/v1/cells/kept/runs", {"command": ["sh", "-c", "echo out; echo file > file"]})


PORT_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def valid(case: schemathesis.Case, location: ParameterLocation) -> bool:
    """Report whether a part of a request is meant to be valid."""
    part = case.meta and case.meta.components.get(location)
    return part is None or part.mode == GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context: Any, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    operation = case.operation.definition.raw
    if valid(case, ParameterLocation.PATH):
        name_existing(case, operation)
    # A port passes on methods that the description does not list, except this one.
    if "/ports/" in case.path and case.method.upper() not in PORT_METHODS:
        case.method = "TRACE"
    # These streams have no end.
    if (case.query or {}).get("follow") in (True, "true") and valid(case, ParameterLocation.QUERY):
        case.query["follow"] = "false"
    if operation["operationId"] == "watchFiles" and valid(case, ParameterLocation.BODY):
        case.body = {**case.body, "path": "no such directory"}


def name_existing(case: schemathesis.Case, operation: dict[str, Any]) -> None:
    """Let a request name a cell, run and receipt that exist."""
    names = case.path_parameters or {}
    if "run" in names:
        names["run"] = RUN["run_id"]
    if "receipt" in names:
        names["receipt"] = RUN["receipt_id"]
    if "cell" not in names:
        return
    live = operation["tags"][0] in ("live cells", "files")
    names["cell"] = "kept" if "run" in names else "live" if live else "states"
    make(names["cell"])
    if live and operation["operationId"] != "start":
        send(f"/v1/cells/{names['cell']}/start", {})
        send(f"/v1/cells/{names['cell']}/resume", {})
