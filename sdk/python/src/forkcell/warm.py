"""Makes this process one that Forkcell can copy.

A script imports what it needs, and then calls :func:`serve`. From there on the
process waits. For each branch it forks, and the copy joins the branch's cell, puts
every control on itself, and waits until it has been looked at from outside.

The module needs nothing but the standard library.
"""

from __future__ import annotations

import array
import ast
import base64
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import signal
import socket
import struct
import sys
import threading
import traceback
from typing import Any, Callable, NoReturn, cast

PROTOCOL = 1

_VARIABLE = "FORKCELL_WARM_FD"
_HOOK = "FORKCELL_AFTER_FORK"
_NAMESPACES = ("user", "mnt", "net", "ipc", "uts", "cgroup", "pid")
_MAX_DESCRIPTORS = 32
_MAX_MESSAGE = 16 << 20
_MAX_TEXT = 1 << 18

# Numbers of the kernel's interface, on x86-64.
_SYS_SECCOMP = 317
_SYS_LANDLOCK_RESTRICT_SELF = 446
_SYS_KEYCTL = 250
_SYS_CAPSET = 126
_KEYCTL_JOIN_SESSION_KEYRING = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
_SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32
_CAPABILITY_VERSION_3 = 0x20080522
_EFAULT = 14
_EINVAL = 22
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_PRIVATE_FIXED = 0x02 | 0x10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.write.restype = ctypes.c_ssize_t
_libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]

# What the warm process has that its copies must not have in common, found once.
_shared: list[tuple[int, int, int]] = []  # memory: where, how much, how it is protected
_generators: list[Any] = []  # of random numbers

_evaluating = False  # code runs that can be interrupted


