"""JSON documents to dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, TypeVar

from ._errors import ForkcellError

T = TypeVar("T")


def decode(kind: type[T], document: Any) -> T:
    """Return a document as a dataclass. Fields that it does not know belong to later versions."""
    try:
        return typing.cast(T, _value(kind, document))
    except (KeyError, TypeError) as e:
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
    return value


def _instance(kind: Any, value: Any) -> Any:
    return kind(**{name: _value(of, value[key]) for name, key, of in _fields(kind) if key in value})


@functools.cache
def _fields(kind: Any) -> list[tuple[str, str, Any]]:
    """Return name, JSON key and type of each field."""
    hints = typing.get_type_hints(kind)
    return [(f.name, f.name.rstrip("_"), hints[f.name]) for f in dataclasses.fields(kind)]
