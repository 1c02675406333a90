"""Writes the rules: ``python -m deploy.prometheus [FOLDER]``, by default this folder."""

import sys
from pathlib import Path

from deploy.prometheus import rule_files


def main() -> None:
    """Writes the file of recording rules and the file of alerts."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in rule_files.render().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
