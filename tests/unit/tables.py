"""Tables of test cases: each row begins with its name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

#: A name and the values that follow it, or rows by their names: a mapping to the value, or values, of each.
Row = Sequence[Any] | Mapping[str, Any]


def cases(names: str | Sequence[str], *rows: Row) -> pytest.MarkDecorator:
    """Parametrizes a test over the rows of a table; their names are the ids.

    Raises ValueError when two rows have one name.
    """
    single = len(names.split(",") if isinstance(names, str) else names) == 1
    table = list(_each(rows, single))
    known = {name for name, _ in table}
    if len(known) < len(table):
        raise ValueError(f"two cases have one name: {sorted(name for name, _ in table)}")
    return pytest.mark.parametrize(names, [values for _, values in table], ids=[name for name, _ in table])


def _each(rows: Sequence[Row], single: bool) -> Iterator[tuple[str, Any]]:
    for row in rows:
        if isinstance(row, Mapping):
            yield from row.items()
        else:
            name, *values = row
            yield name, values[0] if single else tuple(values)
