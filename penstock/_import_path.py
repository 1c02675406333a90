"""The import path of Penstock's internal packages, for its own processes only.

A wheel contains the four packages in this package's folder, a checkout beside it. Other processes cannot import them,
so that packages of other projects named `workers` or `scheduler` keep their names.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

INSIDE = ("scheduler", "workers", "scalers", "deploy")

_PACKAGE = Path(__file__).resolve().parent
#: The folder that contains the internal packages.
PLACE = _PACKAGE if (_PACKAGE / "workers").is_dir() else _PACKAGE.parent
#: The program of every process of Penstock; Python runs it by its path, so that no search can find another one.
MAIN = _PACKAGE / "__main__.py"


class _Finder:
    """Finds the internal packages, and nothing else, in their folder.

    The folder itself stays off `sys.path`, where each module of it could shadow a module of the same name.
    """

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(PLACE)]) if name in INSIDE else None


def enter() -> None:
    """Makes the internal packages importable in this process, ahead of all others of their names."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Takes the current folder, which Python and Celery put first, off the path for the length of a block.

    It stays if this package was found in it.
    """
    before = list(sys.path)
    forget_current_folder()
    try:
        yield
    finally:
        sys.path[:] = before


def forget_current_folder() -> None:
    """Takes the current folder off the head of the path, unless this package was found in it."""
    try:
        current = os.getcwd()  # noqa: PTH109 - in the spelling that is on the path
    except FileNotFoundError:
        return
    if sys.path and sys.path[0] in ("", current) and Path(current) != _PACKAGE.parent:
        del sys.path[0]
