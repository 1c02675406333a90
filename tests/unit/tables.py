"""Tables of test cases: each case stands beside its name."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest


def cases(names: str | Sequence[str], table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrizes a test over the values of a table; its keys are the ids."""
    return pytest.mark.parametrize(names, table.values(), ids=table)
