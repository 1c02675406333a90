"""The printer of results: aligned tables, YAML and JSON.

It writes colours only to a terminal and only without NO_COLOR, so that pipes receive plain text.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from workers.api import times

#: Colours of the words in status columns: green is healthy, yellow in progress, red failed.
COLOURS = {
    **dict.fromkeys(("Complete", "Completed", "Succeeded", "Running", "Ready", "created", "Active"), "green"),
    **dict.fromkeys(("Pending", "Unknown", "ContainerCreating", "Terminating", "Suspended", "configured"), "yellow"),
    **dict.fromkeys(("Failed", "Error", "CrashLoopBackOff", "Warning", "NotReady", "deleted"), "red"),
}


def coloured() -> bool:
    """Returns True if standard output is a terminal and NO_COLOR (https://no-color.org) is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def say(text: str = "") -> None:
    """Prints one line of results to standard output."""
    click.echo(text, color=coloured())


def note(text: str) -> None:
    """Prints one line to standard error, which pipes do not carry."""
    click.echo(text, err=True)


def reason(error: Exception) -> str:
    """Returns an error's message on one line, the server's own message if the error carries one."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return " ".join(str(message or error).split()) or type(error).__name__


def widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Returns the width of each column in characters."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def line(cells: Sequence[str], columns: Sequence[int]) -> str:
    """Returns one row: columns three spaces apart, without trailing spaces."""
    padded = [cell.ljust(width) for cell, width in zip(cells, columns, strict=True)]
    if coloured():
        padded = [_painted(cell) for cell in padded]
    return "   ".join(padded).rstrip()


def _painted(cell: str) -> str:
    colour = COLOURS.get(cell.strip())
    return click.style(cell, fg=colour) if colour else cell


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Prints a table with aligned columns below its header."""
    columns = widths([header, *rows])
    titles = indent + "   ".join(title.ljust(width) for title, width in zip(header, columns, strict=True)).rstrip()
    say(click.style(titles, bold=True) if coloured() else titles)
    for row in rows:
        say(indent + line(row, columns))


def as_yaml(value: Any) -> str:
    """Returns YAML as Kubernetes' tools write it: block style, key order kept, long texts unfolded."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**16)).rstrip("\n")


def as_json(value: Any) -> str:
    """Returns JSON, indented by two spaces."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def age(since: str | None, now: datetime) -> str:
    """Returns the time since an RFC 3339 instant as `span` renders it."""
    return span(now - times.parse(since)) if since else "<unknown>"


def span(length: timedelta) -> str:
    """Returns a duration in Kubernetes' short form: ``45s``, ``3m20s``, ``26h``, ``12d``; negative ones as ``0s``."""
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
