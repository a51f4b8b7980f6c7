"""JSON values, and text typed on a command line, as the typed fields of dataclasses."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from jaxeval.errors import InputError

T = TypeVar("T")
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", dict: "an object"}


def from_object(kind: type[T], values: Mapping[str, Any], source: str) -> T:
    """A dataclass from a JSON object; a field that is a dataclass too comes from an object in it.

    Args:
        kind: the dataclass.
        values: what a file holds; fields with a default may be missing.
        source: the file, for messages.

    Raises:
        InputError: a field is unknown or missing, or its value is of the wrong type.
    """
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, kind))}
    hints = typing.get_type_hints(kind)
    for name in values:
        if name not in fields:
            raise InputError(f"{source}: unknown field {name!r}; the fields are {', '.join(fields)}")
    for name, field in fields.items():
        has_default = (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
        if name not in values and not has_default:
            raise InputError(f"{source}: the field {name!r} is missing")
    return kind(
        **{name: convert(value, hints[name], f"{source}: {name}", typed=False) for name, value in values.items()}
    )


def convert(value: Any, kind: Any, name: str, *, typed: bool = True) -> Any:
    """A JSON value, or its text on a command line, as `kind`.

    Args:
        value: what was found.
        kind: a scalar type, a `Literal`, a dataclass, or one of them or None.
        name: of the field, for messages.
        typed: whether it may be a text that was typed, such as "8" for a number.

    Raises:
        InputError: it is something else.
    """
    if types.NoneType in typing.get_args(kind):
        if value is None or (typed and value == "none"):
            return None
        kind = next(one for one in typing.get_args(kind) if one is not types.NoneType)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise InputError(f"{name} is {value!r}, expected an object")
        return from_object(typing.cast(Any, kind), value, name)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value not in choices:
            raise InputError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
        return value
    if typed and kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if typed and kind in (int, float) and isinstance(value, str):
        try:
            value = kind(value)
        except ValueError:
            raise InputError(f"{name} is {value!r}, expected {_NAMES.get(kind, kind.__name__)}") from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1023 else math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value!r}, expected a finite number")
    if type(value) is not kind:
        raise InputError(f"{name} is {value!r}, expected {_NAMES.get(kind, kind.__name__)}")
    return value
