"""JSON documents to dataclasses.

The daemon may be a stranger's. Its names and ids become arguments of programs and parts of
URLs, so each follows the grammar of its field.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, TypeVar

from ._errors import ForkcellError
from ._grammar import FIELDS, GRAMMARS

T = TypeVar("T")


def loads(text: str | bytes) -> Any:
    """Return the document of a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ForkcellError("protocol", message=f"the answer is not JSON: {e}") from e


def field(document: Any, name: str) -> Any:
    """Return a field of a document, whose names and ids follow their grammar."""
    if not isinstance(document, dict) or name not in document:
        raise ForkcellError("protocol", message=f"the answer has no field {name}")
    _check(name, document[name])
    return document[name]


def _check(name: str, value: Any) -> None:
    """Raise an error unless a text, or each of a list, follows the grammar of the field."""
    if isinstance(value, list):
        for item in value:
            _check(name, item)
    elif isinstance(value, str) and value and name in FIELDS and not GRAMMARS[FIELDS[name]].fullmatch(value):
        raise ForkcellError("protocol", message=f"the field {name} is no {FIELDS[name]}: {value[:80]!a}")


def decode(kind: type[T], document: Any) -> T:
    """Return a document as a dataclass. Fields that it does not know belong to later versions."""
    try:
        if document is None:
            raise TypeError("it is empty")
        return typing.cast(T, _value(kind, document))
    except (KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ForkcellError("protocol", message=f"the answer is no {kind.__name__}: {e}") from e


def _value(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if value is None or kind is Any:
        return value
    if origin is list:
        (item,) = typing.get_args(kind)
        return [_value(item, v) for v in value]
    if origin is dict:
        _, item = typing.get_args(kind)
        return {k: _value(item, v) for k, v in value.items()}
    if origin in (typing.Union, types.UnionType):
        (some,) = [a for a in typing.get_args(kind) if a is not type(None)]
        return _value(some, value)
    if dataclasses.is_dataclass(kind):
        return _instance(kind, value)
    if kind in PLAIN and type(value) not in PLAIN[kind]:
        raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
    return value


# The types of plain values, and those that a document has for them.
PLAIN: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), bool: (bool,), float: (float, int)}


def _instance(kind: Any, value: Any) -> Any:
    for _, key, _ in _fields(kind):
        if key in FIELDS:
            _check(key, value.get(key))
    return kind(**{name: _value(of, value[key]) for name, key, of in _fields(kind) if key in value})


@functools.cache
def _fields(kind: Any) -> list[tuple[str, str, Any]]:
    """Return name, JSON key and type of each field."""
    hints = typing.get_type_hints(kind)
    return [(f.name, f.name.rstrip("_"), hints[f.name]) for f in dataclasses.fields(kind)]
