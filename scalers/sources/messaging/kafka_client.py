"""Connections to Kafka clusters: the offsets that groups have committed, and the ends of partitions."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.extras import needed
from penstock.scaler import SourceError, TooSlow, Unreached
from scalers.sources.tls import TLS
from workers.newest_entries import remember

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

#: The extra that brings the client.
EXTRA = "kafka"

#: Kafka's SASL mechanisms, by KEDA's names.
MECHANISMS = {"plaintext": "PLAIN", "scram_sha256": "SCRAM-SHA-256", "scram_sha512": "SCRAM-SHA-512"}

#: Milliseconds that one request may take; the source's own deadline is the shorter one.
_REQUEST = 10_000

#: Triggers whose offsets of the last poll are remembered.
_REMEMBERED = 10_000

#: Offsets, by topic and partition.
Offsets = Mapping[tuple[str, int], int]

#: Requests under way at a time, and the share of the timeout that one of them may take: if one of several in a row is
#: never answered, the others still are.
_AT_ONCE, _SHARE = 16, 0.3

_ENDS = "the ends of partitions"

#: Partitions, by topic and number.
Partitions = tuple[tuple[str, int], ...]


class KafkaRefused(SourceError):  # noqa: N818 - what happened
    """The cluster answers, but refuses to describe this group."""


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """A cluster with the login. Its text is the brokers; neither password nor keys are in any repr.

    mechanism: of SASL, empty for no login.
    """

    brokers: tuple[str, ...]
    tls: TLS | None = field(default=None, repr=False)
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"kafka://{','.join(self.brokers)}"

    def options(self) -> dict[str, Any]:
        """Returns the options of the library."""
        protocol = f"{'SASL_' if self.mechanism else ''}{'SSL' if self.tls else 'PLAINTEXT'}"
        login = {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }
        return {
            "bootstrap_servers": list(self.brokers),
            "client_id": "penstock",
            "request_timeout_ms": _REQUEST,
            "security_protocol": protocol,
            "ssl_context": self.tls.context() if self.tls else None,
            **(login if self.mechanism else {}),
        }


class KafkaClient:
    """Connections to one cluster, opened when they are first needed."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._admin: Any = None
        self._consumer: Any = None
        self._opening = asyncio.Lock()
        self._previous: OrderedDict[Hashable, Offsets] = OrderedDict()

    def __str__(self) -> str:
        return str(self._cluster)

    async def topics(self, group: str) -> frozenset[str]:
        """Returns the topics that the group has committed to; none for a group that does not exist.

        Raises KafkaRefused, which concerns the group alone, or another SourceError.
        """
        admin, _ = await self._opened()
        found = await self._asked(admin.list_consumer_group_offsets(group))
        if not found:
            # The library answers nothing to a refusal, too; the description of the group tells the two apart.
            for described in await self._asked(admin.describe_consumer_groups([group])):
                if code := described.groups[0][0]:
                    raise KafkaRefused(
                        f"{self._cluster}: group {group}: {needed('aiokafka.errors', EXTRA).for_code(code)()}"
                    )
        return frozenset(each.topic for each in found)

    async def committed(self, group: str, partitions: Set[tuple[str, int]]) -> Offsets:
        """Returns the offsets that the group has committed of these partitions. Raises as `topics`."""
        if not partitions:
            return {}
        admin, _ = await self._opened()
        make = needed("aiokafka", EXTRA).TopicPartition
        wanted = [make(*each) for each in sorted(partitions)]
        found = await self._asked(admin.list_consumer_group_offsets(group, partitions=wanted))
        if found.keys() != set(wanted):
            raise KafkaRefused(f"{self._cluster}: group {group}: its offsets are not told")
        return {(each.topic, each.partition): known.offset for each, known in found.items() if known.offset >= 0}

    async def partitions(self, topics: Iterable[str]) -> dict[str, frozenset[int]]:
        """Returns the partitions of those topics that exist. Raises SourceError."""
        wanted = set(topics)
        if not wanted:
            return {}
        admin, _ = await self._opened()
        # All topics are requested: a broker may create one that is requested by its name.
        return {
            each["topic"]: frozenset(one["partition"] for one in each["partitions"])
            for each in await self._asked(admin.describe_topics())
            if each["topic"] in wanted and not each["error_code"]
        }

    async def ends(self, partitions: Set[tuple[str, int]]) -> Offsets:
        """Returns the offsets at which these partitions end. Raises SourceError."""
        if not partitions:
            return {}
        _, consumer = await self._opened()
        make = needed("aiokafka", EXTRA).TopicPartition
        found = await self._asked(consumer.end_offsets([make(*each) for each in sorted(partitions)]))
        return {(each.topic, each.partition): offset for each, offset in found.items()}

    def previous(self, trigger: Hashable, committed: Offsets) -> Offsets:
        """Returns the offsets committed at the trigger's last poll, and remembers those of this one."""
        before = self._previous.pop(trigger, {})
        remember(self._previous, trigger, committed, _REMEMBERED)
        return before

    async def close(self) -> None:
        """Closes the connections."""
        for each in (self._admin, self._consumer):
            if each is not None:
                await (each.close() if each is self._admin else each.stop())

    async def _opened(self) -> tuple[Any, Any]:
        kafka, administration = needed("aiokafka", EXTRA), needed("aiokafka.admin", EXTRA)
        async with self._opening:
            if self._admin is None:
                admin = administration.AIOKafkaAdminClient(**self._cluster.options())
                self._admin = await self._started(admin, admin.close)
            if self._consumer is None:
                consumer = kafka.AIOKafkaConsumer(**self._cluster.options(), enable_auto_commit=False)
                self._consumer = await self._started(consumer, consumer.stop)
        return self._admin, self._consumer

    async def _started(self, client: Any, close: Callable[[], Awaitable[None]]) -> Any:
        """Returns the library's client once it is connected; closes it if that fails or is cancelled."""
        try:
            await self._asked(client.start())
        except BaseException:
            await close()
            raise
        return client

    async def _asked(self, answer: Any) -> Any:
        errors = needed("aiokafka.errors", EXTRA)
        try:
            return await answer
        except errors.KafkaError as error:
            kind = KafkaRefused if isinstance(error, errors.GroupAuthorizationFailedError) else Unreached
            raise kind(f"{self._cluster}: {' '.join(str(error).split())}") from None
        except (LookupError, ValueError) as error:
            # The library parses a refusal by SCRAM as if it were the next step.
            said = (
                "refuses the login, or speaks no SASL" if self._cluster.mechanism else "does not speak Kafka's protocol"
            )
            raise Unreached(f"{self._cluster}: {said}") from error


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The requests of one poll to one cluster, each of which concerns some of its brokers only. timeout: seconds.

    A group or partitions whose broker refuses or does not answer have the error in the place of their answer.
    """

    client: KafkaClient
    timeout: float

    async def topics(self, groups: Iterable[str]) -> dict[str, frozenset[str] | SourceError]:
        """Returns the topics that each group has committed to."""
        return await self._each(groups, self.client.topics, _SHARE)

    async def committed(self, groups: Mapping[str, Set[tuple[str, int]]]) -> dict[str, Offsets | SourceError]:
        """Returns the offsets that each group has committed of its partitions."""
        return await self._each(groups, lambda group: self.client.committed(group, groups[group]), 2 * _SHARE)

    async def ends(self, wanted: Set[Partitions]) -> dict[Partitions, Offsets | SourceError]:
        """Returns the ends of partitions: requested all at once, and trigger by trigger only if that fails."""
        whole = frozenset(each for partitions in wanted for each in partitions)
        together = await self._ask(_ENDS, lambda: self.client.ends(whole), _SHARE)
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
                return await self._ask(f"group {key}" if isinstance(key, str) else _ENDS, lambda: ask(key), share)

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
