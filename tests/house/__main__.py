"""Prints the measurements of a checkout: ``python -m tests.house [FOLDER] [--names]``.

FOLDER is the checkout to measure, this one by default. ``--names`` lists the offenders behind each figure.
"""

import argparse
from pathlib import Path

from tests.house.measure import measure


def main() -> None:
    """Prints one line per measurement."""
    parser = argparse.ArgumentParser(prog="python -m tests.house")
    parser.add_argument("folder", nargs="?", type=Path, default=Path.cwd())
    parser.add_argument("--names", action="store_true", help="list the offenders behind each figure")
    arguments = parser.parse_args()
    for figure in measure(arguments.folder):
        print(f"{figure.label:64} {figure.value}")
        if arguments.names:
            for offender in figure.offenders:
                print(f"    {offender}")


if __name__ == "__main__":
    main()
