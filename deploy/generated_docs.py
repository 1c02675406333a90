"""Pages of docs/ with a generated part. The prose around it stands in the page alone."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
_BEGIN = re.compile(r"(<!-- Made by [^\n]* -->\n)")
_END = "\n<!-- End of what is made. -->\n"


def filled(page: str, made: str) -> str:
    """Returns the page's text with `made` after its mark, up to its end mark or its end. Raises ValueError without."""
    before, mark, rest = _BEGIN.split((DOCS / page).read_text(encoding="utf-8"), maxsplit=1)
    _, end, after = rest.partition(_END)
    return f"{before}{mark}\n{made}{end}{after}"


def write(page: str, made: str) -> None:
    """Writes the page with `made` in place of what it was filled with before."""
    (DOCS / page).write_text(filled(page, made), encoding="utf-8")
