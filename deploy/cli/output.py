"""The printer of results: aligned tables, YAML and JSON.

It writes colours only to a terminal and only without NO_COLOR, so that pipes receive plain text.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from deploy.local.apiserver.printers import ages
from workers.errors import PenstockError

#: Colours of the words in status columns: green is healthy, yellow in progress, red failed.
COLOURS = {
    **dict.fromkeys(("Complete", "Completed", "Succeeded", "Running", "Ready", "created", "Active", "ok"), "green"),
    **dict.fromkeys(
        ("Pending", "Unknown", "ContainerCreating", "Terminating", "Suspended", "configured", "warning"), "yellow"
    ),
    **dict.fromkeys(("Failed", "Error", "CrashLoopBackOff", "Warning", "NotReady", "deleted", "wrong"), "red"),
}


def coloured() -> bool:
    """Returns True if standard output is a terminal and NO_COLOR (https://no-color.org) is not set."""
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


#: What a terminal obeys instead of showing it; not the sequences of our own colours, which can do no harm. The last two
#: ranges turn the order of what follows around, up to the end of the line.
_CONTROL = re.compile(r"(?!\x1b\[(?:0|1|31|32|33)m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Returns the text with control characters written out, as ``\x1b``: data of others must not drive a terminal."""
    return _CONTROL.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(text: str = "") -> None:
    """Prints one line of results to standard output, with its control characters written out."""
    pass_on(visible(text))


def write(text: str) -> None:
    """Prints a text with the line breaks that are in it, and its other control characters written out."""
    pass_on(visible(text), newline=False)


def pass_on(text: str, *, newline: bool = True) -> None:
    """Prints one line as it is, of a container's log, with the characters written out that the locale has not."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=newline, color=coloured())


def note(text: str) -> None:
    """Prints one line to standard error, which pipes do not carry."""
    click.echo(visible(text), err=True)


#: What an API server says before the fault of a patch: the whole object as it would be, with what is secret in it.
_PATCHED = re.compile(r'is invalid: patch: Invalid value: "(?:[^"\\]|\\.)*": ', re.DOTALL)


def reason(error: Exception) -> str:
    """Returns an error's message on one line, the server's own message if the error carries one.

    Leaves out the object that a refused patch would make.
    """
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    said = _PATCHED.sub("is invalid: ", str(message or error))
    return " ".join(visible(said).split()) or type(error).__name__


def raise_last(errors: Sequence[PenstockError]) -> None:
    """Raises the last error, which ends the command with its message; standard error lists those before it."""
    for error in errors[:-1]:
        note(f"penstock: {reason(error)}")
    if errors:
        raise errors[-1]


def width(text: str) -> int:
    """Returns the number of a terminal's columns that a text takes: two for a wide character, none for a mark."""
    shown = visible(text)
    if shown.isascii():
        return len(shown)
    return sum(_WIDTHS.get(unicodedata.east_asian_width(each), 1) for each in shown if not _takes_none(each))


#: Columns of the characters that take another number than one, by their East Asian Width.
_WIDTHS = {"W": 2, "F": 2}


def _takes_none(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me", "Cf")


def widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Returns the width of each column in columns of a terminal."""
    return [max(map(width, column)) for column in zip(*rows, strict=True)]


def line(cells: Sequence[str], columns: Sequence[int]) -> str:
    """Returns one row: columns three spaces apart, without trailing spaces."""
    padded = [_padded(cell, column) for cell, column in zip(cells, columns, strict=True)]
    if coloured():
        padded = [_painted(cell) for cell in padded]
    return "   ".join(padded).rstrip(" ")


def _padded(cell: str, column: int) -> str:
    return cell + " " * (column - width(cell))


def _painted(cell: str) -> str:
    colour = COLOURS.get(cell.strip())
    return click.style(cell, fg=colour) if colour else cell


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Prints a table with aligned columns below its header."""
    columns = widths([header, *rows])
    titles = indent + "   ".join(map(_padded, header, columns)).rstrip(" ")
    say(click.style(titles, bold=True) if coloured() else titles)
    for row in rows:
        say(indent + line(row, columns))


#: Control characters that YAML needs no quotes for.
_PLAIN_CONTROL = re.compile(r"[\x85\u202a-\u202e\u2066-\u2069]")


def as_yaml(value: Any) -> str:
    """Returns YAML as Kubernetes' tools write it: block style, key order kept, long texts unfolded."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def scalar(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # The library takes NEL for a line break that needs no quotes, and what turns text around for letters.
        style = '"' if _PLAIN_CONTROL.search(value) else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, scalar)
    text = str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**16)).rstrip("\n")
    # All of them are in double quotes, where YAML has the same escapes.
    return visible(text)


def as_json(value: Any) -> str:
    """Returns JSON, indented by two spaces."""
    import json

    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON leaves those of the later block as they are, which terminals obey, too.
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def age(since: str | None, now: datetime) -> str:
    """Returns the time since an RFC 3339 instant as kubectl renders it; ``<invalid>`` for one in the future."""
    return ages.age(since, now)


def span(length: timedelta) -> str:
    """Returns a duration in Kubernetes' short form: ``45s``, ``3m20s``, ``26h``, ``12d``; negative ones as ``0s``."""
    return ages.human(max(length, timedelta()))
