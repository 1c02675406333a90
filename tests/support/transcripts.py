"""Transcripts: all that a whole scenario decides or writes as text, compared with a file beside the test.

A table has the cases of one rule; a transcript shows what the rules together do, word for word. With
``WRITE_TRANSCRIPTS=1`` in its environment a test writes its file first, for a reading before it is committed.
"""

import os
import textwrap
from math import inf
from pathlib import Path
from typing import Any

import yaml


class Transcript:
    """Lines, and the files that they are compared with. folder: of the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: list[str] = []

    def note(self, line: str) -> None:
        """Adds a line that says what happens next."""
        self._lines += ("", f"# {line}")

    def add(self, heading: str, lines: list[str]) -> None:
        """Adds a paragraph; what is wider than a page is wrapped."""
        self._lines += ("", heading)
        for line in lines:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            self._lines += textwrap.wrap(
                line.lstrip(), 118, initial_indent=indent, subsequent_indent=f"{indent}    ", break_on_hyphens=False
            )

    @property
    def text(self) -> str:
        """All that was added."""
        return "\n".join(self._lines).strip() + "\n"

    def expected(self, name: str) -> str:
        """Returns the content of the file of this name."""
        file = self._folder / f"{name}.txt"
        if os.environ.get("WRITE_TRANSCRIPTS"):
            self._folder.mkdir(exist_ok=True)
            file.write_text(self.text, encoding="utf-8")
        return file.read_text(encoding="utf-8")


def flow(value: Any) -> str:
    """Returns YAML in brackets."""
    shown = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=inf, allow_unicode=True)
    return shown.removesuffix("\n...\n").strip()
