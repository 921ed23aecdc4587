"""How the options of every command read, in help and in errors: NUMBER, TEXT and PATH, and no word of Python."""

import inspect
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType, NoneType
from typing import Annotated, Any, get_args, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, PositionalMetavarFromFieldName, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

Settings = Annotated[tuple[str, ...], arg(name="set", metavar="NAME=VALUE ...")]
"""The option --set of the commands that make an environment."""

KINDS: dict[Any, tuple[str, str]] = {
    int: ("NUMBER", "a whole number"),
    float: ("NUMBER", "a number"),
    str: ("TEXT", "text"),
    Path: ("PATH", "a path"),
}
"""type of an option → how help names its value, how an error does."""


def call(function: FunctionType, prog: str, words: Sequence[str]) -> Any:
    """Call `function`, a command, with its options in `words`; `--help` and mistakes end the process as usual."""
    return tyro.cli(
        _without_idle_defaults(function),
        prog=prog,
        description=_description(function),
        args=list(words),
        config=(PositionalMetavarFromFieldName, FlagCreatePairsOff),
        registry=_registry(),
    )


def wrapped(text: str, indent: str) -> str:
    """`text` in lines that fit the terminal, all but the first after `indent`."""
    return textwrap.fill(text, min(shutil.get_terminal_size().columns, 120), subsequent_indent=indent)


def _description(function: FunctionType) -> str:
    """The docstring before its list of arguments. The indent is what keeps tyro from joining the lines again."""
    text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:")[0]
    return "\n\n".join(wrapped(" ".join(paragraph.split()), "  ") for paragraph in text.split("\n\n"))


def _without_idle_defaults(function: FunctionType) -> FunctionType:
    """A copy whose help says no "(default: None)", where a default only means that the option was not given."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default in (None, (), "") or isinstance(parameter.default, bool):
            hints[name] = Annotated[hints[name], arg(help_behavior_hint="")]
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copy.__doc__, copy.__annotations__ = function.__doc__, hints
    return copy


def _registry() -> ConstructorRegistry:
    registry = ConstructorRegistry()

    def spec_of(kind: Any, info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any]:
        spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kind, info.markers))
        assert isinstance(spec, PrimitiveConstructorSpec)
        return spec

    @registry.primitive_rule
    def one(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type not in KINDS:
            return None
        metavar, noun = KINDS[info.type]

        def read(words: list[str]) -> Any:
            try:
                return info.type(words[0])
            except ValueError:
                raise ValueError(f"{words[0]!r} is not {noun}") from None

        return PrimitiveConstructorSpec(1, metavar, read, lambda it: isinstance(it, info.type), lambda it: [str(it)])

    @registry.primitive_rule
    def one_or_not_given(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
        if NoneType not in get_args(info.type) or len(kinds) != 1:
            return None
        return replace(spec_of(kinds[0], info), is_instance=lambda it: True, str_from_instance=lambda it: [str(it)])

    @registry.primitive_rule
    def several(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type_origin is not tuple:
            return None
        kind, _ = get_args(info.type)
        inner = spec_of(kind, info)
        return PrimitiveConstructorSpec(
            "*",
            f"{inner.metavar} ...",
            lambda words: tuple(inner.instance_from_str([word]) for word in words),
            lambda it: isinstance(it, tuple),
            lambda it: [str(one) for one in it],
        )

    return registry