class _Program(ctypes.Structure):
    """A filter of system calls, as the kernel takes it."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class NotTemplateError(RuntimeError):
    """The process was not started as one to be copied."""


def serve(main: Callable[[int], Any] | None = None) -> NoReturn:
    """Says that this process is warm, and never returns.

    In each copy, main is called with the number of the copy. Without main the copy
    runs the code that it is sent.
    """
    if _VARIABLE not in os.environ:
        raise NotTemplateError(f"{_VARIABLE} is not set: start it with `forkcell start CELL --warm -- CMD`")
    names = _other_threads()
    if names:
        _Line(int(os.environ[_VARIABLE])).fail(f"a copy has no other threads than the one that forks, and these run: {names}")
        raise NotTemplateError(f"other threads run: {names}")
    line = _Line(int(os.environ.pop(_VARIABLE)))
    _shared.extend(_shared_memory())
    _generators.extend(_find_generators())
    line.send({"type": "warm", "protocol": PROTOCOL})
    while True:
        order, descriptors = line.receive()
        if order["type"] == "fork":
            given = dict(zip(order["descriptors"], descriptors))
            given["line"] = line.socket.fileno()
            _fork(line, order, given, main)
        for fd in descriptors:
            os.close(fd)


def _other_threads() -> str:
    """Returns the names of the threads of Python but for this one."""
    named = [t.name for t in threading.enumerate() if t is not threading.current_thread()]
    with open(os.memfd_create("forkcell"), "w+b") as dump:
        # It also has threads that have not begun yet.
        faulthandler.dump_traceback(dump, all_threads=True)
        dump.seek(0)
        unnamed = sum(line.startswith(b"Thread ") for line in dump) - len(named)
    if unnamed > 0:
        named.append(f"{unnamed} that the module _thread has started")
    return ", ".join(named)


class _Line:
    """Messages of JSON over a socket, each after its length."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)

    def send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        body = _encode(message)
        data = struct.pack("<I", len(body)) + body
        rights = []
        if descriptors:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        sent = self.socket.sendmsg([data], rights)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def fail(self, problem: str, step: str = "") -> None:
        self.send({"type": "failed", "step": step, "problem": problem})

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        rights = array.array("i")
        head, ancillary, _, _ = self.socket.recvmsg(4, socket.CMSG_LEN(_MAX_DESCRIPTORS * rights.itemsize))
        if not head:
            os._exit(0)  # the other side is gone
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                rights.frombytes(data[: len(data) - len(data) % rights.itemsize])
        head += self._exactly(4 - len(head))
        (size,) = struct.unpack("<I", head)
        if size > _MAX_MESSAGE:
            raise ValueError(f"a message of {size} bytes")
        return json.loads(self._exactly(size)), list(rights)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            part = self.socket.recv(size)
            if not part:
                os._exit(0)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _encode(value: Any) -> bytes:
    """Returns JSON, in which characters that no encoding has are escaped."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _check(result: int, what: str, ignore: tuple[int, ...] = ()) -> int:
    if result < 0:
        number = ctypes.get_errno()
        if number not in ignore:
            raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _fork(line: _Line, order: dict[str, Any], given: dict[str, int], main: Callable[[int], Any] | None) -> None:
    """Makes a copy. A process between, which joins the namespaces, makes it: only
    what a process forks is in a pid namespace that it has joined."""
    middle = os.fork()
    if middle:
        _, status = os.waitpid(middle, 0)
        if status:
            line.fail("the copy could not be made: its own message says why")
        else:
            line.send({"type": "forked"})
        return
    status = 1
    control = _Line(given["control"])
    try:
        for name in _NAMESPACES:
            _check(_libc.setns(given[name], 0), f"join the {name} namespace")
        if os.fork() == 0:
            _become(control, order, given, main)
        status = 0
    except BaseException as error:  # everything that goes wrong is reported
        control.fail(str(error))
    finally:
        os._exit(status)


def _become(control: _Line, order: dict[str, Any], given: dict[str, int], main: Callable[[int], Any] | None) -> NoReturn:
    """Is the life of a copy."""
    try:
        _confine(order, given)
        _own_memory()
        closed = _take_streams(control, given)
        _enter(control, order["workdir"] or "/")
        listener = _filter(base64.b64decode(order["filter"]), order["listener"])
        if listener >= 0:
            control.send({"type": "listener"}, [listener])
            os.close(listener)
        control.send({"type": "joined", "closed": closed})
        control.receive()
        os.environ.update(order["env"])
        _renew(order["number"])
        control.send({"type": "ready"})
        if main is not None:
            main(order["number"])
            os._exit(0)
        _answer(control)
    except BaseException as error:
        control.fail(f"{type(error).__name__}: {error}")
    finally:
        os._exit(1)


def _confine(order: dict[str, Any], given: dict[str, int]) -> None:
    """Drops every right, as far as the filter of system calls is not needed for it."""
    os.setsid()
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _libc.syscall(_SYS_KEYCTL, _KEYCTL_JOIN_SESSION_KEYRING, None)  # as far as it is allowed
    if "landlock" in given:
        _check(_libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, given["landlock"], 0), "landlock")
    capability = 0
    while _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "capability bounding set", (_EINVAL,)) >= 0:
        capability += 1
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities")
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.syscall(_SYS_CAPSET, header, bytes(24)), "capabilities")


def _shared_memory() -> list[tuple[int, int, int]]:
    """Returns the memory that this process shares with others and could write to."""
    found = []
    # Names of files in it have any bytes.
    with open("/proc/self/maps", errors="replace", newline="\n") as maps:
        for line in maps:
            where, how = line.split(None, 2)[:2]
            if how[3] != "s":
                continue
            start, end = (int(part, 16) for part in where.split("-"))
            protection = sum(bit for bit, letter in zip((_PROT_READ, _PROT_WRITE, _PROT_EXEC), how) if letter != "-")
            # A file that was opened for reading cannot be made writable.
            if _libc.mprotect(start, end - start, _PROT_READ | _PROT_WRITE) == 0:
                _check(_libc.mprotect(start, end - start, protection), "mprotect")
                found.append((start, end - start, protection))
    return found


def _own_memory() -> None:
    """Puts a private copy in the place of memory that is shared."""
    for start, size, protection in _shared:
        _check(_libc.mprotect(start, size, _PROT_READ | _PROT_WRITE), "mprotect")
        fd = os.memfd_create("forkcell")
        os.truncate(fd, size)
        done = 0
        while done < size:
            written = _check(_libc.write(fd, start + done, size - done), "copy shared memory", (_EFAULT,))
            if written <= 0:
                break  # the rest is behind the end of a file
            done += written
        if _libc.mmap(start, size, protection, _MAP_PRIVATE_FIXED, fd, 0) != start:
            _check(-1, "copy shared memory")
        os.close(fd)


def _take_streams(control: _Line, given: dict[str, int]) -> dict[str, int]:
    """Takes the streams of the copy, and closes everything else that it was given or
    has from the process that it is a copy of. Returns how many sockets those were."""
    closed = {"listeners": 0, "connections": 0}
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(given["stdout"], 1)
    os.dup2(given["stderr"], 2)
    keep = control.socket.fileno()
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != keep:
            if fd not in given.values():
                _count(fd, closed)
            try:
                os.close(fd)
            except OSError:
                pass  # that of the list itself
    return closed


def _count(fd: int, closed: dict[str, int]) -> None:
    """Counts a descriptor if it is a socket that listens or is connected."""
    try:
        own = socket.socket(fileno=fd)
    except OSError:
        return
    try:
        if own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            closed["listeners"] += 1
        else:
            own.getpeername()
            closed["connections"] += 1
    except OSError:
        pass  # neither
    finally:
        own.detach()


def _enter(control: _Line, directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        control.fail(f"{directory}: {error.strerror}", "workdir")
        os._exit(1)


def _filter(program: bytes, listen: bool) -> int:
    """Puts the filter of system calls on the process, and returns its listener or -1."""
    prog = _Program(len(program) // 8, program)
    flags = [0]
    if listen:
        flags = [_SECCOMP_FILTER_FLAG_NEW_LISTENER | _SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, _SECCOMP_FILTER_FLAG_NEW_LISTENER]
    for flag in flags:
        fd = _libc.syscall(_SYS_SECCOMP, _SECCOMP_SET_MODE_FILTER, flag, ctypes.byref(prog))
        if fd >= 0:
            return fd if flag else -1
    _check(fd, "seccomp")
    return -1


def _find_generators() -> list[Any]:
    """Returns the generators of random numbers that exist, of Python and of numpy."""
    kinds: list[type] = []
    if "random" in sys.modules:
        kinds.append(sys.modules["random"].Random)
    if "numpy.random" in sys.modules:
        numpy = sys.modules["numpy.random"]
        kinds += [numpy.RandomState, numpy.BitGenerator]
    # The class is asked, not the object: a proxy could answer for another object.
    return [o for o in gc.get_objects() if issubclass(type(o), tuple(kinds))] if kinds else []


def _seed(generator: Any) -> None:
    """Seeds a generator: as its own class does, which may keep numbers besides, and
    then as that of Python or numpy does, whatever the own class has made of it."""
    kind: Any = next(c for c in type(generator).__mro__ if c.__module__ == "random" or c.__module__.startswith("numpy.random"))
    seeded = hasattr(kind, "seed")
    try:
        if seeded:
            generator.seed()
        else:
            generator.state = type(generator)().state
    except Exception:
        pass  # one that needs arguments
    if not seeded:
        if kind.__name__ != "BitGenerator":  # else it is of another library
            state = {**kind().state, "bit_generator": type(generator).__name__}
            kind.__dict__["state"].__set__(generator, state)
    elif kind.__name__ != "RandomState" or generator.get_state(legacy=False)["bit_generator"] == "MT19937":
        kind.seed(generator)  # another one has its numbers from a generator in the list


def _renew(number: int) -> None:
    """Gives the copy random numbers of its own, and calls the hook of the user."""
    for generator in _generators:
        _seed(generator)
    if "_ssl" in sys.modules:
        # It notices a fork by a new process number, and the copy's may be the same.
        sys.modules["_ssl"].RAND_add(os.urandom(64), 64.0)
    hook = os.environ.get(_HOOK)
    if hook:
        module, _, function = hook.partition(":")
        getattr(importlib.import_module(module), function)(number)


def _answer(control: _Line) -> NoReturn:
    """Runs the code that it is sent, until the other side is gone."""
    global _evaluating
    names: dict[str, Any] = sys.modules["__main__"].__dict__
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    while True:
        question, _ = control.receive()
        try:
            answer = _evaluate(question["code"], names)
        except KeyboardInterrupt:  # it came at the very end
            _evaluating = False
            error = {"type": "KeyboardInterrupt", "message": "", "traceback": ""}
            answer = {"type": "value", "value": None, "value_json": None, "output": "", "error": error}
        control.send(answer)


def _interrupt(number: int, frame: Any) -> None:
    """Ends code that nobody waits for any more."""
    if _evaluating:
        raise KeyboardInterrupt


class _Output(io.RawIOBase):
    """Keeps the beginning of what is written."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.cut = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(memoryview(data).cast("B"))
        room = _MAX_TEXT - len(self.kept)
        self.kept += bytes(data)[:room]
        self.cut |= size > room
        return size


