"""What one poll asks of a Kafka cluster: questions of which each concerns some brokers only, side by side."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TypeVar

from penstock.scaler import SourceError, TooSlow
from scalers.sources.messaging.kafka_client import KafkaClient, Offsets

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

#: Questions under way at a time, and the share of the time for an answer that one of them may take: so that, when one
#: of several in a row is never answered, the others still are.
_AT_ONCE, _SHARE = 16, 0.3

#: Partitions, by topic and number.
Partitions = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Questions to one cluster. timeout: seconds for the whole poll.

    What one group or some partitions are refused, or wait for in vain, is told in the place of their answer.
    """

    client: KafkaClient
    timeout: float

    async def topics(self, groups: Iterable[str]) -> dict[str, frozenset[str] | SourceError]:
        """The topics that each group has committed to."""
        return await self._each(groups, self.client.topics, _SHARE)

    async def committed(self, groups: Mapping[str, Set[tuple[str, int]]]) -> dict[str, Offsets | SourceError]:
        """What each group has committed of its partitions."""
        return await self._each(groups, lambda group: self.client.committed(group, groups[group]), 2 * _SHARE)

    async def ends(self, wanted: Set[Partitions]) -> dict[Partitions, Offsets | SourceError]:
        """Where partitions end: all at once, and trigger by trigger only if that fails."""
        whole = frozenset(each for partitions in wanted for each in partitions)
        together = await self._ask("the ends of partitions", lambda: self.client.ends(whole), _SHARE)
        if not isinstance(together, SourceError) or len(wanted) == 1:
            return dict.fromkeys(wanted, together)
        return await self._each(wanted, lambda partitions: self.client.ends(frozenset(partitions)), _SHARE)

    async def _each(
        self, keys: Iterable[K], ask: Callable[[K], Awaitable[T]], share: float
    ) -> dict[K, T | SourceError]:
        turns = asyncio.Semaphore(_AT_ONCE)
        wanted = list(keys)

        async def one(key: K) -> T | SourceError:
            async with turns:
                return await self._ask(_named(key), lambda: ask(key), share)

        return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))

    async def _ask(self, what: str, ask: Callable[[], Awaitable[T]], share: float) -> T | SourceError:
        seconds = self.timeout * share
        try:
            async with asyncio.timeout(seconds if math.isfinite(seconds) else None):
                return await ask()
        except TimeoutError:
            return TooSlow(f"{self.client}: {what}: no answer within {seconds:g} s")
        except SourceError as error:
            return error


def _named(key: Hashable) -> str:
    if isinstance(key, str):
        return f"group {key}"
    return "the ends of partitions"
