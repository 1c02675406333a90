"""A plugin's arguments, in the syntax of Go's flag package: ``--name=value``, ``--name value``, ``-name=value``.

Reading stops at the first argument that is no flag, and at the first that is wrong; what stood before it counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

Value = str | int | bool

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
#: Go's integers may say their base, and group digits if they do.
_INTEGER = re.compile(r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO]?(_?[0-7])+|0|[1-9](_?[0-9])*)")
_INT64 = range(-(2**63), 2**63)


class FlagError(Exception):
    """An argument cannot be understood; the text is Go's."""


def parse(arguments: Sequence[str], defaults: Mapping[str, Value]) -> tuple[dict[str, Value], str | None]:
    """The value of every flag, and what is wrong with the arguments, if anything.

    defaults: the flags there are; a flag's type is that of its default.
    """
    values = dict(defaults)
    try:
        for name, text in _flags(arguments, defaults):
            values[name] = _value(name, text, defaults[name])
    except FlagError as error:
        return values, str(error)
    return values, None


def _flags(arguments: Sequence[str], known: Mapping[str, Value]) -> Iterator[tuple[str, str | None]]:
    """The flags in order, with their texts; None for a switch that stands alone."""
    left = iter(arguments)
    for argument in left:
        if len(argument) < 2 or not argument.startswith("-") or argument == "--":
            return
        name, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {argument}")
        if name not in known:
            asked = name in ("help", "h")
            raise FlagError("flag: help requested" if asked else f"flag provided but not defined: -{name}")
        if equals or isinstance(known[name], bool):
            yield name, text if equals else None
            continue
        following = next(left, None)
        if following is None:
            raise FlagError(f"flag needs an argument: -{name}")
        yield name, following


def _value(name: str, text: str | None, default: Value) -> Value:
    if text is None:
        return True
    if isinstance(default, bool):
        if text not in _TRUE | _FALSE:
            raise FlagError(f'invalid boolean value "{text}" for -{name}: parse error')
        return text in _TRUE
    if isinstance(default, int):
        return _integer(name, text)
    return text


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise FlagError(f'invalid value "{text}" for flag -{name}: parse error')
    digits = text.replace("_", "")
    octal = re.fullmatch("([+-]?)0([0-7]+)", digits)
    number = int(octal[1] + octal[2], 8) if octal else int(digits, 0)
    if number not in _INT64:
        raise FlagError(f'invalid value "{text}" for flag -{name}: value out of range')
    return number
