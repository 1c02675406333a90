"""One mutant, and the list of survivors that are accepted, each with its reason."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ACCEPTED = Path(__file__).with_name("accepted.txt")

_LOGS = re.compile(r"\s*log\.\w+\(")
_STRICT = re.compile(r"strict=\w+")
_TEXT = re.compile(r"""f?"[^"]*"|f?'[^']*'""")


@dataclass(frozen=True)
class Mutant:
    """One changed line. file: relative to the checkout. line: its number from 0, or -1 if it is not known."""

    file: str
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """The row of the accepted list that means this mutant, whatever stands above it in the file."""
        return f"{self.file}: {' '.join(self.before.split())} => {' '.join(self.after.split())}"

    @property
    def is_wording(self) -> bool:
        """Returns whether only the text of a message differs: tests pin what messages name, not how they say it.

        A message of None is none: the type checker refuses it. So is `strict` of zip, a guard that never fires, and a
        line of the log.
        """
        if _LOGS.match(self.before) and _LOGS.match(self.after):
            return True
        before, after = _without_sentences(self.before), _without_sentences(self.after)
        parts = before.split("''")
        silent = ("''".join(parts[:at]) + "None" + "''".join(parts[at:]) for at in range(1, len(parts)))
        return after in (before, *silent)

    def applied(self, source: str) -> str:
        """Returns the source with the line changed."""
        lines = source.splitlines(keepends=True)
        lines[self.line] = lines[self.line].replace(self.before, self.after)
        return "".join(lines)


def _without_sentences(line: str) -> str:
    # A word alone is a reason or a field, which tests do pin; a text with a space is a sentence.
    return _STRICT.sub("", _TEXT.sub(lambda text: "''" if " " in text[0] else text[0], line))


def accepted() -> Mapping[str, str]:
    """Returns the reasons of the survivors that are accepted, by key."""
    rows = (line for line in ACCEPTED.read_text().splitlines() if line and not line.startswith("#"))
    return {key: reason for key, _, reason in (row.partition("  # ") for row in rows)}
