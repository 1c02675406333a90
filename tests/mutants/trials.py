"""Tries mutants that mutmut made: ``python -m tests.mutants.trials NAMES TESTS...``, with its Python, in its tree.

NAMES: a file with one mutant a line. Prints `alive` or `caught` and the name, one mutant a line, on standard error:
pytest has the other.

mutmut itself would run all tests two more times before the first mutant, which takes ten minutes on a small machine.
"""

import re
import sys
from collections.abc import Set
from pathlib import Path

from mutmut.mutation import trampoline  # type: ignore[import-not-found]

from tests.mutants import forks

#: CPU seconds that the tests of a mutant may take.
PATIENCE = 120
#: Share of the tests that may fail without any mutant: some count calls, and mutmut's wrappers are calls.
FAILING = 0.05

_NUMBER = re.compile(r"__mutmut_\d+$")


class Trampoline:
    """Functions by their names: mutmut's wrapper of each tells of a call, and chooses the mutant."""

    def watch(self, reached: set[str]) -> None:
        """Adds from now on the names of functions that are called."""
        trampoline.set_mutant_under_test("stats")
        trampoline.record_trampoline_hit = lambda name, caller: reached.add(name)

    def names(self, mutant: str) -> Set[str]:
        """Returns the function's name."""
        return {_NUMBER.sub("", mutant)}

    def begin(self, mutant: str) -> None:
        """Lets the wrappers choose the mutant."""
        trampoline.set_mutant_under_test(mutant)


def main(names: str, *tests: str) -> None:
    """Prints what became of each mutant."""
    tried = Path(names).read_text().split()
    alive = forks.survivors(Trampoline(), tried, tests, ("-p", "no:xdist"), patience=PATIENCE, failing=FAILING)
    for name in tried:
        print("alive" if name in alive else "caught", name, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