def _evaluate(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs code, and returns the value of its last line if that is an expression."""
    global _evaluating
    answer: dict[str, Any] = {"type": "value", "value": None, "value_json": None, "output": "", "error": None}
    truncated: list[str] = []
    output = _Output()
    stream = io.TextIOWrapper(cast(io.BytesIO, output), "utf-8", "backslashreplace", write_through=True)
    try:
        _evaluating = True
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            value = _run(code, names)
        if value is not None:
            text = repr(value)
            answer["value"] = _first(text)
            if len(answer["value"]) < len(text):
                truncated.append("value")
            answer["value_json"], small = _as_json(value)
            if not small:
                truncated.append("value_json")
    except BaseException as error:
        # This runs code too: that of the error. So it can be interrupted.
        answer["error"] = {
            "type": type(error).__name__,
            "message": _first(_message(error)),
            "traceback": _first(traceback.format_exc()[::-1])[::-1],
        }
    finally:
        _evaluating = False
    text = output.kept.decode("utf-8", "replace")
    answer["output"] = _first(text)
    if output.cut or len(answer["output"]) < len(text):
        truncated.append("output")
    if truncated:
        answer["truncated"] = truncated
    return answer


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as another:
        return f"<its text raised {type(another).__name__}>"


def _first(text: str) -> str:
    """Returns the beginning of a text that is too long to be sent."""
    text = text[:_MAX_TEXT]
    while (size := len(_encode(text))) > _MAX_TEXT:
        text = text[: len(text) * _MAX_TEXT // size]
    return text


def _run(code: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(code, "<eval>")
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<eval>", "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, "<eval>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<eval>", "eval"), names)


def _as_json(value: Any) -> tuple[Any, bool]:
    """Returns the value if JSON can hold it and it is not large, else None, and whether
    it is not too large."""
    try:
        json.dumps(value, allow_nan=False)
        small = len(_encode(value)) <= _MAX_TEXT
        return (value if small else None), small
    except (TypeError, ValueError, RecursionError):
        return None, True
