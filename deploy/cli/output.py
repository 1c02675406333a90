"""What is printed: aligned tables, YAML and JSON, colours only for people.

Lines go out plain when standard output is not a terminal or NO_COLOR is set, so that pipes get text alone.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from workers.api import times

#: Words of status columns by the colour that says how bad they are.
COLOURS = {
    **dict.fromkeys(("Complete", "Completed", "Succeeded", "Running", "Ready", "created", "Active"), "green"),
    **dict.fromkeys(("Pending", "Unknown", "ContainerCreating", "Terminating", "Suspended", "configured"), "yellow"),
    **dict.fromkeys(("Failed", "Error", "CrashLoopBackOff", "Warning", "NotReady", "deleted"), "red"),
}


def coloured() -> bool:
    """Whether colours are wanted: a terminal, and no NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def say(text: str = "") -> None:
    """One line of results on standard output."""
    click.echo(text, color=coloured())


def note(text: str) -> None:
    """One line for people on standard error, out of the way of pipes."""
    click.echo(text, err=True)


def reason(error: Exception) -> str:
    """An error's text for people, on one line: the server's own message where there is one."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return " ".join(str(message or error).split()) or type(error).__name__


def widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """The width of each column."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def line(cells: Sequence[str], columns: Sequence[int]) -> str:
    """One row, three spaces between columns, nothing behind the last one."""
    padded = [cell.ljust(width) for cell, width in zip(cells, columns, strict=True)]
    if coloured():
        padded = [_painted(cell) for cell in padded]
    return "   ".join(padded).rstrip()


def _painted(cell: str) -> str:
    colour = COLOURS.get(cell.strip())
    return click.style(cell, fg=colour) if colour else cell


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """A table with its header, columns aligned."""
    columns = widths([header, *rows])
    titles = indent + "   ".join(title.ljust(width) for title, width in zip(header, columns, strict=True)).rstrip()
    say(click.style(titles, bold=True) if coloured() else titles)
    for row in rows:
        say(indent + line(row, columns))


def as_yaml(value: Any) -> str:
    """YAML as Kubernetes' tools write it: block style, key order kept, long texts unfolded."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**16)).rstrip("\n")


def as_json(value: Any) -> str:
    """Indented JSON."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def age(since: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 instant was, as `span` shows it."""
    return span(now - times.parse(since)) if since else "<unknown>"


def span(length: timedelta) -> str:
    """A length of time in Kubernetes' short form: ``45s``, ``3m20s``, ``26h``, ``12d``; below zero is zero."""
    seconds = max(0, int(length.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d" if days % 365 and days < 2920 else f"{days // 365}y"
