"""KEDA's `redis` trigger: the length of a list (or sorted set, set, hash) on one Redis or Valkey server."""

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any, Self

from redis import exceptions

from scalers.redis_connection import Link, RedisServer, RedisSource, reason
from scalers.scaler import Connections, Measure, Source, SourceError, parameter

_SCRIPT = resources.files("scalers").joinpath("lua/length.lua").read_text()
_DIGEST = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

#: By key type, the command that answers how many entries a key has; a missing key has none of any type.
_LENGTHS = {b"list": "LLEN", b"zset": "ZCARD", b"set": "SCARD", b"hash": "HLEN", b"none": "LLEN"}

#: What one list answered: its length, or the server's refusal.
Answer = int | exceptions.RedisError


class RedisLists(RedisSource):
    """One list whose entries are work."""

    list_name: str = parameter(sources=(Source.METADATA,))
    list_length: int = parameter(5, sources=(Source.METADATA,), ge=0)
    activation_list_length: int = parameter(0, sources=(Source.METADATA,))

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"redis-{self.list_name}"

    @property
    def target(self) -> float:
        """Entries per Job."""
        return self.list_length

    @property
    def activation(self) -> float:
        """Entries that are not yet worth a Job."""
        return self.activation_list_length

    @property
    def watched(self) -> str:
        """The list itself."""
        return self.list_name

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """The lengths of all lists in one round trip; in two on servers that refuse scripts."""
        server = scalers[0].server
        names = list(dict.fromkeys(scaler.list_name for scaler in scalers))
        async with server.using(connections) as link:
            answers = dict(zip(names, await _lengths(link, names), strict=True))
        return [_measure(server, scaler.list_name, answers[scaler.list_name]) for scaler in scalers]


def _measure(server: RedisServer, name: str, answer: Answer) -> float | Exception:
    return float(answer) if isinstance(answer, int) else SourceError(f"{server}: {name}: {reason(answer)}")


async def _lengths(link: Link, names: Sequence[str]) -> list[Answer]:
    if not link.scripts:
        return await _by_commands(link, names)
    answers = await _by_script(link, names)
    refused = [place for place, answer in enumerate(answers) if _is_refusal(answer)]
    if not refused:
        return answers
    again = await _by_commands(link, [names[place] for place in refused])
    for place, answer in zip(refused, again, strict=True):
        answers[place] = answer
    # The first command carried the script: what works without it shows that scripts are what is refused.
    link.scripts = not (refused[0] == 0 and isinstance(again[0], int))
    return answers


def _is_refusal(answer: Answer) -> bool:
    """The command was refused, rather than the key being of a wrong type."""
    return isinstance(answer, exceptions.RedisError) and not str(answer).startswith("WRONGTYPE")


async def _by_script(link: Link, names: Sequence[str]) -> list[Answer]:
    """One script call per list, so that one list the user may not read says nothing about the others."""
    pipeline = link.client.pipeline(transaction=False)
    pipeline.eval(_SCRIPT, 1, names[0])
    for name in names[1:]:
        pipeline.evalsha(_DIGEST, 1, name)
    return await _execute(pipeline)


async def _by_commands(link: Link, names: Sequence[str]) -> list[Answer]:
    types = link.client.pipeline(transaction=False)
    for name in names:
        types.type(name)
    kinds = await types.execute(raise_on_error=False)
    lengths = link.client.pipeline(transaction=False)
    for name, kind in zip(names, kinds, strict=True):
        lengths.execute_command(_LENGTHS.get(kind, "LLEN"), name)
    return await _execute(lengths)


async def _execute(pipeline: Any) -> list[Answer]:
    answers: list[Answer] = await pipeline.execute(raise_on_error=False)
    return answers
