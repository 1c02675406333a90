"""Tables of test cases: a row is the first arguments of a test, with a name before them or without."""

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
    Raises ValueError when two rows have one name, or not equally many arguments; TypeError when one is a text.
    """
    if any(isinstance(row, str) for row in rows):
        raise TypeError("a row is a name and arguments")
    table = [each for row in rows for each in (_of_mapping(row) if isinstance(row, Mapping) else [row])]
    names = [name for name, *_ in table]
    if len(set(names)) < len(names):
        raise ValueError(f"two cases have one name: {names}")
    return _run([tuple(arguments) for _, *arguments in table], names)


def for_each(*values: Any) -> Callable[[Test], Test]:
    """Runs a test once for each value: it is the test's first argument, a tuple its first ones. pytest makes the ids.

    Raises ValueError when tuples have different lengths.
    """
    return _run([value if isinstance(value, tuple) else (value,) for value in values], None)


def _of_mapping(rows: Mapping[str, Any]) -> list[Sequence[Any]]:
    return [(name, *value) if isinstance(value, tuple) else (name, value) for name, value in rows.items()]


def _run(table: Sequence[tuple[Any, ...]], ids: Sequence[str] | None) -> Callable[[Test], Test]:
    widths = {len(row) for row in table}
    if len(widths) != 1:
        raise ValueError(f"cases differ in their number of arguments: {table}")
    (width,) = widths

    def decorate(test: Test) -> Test:
        free = [name for name in signature(test).parameters if name not in {"self", *_given(test)}]
        return pytest.mark.parametrize(free[:width], table, ids=ids)(test)

    return decorate


def _given(test: Test) -> set[str]:
    """The arguments that other tables give."""
    tables = [mark.args[0] for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    return {name.strip() for names in tables for name in (names.split(",") if isinstance(names, str) else names)}
