"""The licences of what an installation brings: `python -m tests.packaging.licences` prints them.

It fails for a licence that is not on the list below. Without an extra everything is permissive; an extra may bring a
library under the LGPL, which its user then chooses.
"""

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from tests.packaging import dependencies

#: SPDX identifiers.
PERMISSIVE = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense"),
        # Weak, file by file: certifi's list of authorities.
        "MPL-2.0",
    }
)
IN_EXTRAS = frozenset({"LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later"})

#: What metadata say without an identifier, each as the identifier that is meant; a pattern must fit the whole text.
_SPELLINGS = {
    r"(the )?mit( license)?(\s.*)?": "MIT",
    r"apache(( software)? license)?,?( version)?[ -]?2(\.0)?|apache( software)? license|apache": "Apache-2.0",
    r"(the )?(new|modified|3-clause) bsd( license)?|bsd[ -]3[ -]clause( license)?|bsd-3": "BSD-3-Clause",
    r"(simplified|2-clause) bsd( license)?|bsd[ -]2[ -]clause( license)?": "BSD-2-Clause",
    r"bsd( license)?": "BSD-3-Clause",
    r"isc( license)?( \(iscl\))?": "ISC",
    r"mozilla public license 2\.0( \(mpl 2\.0\))?|mpl 2\.0": "MPL-2.0",
    r"python software foundation license|psf": "PSF-2.0",
    r"gnu lesser general public license v3( \(lgplv3\))?|lgplv3|lgpl-3\.0": "LGPL-3.0-only",
    r"gnu lesser general public license v3 or later \(lgplv3\+\)": "LGPL-3.0-or-later",
    r"lgpl with exceptions": "LGPL-3.0-only",
}


@dataclass(frozen=True, slots=True)
class Licence:
    """What a distribution's metadata say. expression: by identifiers with AND, OR and brackets."""

    distribution: str
    version: str
    expression: str

    def acceptable(self, allowed: frozenset[str]) -> bool:
        """Whether the expression holds if these licences alone are accepted."""
        words = re.findall(r"[()]|[^\s()]+(?:\s+WITH\s+[^\s()]+)?", self.expression)
        value, rest = _either(words, allowed)
        return value and not rest


def _either(words: list[str], allowed: frozenset[str]) -> tuple[bool, list[str]]:
    value, words = _both(words, allowed)
    while words[:1] == ["OR"]:
        other, words = _both(words[1:], allowed)
        value = value or other
    return value, words


def _both(words: list[str], allowed: frozenset[str]) -> tuple[bool, list[str]]:
    value, words = _one(words, allowed)
    while words[:1] == ["AND"]:
        other, words = _one(words[1:], allowed)
        value = value and other
    return value, words


def _one(words: list[str], allowed: frozenset[str]) -> tuple[bool, list[str]]:
    if words[:1] == ["("]:
        value, words = _either(words[1:], allowed)
        return value and words[:1] == [")"], words[1:]
    return bool(words) and words[0] in allowed, words[1:]


def of(name: str) -> Licence:
    """The expression of a distribution's metadata; else one of its classifiers, all of which hold, or of its text."""
    described: Any = metadata.metadata(name)
    expression = described.get("License-Expression")
    if not expression:
        texts = [
            text.rpartition(" :: ")[2]
            for text in described.get_all("Classifier") or ()
            if text.startswith("License :: ") and not text.endswith("OSI Approved")
        ]
        texts = texts or (described.get("License") or "").strip().splitlines()[:1] or ["UNKNOWN"]
        expression = " AND ".join(map(_identifier, texts))
    return Licence(name, described["Version"], expression)


def _identifier(text: str) -> str:
    for pattern, identifier in _SPELLINGS.items():
        if re.fullmatch(pattern, text, re.IGNORECASE):
            return identifier
    # One word, that no part of it is taken for an identifier.
    return re.sub(r"[\s()]+", "-", text)


def found() -> tuple[list[Licence], list[Licence]]:
    """The licences of what is always installed, and of what extras add to it."""
    always = dependencies.closure(dependencies.declared())
    extras = dependencies.closure(dependencies.declared(*dependencies.EXTRAS)) - always
    return [of(name) for name in sorted(always)], [of(name) for name in sorted(extras)]


def refused() -> list[Licence]:
    """Those that are not on the list."""
    always, extras = found()
    wrong = [one for one in always if not one.acceptable(PERMISSIVE)]
    return wrong + [one for one in extras if not one.acceptable(PERMISSIVE | IN_EXTRAS)]


def main() -> None:
    """Prints the table; ends with 1 and says which are refused, if any are."""
    for heading, licences in zip(("always installed", "brought by extras"), found(), strict=True):
        print(f"{heading}:")
        for one in licences:
            print(f"  {one.distribution:24} {one.version:16} {one.expression}")
    wrong = refused()
    for one in wrong:
        print(f"licences: {one.distribution} {one.version}: {one.expression} is not on the list", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
