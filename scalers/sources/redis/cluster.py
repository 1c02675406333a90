"""Redis and Valkey clusters: every key is asked for at the node that owns its slot, one round trip per node."""

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redis import exceptions
from redis.crc import key_slot

from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.sources.redis.connection import Answer, Ask, Question, RedisLink, RedisServer
from scalers.sources.redis.seeds import Seeds


@dataclass(frozen=True, slots=True)
class RedisCluster:
    """A cluster. seeds: some of its nodes, any of which tells who the others are."""

    seeds: tuple[RedisServer, ...]

    def __str__(self) -> str:
        return ",".join(seed.place for seed in self.seeds)

    async def answers(self, questions: Sequence[Question], ask: Ask, connections: Connections) -> list[Answer]:
        """See scalers.sources.redis.connection.Topology.

        What a node does not answer says nothing about the others, whoever is asked in the same reading: it is never the
        cluster that failed as long as a node tells who owns which slots.
        """
        async with connections.use(self, lambda: _Map(Seeds(self.seeds)), _Map.close) as known:
            await known.learn(connections)
            places: defaultdict[RedisServer | None, list[int]] = defaultdict(list)
            for place, question in enumerate(questions):
                places[known.owner(question.key)].append(place)
            reading = _Reading(self, questions, ask, connections)
            await asyncio.gather(*(reading.ask_node(node, group) for node, group in places.items()))
            if reading.outdated:
                # Learned afresh before failed questions are asked once more.
                known.forget()
        return reading.complete()


@dataclass
class _Map:
    """Which node owns which slots, once learned. starts, ends, owners: of ranges in ascending order."""

    seeds: Seeds
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    owners: list[RedisServer] = field(default_factory=list)

    async def learn(self, connections: Connections) -> None:
        """Ask a node, unless that was done."""
        if self.starts:
            return
        ranges = await self.seeds.ask(_ranges, connections)
        self.starts = [start for start, _, _ in ranges]
        self.ends = [end for _, end, _ in ranges]
        self.owners = [owner for _, _, owner in ranges]

    def forget(self) -> None:
        """What was learned is out of date."""
        self.starts, self.ends, self.owners = [], [], []

    def owner(self, key: str) -> RedisServer | None:
        """The node that answers for this key; None while nobody does."""
        slot = key_slot(key.encode())
        place = bisect_right(self.starts, slot) - 1
        return self.owners[place] if place >= 0 and slot <= self.ends[place] else None

    async def close(self) -> None:
        """Nothing to close: the nodes' clients are shared."""


async def _ranges(node: RedisServer, link: RedisLink) -> list[tuple[int, int, RedisServer]]:
    """First slot, last slot and master of every range of slots, in order."""
    [answer] = await link.run([("CLUSTER", "SLOTS")])
    if isinstance(answer, exceptions.RedisError):
        raise SourceError(f"{node.place}: {answer}")
    found = [(int(start), int(end), _named(node, master[0], int(master[1]))) for start, end, master, *_ in answer]
    if not found:
        raise SourceError(f"{node.place}: its cluster serves no slots")
    return sorted(found, key=lambda each: each[0])


def _named(node: RedisServer, host: Any, port: int) -> RedisServer:
    """Another node as this one calls it; without a name it is where this one is."""
    name = host.decode() if isinstance(host, bytes) else host
    return replace(node, host=node.host if name in (None, "", "?") else name, port=port)


@dataclass
class _Reading:
    """One reading of a cluster: answers by place, and whether what is known of the nodes is out of date."""

    cluster: RedisCluster
    questions: Sequence[Question]
    ask: Ask
    connections: Connections
    found: dict[int, Answer] = field(default_factory=dict)
    outdated: bool = False

    async def ask_node(self, node: RedisServer | None, places: Sequence[int], *, asking: bool = False) -> None:
        """Ask one node; keys it is giving away are asked for at the node that gets them."""
        if node is None:
            self._failed(places, SourceError(f"{self.cluster}: no node serves the slot of this key"))
            return
        questions = [self.questions[place] for place in places]
        try:
            async with asyncio.timeout(self.connections.patience):
                answers = await node.answers(questions, self.ask, self.connections, asking=asking)
        except TimeoutError:
            self._failed(places, SourceError(f"{node.place}: no answer within {self.connections.patience:g} s"))
            return
        except SourceError as error:
            self._failed(places, error)
            return
        moving: defaultdict[RedisServer, list[int]] = defaultdict(list)
        for place, answer in zip(places, answers, strict=True):
            self.found[place] = answer
            self.outdated |= isinstance(answer, (exceptions.MovedError, exceptions.ClusterDownError))
            if isinstance(answer, exceptions.AskError) and not isinstance(answer, exceptions.MovedError):
                moving[_named(node, answer.host, int(answer.port))].append(place)
        if not asking:
            await asyncio.gather(*(self.ask_node(to, group, asking=True) for to, group in moving.items()))

    def complete(self) -> list[Answer]:
        """The answers in order."""
        return [self.found[place] for place in range(len(self.questions))]

    def _failed(self, places: Sequence[int], error: SourceError) -> None:
        self.outdated = True
        self.found.update(dict.fromkeys(places, error))
