"""Tables of test cases: each row is a name and the test's first arguments."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
#: A name and the arguments that follow it; or several rows, as a mapping from names to an argument or a tuple of them.
Row = Sequence[Any] | Mapping[str, Any]


def cases(*rows: Row) -> Callable[[Test], Test]:
    """Runs a test once for each row of a table: the name is the id, the others are the test's first arguments.

    Of two tables on one test, the upper one gives the arguments after those of the lower one.
    Raises ValueError when two rows have one name, or not equally many arguments.
    """
    table = [each for row in rows for each in (_of_mapping(row) if isinstance(row, Mapping) else [row])]
    names = [name for name, *_ in table]
    widths = {len(row) - 1 for row in table}
    if len(set(names)) < len(names) or len(widths) != 1:
        raise ValueError(f"two cases have one name, or differ in their number of arguments: {names}")
    (width,) = widths

    def decorate(test: Test) -> Test:
        given = {
            name for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize" for name in mark.args[0]
        }
        arguments = [name for name in signature(test).parameters if name not in {"self", *given}][:width]
        return pytest.mark.parametrize(arguments, [tuple(row[1:]) for row in table], ids=names)(test)

    return decorate


def _of_mapping(rows: Mapping[str, Any]) -> list[Sequence[Any]]:
    return [(name, *value) if isinstance(value, tuple) else (name, value) for name, value in rows.items()]
