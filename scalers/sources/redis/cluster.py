"""Redis and Valkey clusters: each key is read from the node that owns its slot, in one round trip per node."""

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
from scalers.sources.redis.connection import Answer, Ask, Question, RedisLink, RedisServer, Seeds


@dataclass(frozen=True, slots=True)
class RedisCluster:
    """A cluster. seeds: some of its nodes, any of which knows the others."""

    seeds: tuple[RedisServer, ...]

    def __str__(self) -> str:
        return ",".join(seed.place for seed in self.seeds)

    async def answers(self, questions: Sequence[Question], ask: Ask, connections: Connections) -> list[Answer]:
        """See scalers.sources.redis.connection.Topology.

        The failure of a node concerns its keys alone: the cluster fails only if no node tells the slots' owners.
        """
        async with connections.use(self, lambda: _Map(Seeds(self.seeds)), _Map.close) as known:
            await known.learn(connections)
            places: defaultdict[RedisServer | None, list[int]] = defaultdict(list)
            for place, question in enumerate(questions):
                places[known.owner(question.key)].append(place)
            reading = _Reading(self, questions, ask, connections)
            await asyncio.gather(*(reading.ask_node(node, group) for node, group in places.items()))
            if reading.outdated:
                # The slots are read anew before failed questions are asked once more.
                known.forget()
        return reading.complete()


@dataclass
class _Map:
    """The owners of slots, once read. starts, ends, owners: of ranges in ascending order."""

    seeds: Seeds
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    owners: list[RedisServer] = field(default_factory=list)

    async def learn(self, connections: Connections) -> None:
        """Reads the slots from a node, unless they are known."""
        if self.starts:
            return
        ranges = await self.seeds.ask(_ranges, connections)
        self.starts = [start for start, _, _ in ranges]
        self.ends = [end for _, end, _ in ranges]
        self.owners = [owner for _, _, owner in ranges]

    def forget(self) -> None:
        """Makes the next `learn` read the slots again."""
        self.starts, self.ends, self.owners = [], [], []

    def owner(self, key: str) -> RedisServer | None:
        """Returns the node that owns the key's slot; None if no node does."""
        slot = key_slot(key.encode())
        place = bisect_right(self.starts, slot) - 1
        return self.owners[place] if place >= 0 and slot <= self.ends[place] else None

    async def close(self) -> None:
        """Does nothing: the nodes' clients are shared."""


async def _ranges(node: RedisServer, link: RedisLink) -> list[tuple[int, int, RedisServer]]:
    """Returns first slot, last slot and master of every range of slots, in order."""
    [answer] = await link.run([("CLUSTER", "SLOTS")])
    if isinstance(answer, exceptions.RedisError):
        raise SourceError(f"{node.place}: {answer}")
    found = [(int(start), int(end), _named(node, master[0], int(master[1]))) for start, end, master, *_ in answer]
    if not found:
        raise SourceError(f"{node.place}: its cluster serves no slots")
    return sorted(found, key=lambda each: each[0])


def _named(node: RedisServer, host: Any, port: int) -> RedisServer:
    """Returns another node by the name that this one gives it; without a name it has this one's."""
    name = host.decode() if isinstance(host, bytes) else host
    return replace(node, host=node.host if name in (None, "", "?") else name, port=port)


@dataclass
class _Reading:
    """One reading of a cluster. found: answers by place. outdated: the slots have moved."""

    cluster: RedisCluster
    questions: Sequence[Question]
    ask: Ask
    connections: Connections
    found: dict[int, Answer] = field(default_factory=dict)
    outdated: bool = False

    async def ask_node(self, node: RedisServer | None, places: Sequence[int], *, asking: bool = False) -> None:
        """Asks one node; keys that it is migrating are read from the node that gets them."""
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
        """Returns the answers in order."""
        return [self.found[place] for place in range(len(self.questions))]

    def _failed(self, places: Sequence[int], error: SourceError) -> None:
        self.outdated = True
        self.found.update(dict.fromkeys(places, error))
