"""Files of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import models
from .._call import Call, cell_path, get, owned, post
from .._decode import decode
from .._results import FileEvent
from .transport import Transport


class Files:
    """Reads and changes the files of a cell.

    A path is relative to the workspace, or absolute in the cell. Files of an idle cell
    can be read; a change needs a live one.
    """

    def __init__(self, transport: Transport, cell: str) -> None:
        self._transport = transport
        self._path = cell_path(cell, "/files")

    def read(self, path: str) -> bytes:
        """Return the content of a file of at most 256 MiB; stream returns a longer one in parts."""
        return self._transport.whole(get(self._path, path=path), "application/octet-stream", "stream returns it in parts")

    def stream(self, path: str, *, offset: int = 0) -> Iterator[bytes]:
        """Return the content of a file from an offset on, in parts."""
        call = get(self._path, path=path)
        if offset:
            call.headers["Range"] = f"bytes={offset}-"
        return self._transport.parts(call, "application/octet-stream")

    def archive(self, path: str = "") -> Iterator[bytes]:
        """Return a directory with everything in it as a tar archive, in parts."""
        return self._transport.parts(get(self._path, path=path), "application/x-tar")

    def write(self, path: str, content: str | bytes | Iterable[bytes], *, mode: int | None = None) -> models.FileInfo:
        """Replace a file, and make the directories above it.

        mode is its permission bits; without it they stay, and those of a new file are
        0o644.
        """
        query = {"path": path} | ({} if mode is None else {"mode": f"{mode:04o}"})
        data = content.encode() if isinstance(content, str) else content
        call = Call("PUT", self._path, query=query, content=data, headers={"Content-Type": "application/octet-stream"})
        return self._transport.send(call, models.FileInfo)

    def list(self, path: str = "", *, depth: int = 1) -> list[models.FileInfo]:
        """Return the entries of a directory and of so many levels below it."""
        call = post(f"{self._path}/list", {"path": path, "depth": depth})
        return (self._transport.send(call, models.FileList)).entries

    def stat(self, path: str) -> models.FileInfo:
        """Describe a file."""
        return self._transport.send(post(f"{self._path}/stat", {"path": path}), models.FileInfo)

    def mkdir(self, path: str) -> models.FileInfo:
        """Make a directory, and those above it."""
        return self._transport.send(post(f"{self._path}/mkdir", {"path": path}), models.FileInfo)

    def move(self, source: str, target: str) -> models.FileInfo:
        """Give a file another path. A file there is replaced."""
        return self._transport.send(post(f"{self._path}/move", {"from": source, "to": target}), models.FileInfo)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file or an empty directory; recursive, also one that is not empty."""
        query = {"path": path} | ({"recursive": "true"} if recursive else {})
        self._transport.document(Call("DELETE", self._path, query=query))

    def watch(self, path: str = "", *, recursive: bool = False) -> Iterator[FileEvent]:
        """Return the changes in a directory of a live cell as they happen.

        The first event, started, says that the watch has begun. A lost connection is an
        error, because changes in the meantime cannot be told.
        """
        call = owned(f"{self._path}/watch", {"path": path, "recursive": recursive})
        with self._transport.events(call) as events:
            for event in events:
                yield decode(FileEvent, event.json())
