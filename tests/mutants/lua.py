"""Mutants of Lua scripts: one token of one line exchanged, or one call of the broker left out."""

import gc
import multiprocessing
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from hashlib import sha1
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection

from scheduler import scripts
from scheduler.scripts import Script
from tests.mutants import forks
from tests.mutants.mutant import Mutant
from tests.mutants.rooms import Room
from tests.support.paths import ROOT

#: CPU seconds that the tests of a mutant may take.
PATIENCE = 40

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


def survivors(room: Room, number: int, seed: int) -> tuple[Sequence[Mutant], int]:
    """Tries mutants of a room.

    Returns those that no test noticed, and how many were tried. Raises RuntimeError if a test fails without any mutant.
    """
    files = sorted((ROOT / room.folder).glob("*.lua"))
    known = [each for file in files for each in mutants(file, str(file.relative_to(ROOT)))]
    tried = room.sample(known, number, seed)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as alone:
        alive = alone.submit(_alive, room.tests, tried).result()
    return [mutant for mutant in tried if mutant in alive], len(tried)


def _alive(tests: Sequence[str], tried: Sequence[Mutant]) -> Set[Mutant]:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return forks.survivors(_Loaded(), tried, tests, ("-n", "0"), patience=PATIENCE)


class _Loaded:
    """Scripts by their digests: every client tells which it sends, and a mutant takes the places of its file."""

    @cached_property
    def _scripts(self) -> Sequence[Script]:
        """All that the collected tests have loaded."""
        gc.unfreeze()
        loaded = [each for each in gc.get_objects() if type(each) is Script]
        gc.freeze()
        return loaded

    def watch(self, reached: set[str]) -> None:
        """Adds from now on the digests of scripts that are sent."""
        for client in (redis.Redis, Pipeline):
            client.execute_command = _noting(client.execute_command, reached)  # type: ignore[method-assign]
        # What our own clients send passes by redis-py's.
        AbstractConnection.send_command = _noting(AbstractConnection.send_command, reached)  # type: ignore[method-assign]
        pack = AbstractConnection.pack_commands

        def packed(connection: AbstractConnection, commands: Iterable[Sequence[Any]]) -> Any:
            sent = list(commands)
            for command in sent:
                _note(command, reached)
            return pack(connection, sent)

        AbstractConnection.pack_commands = packed  # type: ignore[method-assign]
        run = Script.__call__

        async def noted(script: Script, *args: Any) -> Any:
            reached.add(script.digest)
            return await run(script, *args)

        Script.__call__ = noted  # type: ignore[method-assign]

    def names(self, mutant: Mutant) -> Set[str]:
        """Returns the digests of the scripts that contain the mutant's file."""
        changed = _changed(mutant)
        joined = (each.digest for each in self._scripts if _replaced(each.text, changed) != each.text)
        return {*map(_digest, changed), *joined}

    def begin(self, mutant: Mutant) -> None:
        """Puts the mutant where its file is loaded, and where it was loaded before."""
        changed = _changed(mutant)
        _read(mutant)
        for script in self._scripts:
            if (text := _replaced(script.text, changed)) != script.text:
                script.__init__(text, ours=script._ours)  # type: ignore[misc]
        for module in list(sys.modules.values()):
            for name, value in list(vars(module).items()):
                if type(value) is str and value in changed:
                    setattr(module, name, changed[value])


def _noting(execute: Any, reached: set[str]) -> Any:
    def noted(client: Any, *command: Any, **options: Any) -> Any:
        _note(command, reached)
        return execute(client, *command, **options)

    return noted


def _note(command: Sequence[Any], reached: set[str]) -> None:
    match str(command[0]).upper():
        case "EVAL":
            reached.add(_digest(command[1]))
        case "EVALSHA":
            reached.add(command[1])


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _changed(mutant: Mutant) -> Mapping[str, str]:
    """Returns the texts that contain the mutant's file, each with the mutant in it."""
    read = scripts._read
    before = {place: scripts.load(*place) for place in _places()}
    _read(mutant)
    after = {place: scripts.load(*place) for place in before}
    scripts._read = read
    scripts.load.cache_clear()
    return {before[place]: after[place] for place in before if before[place] != after[place]}


def _read(mutant: Mutant) -> None:
    """Lets the loader read the mutant in the place of its file."""
    source = (ROOT / mutant.file).read_text()
    read = scripts._read
    scripts._read = lambda package, name: (
        mutant.applied(source) if read(package, name) == source else read(package, name)
    )
    scripts.load.cache_clear()


def _replaced(text: str, changed: Mapping[str, str]) -> str:
    """Returns a script's text with the changed texts in it: scripts that are joined contain several."""
    for before, after in changed.items():
        text = text.replace(before, after)
    return text


def _places() -> Iterator[tuple[str, str]]:
    for package in ("scheduler", "workers", "scalers"):
        for file in (ROOT / package / "lua").glob("*.lua"):
            yield package, file.stem
