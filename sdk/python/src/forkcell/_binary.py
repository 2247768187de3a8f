"""The program forkcell of this machine.

It sends directories to a daemon elsewhere, because only it knows which files hold
secrets, and writes back to them, with its journal in the caller's own home.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ._config import Address
from ._errors import ForkcellError, known_kind

# The fields of a new cell that are flags of the same name, and those that are sent in another form.
SETTINGS = ("backend", "runtime", "mount_at", "exclude", "ttl", "idle_timeout", "on_timeout")
OTHERS = ("name", "labels", "policy")


@dataclass(frozen=True)
class Binary:
    """The program, and the daemon that it talks to."""

    path: str
    address: Address
    token: str | None

    def create(self, directory: str, options: Mapping[str, Any]) -> Any:
        """Make a cell from a directory of this machine."""
        if unknown := [key for key, value in options.items() if value is not None and key not in SETTINGS + OTHERS]:
            message = f"{unknown[0]} is no setting of a directory that is sent to {self.address}"
            raise ForkcellError("usage", message=message)
        name = options.get("name") or f"cell-{secrets.token_hex(5)}"
        flags = [f"--from={directory}", *_flags({key: options[key] for key in SETTINGS if key in options})]
        flags += [f"--label={key}={value}" for key, value in (options.get("labels") or {}).items()]
        with ExitStack() as files:
            if policy := options.get("policy"):
                if ":" in policy or "\n" in policy:
                    file = files.enter_context(tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8"))
                    file.write(policy)
                    file.flush()
                    policy = file.name
                flags.append(f"--policy={policy}")
            return self.run(name, "init", *flags)

    def move(self, verb: str, cell: str, options: Mapping[str, Any]) -> Any:
        """Carry out apply, undo or refresh with the directory of a cell."""
        words = {"undo": ["apply", "--undo"]}.get(verb, [verb])
        return self.run(cell, *words, *_flags(options))

    def find(self) -> str:
        """Return the path of the program."""
        # What is found from the working directory may be what a cell wrote.
        dirs = [d for d in os.get_exec_path() if os.path.isabs(d)]
        program = shutil.which(self.path, path=os.pathsep.join(dirs) or os.devnull)
        if program is None:
            raise ForkcellError(
                "no_local_binary",
                message=f"the files of this machine are sent to {self.address} by the program {self.path}, which is not found",
                hint="install it, or use the daemon on the local socket, a directory of the daemon's machine, or an uploaded archive",
            )
        return program

    def run(self, cell: str, *verb: str) -> Any:
        """Run a verb with its flags for a cell, and return its document.

        The name may be the daemon's word: it stands after "--", so that it is never a flag.
        """
        program = self.find()
        command = [program, f"--url={self.address}", "--json", "--quiet"]
        if not self.token:
            return _result(program, subprocess.run([*command, *verb, "--", cell], capture_output=True))
        # A pipe: nobody else sees it, as an argument or a file.
        reader, writer = os.pipe()
        try:
            os.write(writer, self.token.encode() + b"\n")
            os.close(writer)
            command.append(f"--token-file=/dev/fd/{reader}")
            return _result(program, subprocess.run([*command, *verb, "--", cell], capture_output=True, pass_fds=[reader]))
        finally:
            os.close(reader)


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Return options as flags."""
    flags = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is True:
            flags.append(name)
        elif isinstance(value, (list, tuple)):
            flags += [f"{name}={item}" for item in value]
        elif value is not None and value is not False:
            flags.append(f"{name}={value}")
    return flags


def _result(program: str, done: subprocess.CompletedProcess[bytes]) -> Any:
    """Return the document that the program printed, or raise the error."""
    try:
        if done.returncode == 0:
            return json.loads(done.stdout)
        error = json.loads(done.stderr)["error"]
    except (ValueError, KeyError, TypeError) as e:
        text = done.stderr[:200].decode("utf-8", "replace")
        raise ForkcellError("protocol", message=f"{program}: exit code {done.returncode}: {text}") from e
    raise ForkcellError(
        error["code"],
        hint=error.get("hint", ""),
        message=error.get("message", ""),
        details=error.get("details"),
        kind=known_kind(error.get("kind")),
    )
