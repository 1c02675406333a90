"""A pytest plugin that leaves out property tests (``-p tests.mutants.quick``).

They draw hundreds of examples, and a mutant that they alone notice lacks a case in a table.
"""

import sys

import pytest

#: mutmut calls each function through two of its own: what stays below Python's limit without them must do so with them.
DEPTH = 3


def pytest_configure() -> None:
    """Raises the limit of recursion."""
    sys.setrecursionlimit(DEPTH * sys.getrecursionlimit())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests of hypothesis, and all of a module that drives a state machine."""
    slow = [item for item in items if _draws(item)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def _draws(item: pytest.Item) -> bool:
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return True
    return hasattr(getattr(item, "module", None), "run_state_machine_as_test")
