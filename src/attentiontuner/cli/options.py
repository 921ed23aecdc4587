"""How the options of every command read, in help and in errors: NUMBER, TEXT and PATH, and no word of Python."""

import inspect
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields, make_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, PositionalMetavarFromFieldName, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from attentiontuner.core.terminal import NARROWEST, plain

Settings = Annotated[tuple[str, ...], arg(name="set", metavar="NAME=VALUE ...")]
"""The option --set of the commands that make an environment."""

Command = TypeVar("Command", bound=Callable[..., Any])

KINDS: dict[Any, tuple[str, str]] = {
    int: ("NUMBER", "a whole number"),
    float: ("NUMBER", "a number"),
    str: ("TEXT", "text"),
    Path: ("PATH", "a path"),
}
"""type of an option → how help names its value, how an error does."""


def call(function: Callable[..., Any], prog: str, words: Sequence[str]) -> Any:
    """Call `function`, a command, with its options in `words`; `--help` and mistakes end the process as usual.

    An option's help is what the docstring says of the parameter. A parameter that `borrows` a dataclass is given a
    dictionary of those of its fields that were said, each an option of its own.
    """
    borrowed = getattr(function, "borrowed", {})
    entries: list[tuple[str, Any, Any]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in borrowed:
            entries += _borrowed_entries(*borrowed[name])
        else:
            hint = get_type_hints(function, include_extras=True)[name]
            entries.append(_entry(name, hint, parameter.default, _words_of(function).get(name, "")))
    try:
        options: Any = tyro.cli(
            _options(entries, getattr(function, "groups", {})),
            prog=prog,
            description=_description(function),
            args=list(words),
            config=(PositionalMetavarFromFieldName, FlagCreatePairsOff, OmitArgPrefixes),
            registry=_registry(),
        )
    except SystemExit as end:
        if end.code and (folder := _without_its_option(function, words)):
            print(plain(f"attentiontuner: {folder} is a data set: write --data {folder}"), file=sys.stderr)
        raise
    given = dict(vars(options))
    for title in getattr(function, "groups", {}):
        given |= vars(given.pop(_field(title)))
    for name, (cls, left_out, _) in borrowed.items():
        values = {item.name: given.pop(item.name) for item in fields(cls) if item.name not in left_out}
        given[name] = {name: value for name, value in values.items() if value is not None}
    positional = [given.pop(name) for name in _positional_only(function)]
    return function(*positional, **given)


def _without_its_option(function: Callable[..., Any], words: Sequence[str]) -> str | None:
    """The data set in `words` that stands by itself, where the command wants one as `--data` and has none."""
    from attentiontuner.demos.store.manifest import FILE as MANIFEST

    parameter = inspect.signature(function).parameters.get("data")
    if parameter is None or parameter.kind is parameter.POSITIONAL_ONLY:
        return None
    if any(word.partition("=")[0] == "--data" for word in words):
        return None
    alone = [word for before, word in zip(["", *words], words, strict=False) if not before.startswith("-")]
    return next((word for word in alone if os.path.isfile(os.path.join(word, MANIFEST))), None)


def borrows(
    parameter: str, cls: type, left_out: Sequence[str] = (), otherwise: Mapping[str, str] | None = None
) -> Callable[[Command], Command]:
    """A decorator: the command's `parameter` is the fields of a dataclass, all but those `left_out`, as options.

    `otherwise` says of some fields what happens if they are not given; their options have no default.
    """

    def decorate(function: Command) -> Command:
        borrowed = {parameter: (cls, tuple(left_out), otherwise or {}), **getattr(function, "borrowed", {})}
        setattr(function, "borrowed", borrowed)  # noqa: B010 - functions take attributes, their type does not say so
        return function

    return decorate


def grouped(groups: Mapping[str, Sequence[str]]) -> Callable[[Command], Command]:
    """A decorator: help shows the options of each of these `groups`, title → their names, in a box of their own."""

    def decorate(function: Command) -> Command:
        setattr(function, "groups", groups)  # noqa: B010 - functions take attributes, their type does not say so
        return function

    return decorate


def _options(entries: Sequence[tuple[str, Any, Any]], groups: Mapping[str, Sequence[str]]) -> type:
    """The dataclass that tyro makes options of; of a group it has a dataclass in a field, which is the box's title."""
    by_name = {entry[0]: entry for entry in entries}
    boxes = []
    for title, names in groups.items():
        box = make_dataclass(_field(title), [by_name.pop(name) for name in names], kw_only=True)
        boxes.append((_field(title), Annotated[box, arg(name=title, help="")], field()))
    return make_dataclass("Options", [*by_name.values(), *boxes], kw_only=True)


def _field(title: str) -> str:
    return f"group_{title}".replace(" ", "_")


def _borrowed_entries(cls: type, left_out: Sequence[str], otherwise: Mapping[str, str]) -> list[tuple[str, Any, Any]]:
    said = _words_of(cls)
    entries = []
    for item in fields(cls):
        if item.name in left_out:
            continue
        hint: Any = item.type
        default, text = item.default, said.get(item.name, "")
        if item.name in otherwise:
            hint, default, text = hint | None, None, f"{text} ({otherwise[item.name]})"
        entries.append(_entry(item.name, hint, default, text))
    return entries


def _entry(name: str, hint: Any, default: Any, text: str) -> tuple[str, Any, Any]:
    """A field of the options' dataclass. Help says no "(default: None)" where that only means "not given"."""
    idle = default in (None, (), "") or isinstance(default, bool)
    how = arg(help=text, help_behavior_hint="") if idle else arg(help=text)
    return name, Annotated[hint, how], field(default=MISSING if default is inspect.Parameter.empty else default)


def _positional_only(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY]


def _words_of(documented: Any) -> dict[str, str]:
    """What the docstring of a function or class says of each argument or attribute, in one line each."""
    lines = inspect.cleandoc(documented.__doc__ or "").splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines[next((i + 1 for i, line in enumerate(lines) if line in ("Args:", "Attributes:")), len(lines)) :]:
        if match := re.fullmatch(r" {4}(\w+): (.*)", line):
            name, found[match[1]] = match[1], match[2]
        elif line.startswith(" " * 8) and name:
            found[name] += f" {line.strip()}"
    return found


def wrapped(text: str, indent: str) -> str:
    """`text` in lines that fit the terminal, all but the first after `indent`."""
    return textwrap.fill(text, max(NARROWEST, min(shutil.get_terminal_size().columns, 120)), subsequent_indent=indent)


def _description(function: Callable[..., Any]) -> str:
    """The docstring before its list of arguments. The indent is what keeps tyro from joining the lines again."""
    text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:")[0]
    return "\n\n".join(wrapped(" ".join(paragraph.split()), "  ") for paragraph in text.split("\n\n"))


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
            if info.type is Path and not words[0]:  # of a variable that is not set: else it is the present folder
                raise ValueError("the path is empty; the present folder is '.'")
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
