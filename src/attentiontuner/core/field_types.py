"""Whether what a file or a command line says is of the type that a field of a dataclass is annotated with."""

from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

TYPES: dict[Any, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "text"),
    NoneType: (NoneType, "null"),
}
"""annotation of a field → what its values are, and what a message calls them."""


def is_of_type(value: Any, wanted: Any) -> bool:
    """Whether a field with the annotation `wanted` may hold `value`; one that is not known here may hold anything."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return any(is_of_type(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple and inner[1:] == (...,):
        return isinstance(value, list | tuple) and all(is_of_type(one, inner[0]) for one in value)
    if wanted not in TYPES:
        return True
    return isinstance(value, TYPES[wanted][0]) and (wanted is bool or not isinstance(value, bool))


def words_for(wanted: Any) -> str:
    """What a message calls the values of an annotation that is known here."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return " or ".join(map(words_for, inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    return f"a list, each {words_for(inner[0])}" if origin is tuple else TYPES[wanted][1]


@cache
def types_of(cls: type) -> dict[str, Any]:
    """The annotations of a class's fields by name; none where one names what only type checkers know."""
    try:
        return get_type_hints(cls)
    except (NameError, AttributeError):
        return {}
