"""A Kafka cluster as lag needs it: what groups have committed, and where partitions end."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from penstock.extras import needed
from penstock.scaler import SourceError, Unreached
from scalers.sources.tls import TLS

#: The extra that brings the client.
EXTRA = "kafka"

#: What Kafka calls the ways to log in, by KEDA's names.
MECHANISMS = {"plaintext": "PLAIN", "scram_sha256": "SCRAM-SHA-256", "scram_sha512": "SCRAM-SHA-512"}

#: Milliseconds that one request may take; the source's own deadline is the shorter one.
_REQUEST = 10_000

#: Triggers whose offsets at the last poll are remembered.
_REMEMBERED = 10_000

#: Offsets, by topic and partition.
Offsets = Mapping[tuple[str, int], int]


class KafkaRefused(SourceError):  # noqa: N818 - what happened
    """The cluster answers, but does not tell about this group."""


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
        """As the library takes them."""
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
        """The topics that the group has committed to; none for a group that is not there.

        Raises SourceError; Refused for it alone.
        """
        admin, _ = await self._opened()
        found = await self._asked(admin.list_consumer_group_offsets(group))
        if not found:
            # The library takes a refusal for an empty answer; a description of the group tells the two apart.
            for described in await self._asked(admin.describe_consumer_groups([group])):
                if code := described.groups[0][0]:
                    raise KafkaRefused(
                        f"{self._cluster}: group {group}: {needed('aiokafka.errors', EXTRA).for_code(code)()}"
                    )
        return frozenset(each.topic for each in found)

    async def committed(self, group: str, partitions: Set[tuple[str, int]]) -> Offsets:
        """What the group has committed of these partitions. Raises SourceError; Refused for it alone."""
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
        """The partitions of those topics that are there. Raises SourceError."""
        wanted = set(topics)
        if not wanted:
            return {}
        admin, _ = await self._opened()
        # All are asked for: a broker may create a topic that is asked for by its name.
        return {
            each["topic"]: frozenset(one["partition"] for one in each["partitions"])
            for each in await self._asked(admin.describe_topics())
            if each["topic"] in wanted and not each["error_code"]
        }

    async def ends(self, partitions: Set[tuple[str, int]]) -> Offsets:
        """Where these partitions end. Raises SourceError."""
        if not partitions:
            return {}
        _, consumer = await self._opened()
        make = needed("aiokafka", EXTRA).TopicPartition
        found = await self._asked(consumer.end_offsets([make(*each) for each in sorted(partitions)]))
        return {(each.topic, each.partition): offset for each, offset in found.items()}

    def previous(self, trigger: Hashable, committed: Offsets) -> Offsets:
        """What was committed at the trigger's last poll; what is now is remembered for its next one."""
        before = self._previous.pop(trigger, {})
        self._previous[trigger] = committed
        if len(self._previous) > _REMEMBERED:
            self._previous.popitem(last=False)
        return before

    async def close(self) -> None:
        """Close the connections."""
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
        """The library's client once it is connected. One that did not get so far, or was given up, is closed."""
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
            # The library reads a refusal by SCRAM as if it were the next step.
            said = (
                "refuses the login, or speaks no SASL" if self._cluster.mechanism else "does not speak Kafka's protocol"
            )
            raise Unreached(f"{self._cluster}: {said}") from error
