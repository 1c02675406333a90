"""Mutants of Lua scripts: one token of one line exchanged, or one call of the broker left out."""

import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutant import Mutant
from tests.mutants.rooms import Room

#: Seconds that the tests of a mutant may take; one that never ends is caught.
PATIENCE = 300

_SWAPS = {
    **{"<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "~=", "~=": "=="},
    **{"and": "or", "or": "and", "not": "", "true": "false", "false": "true"},
    **{"+": "-", "-": "+", "*": "+", "math.max": "math.min", "math.min": "math.max"},
}
_TOKEN = re.compile(r"<=|>=|==|~=|(?<=\s)[<>+*-](?=\s)|\b(?:and|or|not|true|false|math\.max|math\.min)\b|\b\d+\b")
_CALL = re.compile(r"\s*(?:redis\.call|write_many)\(.*\)$")
#: Comments and strings hold no code.
_DEAD = re.compile(r"--.*$|'[^']*'|\"[^\"]*\"")


def mutants(script: Path, name: str) -> Iterator[Mutant]:
    """Yields every mutant of a script. name: its path in the checkout."""
    for number, line in enumerate(script.read_text().splitlines()):
        if _CALL.match(line):
            yield Mutant(name, number, line, "")
        dead = [match.span() for match in _DEAD.finditer(line)]
        for match in _TOKEN.finditer(line):
            if any(start <= match.start() < end for start, end in dead):
                continue
            token = match[0]
            other = _SWAPS[token] if token in _SWAPS else str(int(token) + 1)
            yield Mutant(name, number, line, line[: match.start()] + other + line[match.end() :])


def survivors(room: Room, trees: Sequence[Path], number: int, chance: random.Random) -> tuple[Sequence[Mutant], int]:
    """Tries mutants of a room in copies of the checkout, one at a time in each.

    Returns those that no test noticed, and how many were tried. Raises RuntimeError if the tests fail without any
    mutant.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "tests.mutants.quick", *room.tests]
    if not _pass(command, trees[0]):
        raise RuntimeError(f"the tests of {room.folder} fail without any mutant")
    scripts = sorted((trees[0] / room.folder).glob("*.lua"))
    known = [each for script in scripts for each in mutants(script, str(script.relative_to(trees[0])))]
    tried = chance.sample(known, min(number, len(known)))
    free: SimpleQueue[Path] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def lives(mutant: Mutant) -> bool:
        tree = free.get()
        script = tree / mutant.file
        source = script.read_text()
        script.write_text(mutant.applied(source))
        try:
            return _pass(command, tree)
        finally:
            script.write_text(source)
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as threads:
        alive = list(threads.map(lives, tried))
    return [mutant for mutant, survived in zip(tried, alive, strict=True) if survived], len(tried)


def _pass(command: Sequence[str], tree: Path) -> bool:
    try:
        return subprocess.run(command, cwd=tree, capture_output=True, timeout=PATIENCE).returncode == 0
    except subprocess.TimeoutExpired:
        return False
