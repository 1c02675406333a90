"""KEDA's `redis`, `redis-cluster` and `redis-sentinel` triggers: the length of a list (or sorted set, set, hash)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from redis import exceptions

from penstock.scaler import Source, parameter
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.redis.claim_scripts import RedisClaims, as_text
from scalers.sources.redis.connection import Answer, RedisLink
from scalers.sources.redis.source import ClusterServers, SentinelServers, SingleServer
from scheduler.scripts import Script, load

_LENGTH, _LENGTHS, _CLAIM = (Script(load("scalers", name)) for name in ("length", "lengths", "claim_list"))

#: Lists that one call of the script measures: a fraction of a millisecond of the server's time.
PIECE = 500

#: By key type, the command that answers how many entries a key has; a missing key has none of any type.
_COMMANDS = {b"list": "LLEN", b"zset": "ZCARD", b"set": "SCARD", b"hash": "HLEN", b"none": "LLEN"}


@dataclass(frozen=True, slots=True)
class Length:
    """The question for the number of entries of a key."""

    key: str


class ListTrigger(RedisClaims):
    """One list whose entries are work."""

    list_name: str = parameter(sources=(Source.METADATA,), description="a list, set, sorted set or hash")
    list_length: int = parameter(5, sources=(Source.METADATA,), ge=0, description="entries per Job")
    activation_list_length: int = parameter(0, sources=(Source.METADATA,), description="active above so many entries")

    metric: ClassVar[str] = text_of("redis-{0.list_name}")
    target: ClassVar[float] = value_of("list_length")
    activation: ClassVar[float] = value_of("activation_list_length")

    @property
    def question(self) -> Length:
        """The list's length."""
        return Length(self.list_name)

    def claim_script(self) -> Script:
        """Returns the script that moves items from the list to the ledger."""
        return _CLAIM

    def item(self, value: Any) -> tuple[str, str]:
        """Returns the item itself."""
        return as_text(value)

    @staticmethod
    async def ask(link: RedisLink, questions: Sequence[Length]) -> Sequence[Answer]:  # type: ignore[override]
        """Returns the lengths, in one round trip once it is known what the server allows."""
        return await _lengths(link, [question.key for question in questions])


class RedisLists(ListTrigger, SingleServer):
    """A list on one server."""


class RedisClusterLists(ListTrigger, ClusterServers):
    """A list on a cluster."""


class RedisSentinelLists(ListTrigger, SentinelServers):
    """A list on the master that sentinels name."""


async def _lengths(link: RedisLink, names: Sequence[str]) -> list[Answer]:
    if not link.scripts:
        return await _by_commands(link, names)
    answers = await _together(link, names)
    if answers is None:
        answers = await _by_script(link, names)
    refused = [place for place, answer in enumerate(answers) if _is_refusal(answer)]
    if not refused:
        return answers
    again = await _by_commands(link, [names[place] for place in refused])
    for place, answer in zip(refused, again, strict=True):
        answers[place] = answer
    # The first command carried the script: if its key can be read without it, scripts are refused.
    link.scripts = not (refused[0] == 0 and isinstance(again[0], int))
    return answers


def _is_refusal(answer: Answer) -> bool:
    """Returns whether the command was refused, rather than the key's type wrong."""
    return isinstance(answer, exceptions.RedisError) and not str(answer).startswith("WRONGTYPE")


async def _together(link: RedisLink, names: Sequence[str]) -> list[Answer] | None:
    """Calls one script for many lists; returns None if the server refuses that, and is not asked so again.

    A node of a cluster refuses keys of several slots, and some servers refuse the call for one key that the user may
    not read. A proxy that spreads keys over servers would send the script where its first key is: lists of other
    servers would look empty. Such proxies do not know CLIENT ID, which concerns one server.
    """
    if link.together is None:
        (identity,) = await link.run([("CLIENT", "ID")])
        link.together = isinstance(identity, int)
    if not link.together:
        return None
    pieces = [names[first : first + PIECE] for first in range(0, len(names), PIECE)]
    found = await link.run([("EVALSHA", _LENGTHS.digest, len(piece), *piece) for piece in pieces])
    if any(isinstance(answers, exceptions.NoScriptError) for answers in found):
        found = await link.run([("EVAL", _LENGTHS.text, len(piece), *piece) for piece in pieces])
    refused = any(isinstance(answers, exceptions.RedisError) for answers in found)
    link.together = not refused or len(names) == 1
    return None if refused else [answer for answers in found for answer in answers]


async def _by_script(link: RedisLink, names: Sequence[str]) -> list[Answer]:
    """Calls one script per list: a list that the user may not read fails alone."""
    first, *others = names
    return await link.run(
        [("EVAL", _LENGTH.text, 1, first), *(("EVALSHA", _LENGTH.digest, 1, name) for name in others)]
    )


async def _by_commands(link: RedisLink, names: Sequence[str]) -> list[Answer]:
    kinds = await link.run([("TYPE", name) for name in names])
    # After an error any command will do: it is refused as well.
    known = [_COMMANDS.get(kind, "LLEN") if isinstance(kind, bytes) else "LLEN" for kind in kinds]
    return await link.run([(command, name) for command, name in zip(known, names, strict=True)])
