"""What a Kafka cluster's answers mean that the broker of the other tests does not give: all topics of a group."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any, ClassVar

import aiokafka.admin
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.messaging import kafka_client
from scalers.sources.messaging.kafka import ApacheKafka
from scalers.sources.messaging.kafka_client import KafkaClient, KafkaCluster
from tests.support.tables import cases, for_each

pytestmark = pytest.mark.virtual_time


class Answers:
    """A client of the library that answers what it is told. refused: the error code of the group."""

    def __init__(self, committed: dict[tuple[str, int], int], *, refused: int = 0) -> None:
        self.offsets = {TopicPartition(*each): SimpleNamespace(offset=offset) for each, offset in committed.items()}
        self.refused = refused

    async def list_consumer_group_offsets(self, group: str, partitions: list[TopicPartition] | None = None) -> Any:
        if self.refused:
            return {}
        if partitions is None:
            return self.offsets
        return {each: self.offsets.get(each, SimpleNamespace(offset=-1)) for each in partitions}

    async def describe_consumer_groups(self, groups: list[str]) -> Any:
        return [SimpleNamespace(groups=[(self.refused, groups[0], "Empty", "", "", [])])]

    async def describe_topics(self) -> Any:
        partitions = [{"partition": 0}, {"partition": 1}]
        return [{"topic": name, "partitions": partitions, "error_code": 0} for name in ("a", "b", "c")]

    async def end_offsets(self, partitions: list[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, 10)


def lag_of(index: int = 0, **metadata: str) -> ApacheKafka:
    metadata = {"bootstrapServers": "a:1", "consumerGroup": "g", **metadata}
    return ApacheKafka.parse(Trigger(index, "t", metadata=metadata))


async def read_all(scalers: list[ApacheKafka], *polls: Answers, timeout: float = math.inf) -> Any:
    """The answers of the last of several polls over one client."""
    client: Any = KafkaClient(scalers[0].server)

    async def close(_: Any) -> None:
        return None

    connections = Connections()
    connections.timeout = timeout
    async with connections.use(scalers[0].server, lambda: client, close):
        for answers in polls:
            client._admin = client._consumer = answers
            found = await ApacheKafka.read(scalers, connections)
    return found


async def read(answers: Answers, *, timeout: float = math.inf, **metadata: str) -> Any:
    [found] = await read_all([lag_of(**metadata)], answers, timeout=timeout)
    return found


@cases(
    ("a group that has committed nothing", {}, Measure(0.0, False)),
    ("one topic", {("a", 0): 7, ("a", 1): 9}, Measure(4.0, True)),
    ("two topics", {("a", 0): 7, ("a", 1): 10, ("b", 0): 8, ("b", 1): 10}, Measure(5.0, True)),
    ("a partition without an offset counts one", {("a", 0): 7}, Measure(4.0, True)),
    ("a topic that is gone", {("gone", 0): 7}, Measure(0.0, False)),
)
async def test_all_topics_of_a_group(committed: dict[tuple[str, int], int], expected: Measure) -> None:
    assert await read(Answers(committed)) == expected


class Partly(Answers):
    """Answers nothing of group `slow`, nothing of where topic `c` ends, and refuses group `away`."""

    async def list_consumer_group_offsets(self, group: str, partitions: list[TopicPartition] | None = None) -> Any:
        if group == "slow":
            await asyncio.Event().wait()
        if group == "away":
            raise KafkaConnectionError("its broker is gone")
        return await super().list_consumer_group_offsets(group, partitions)

    async def end_offsets(self, partitions: list[TopicPartition]) -> Any:
        if any(each.topic == "c" for each in partitions):
            await asyncio.Event().wait()
        return await super().end_offsets(partitions)


async def test_what_one_broker_does_not_tell_is_unknown_by_itself() -> None:
    asked = [("g", "a"), ("slow", "a"), ("away", "a"), ("slow", ""), ("g", "c"), ("g", "b")]
    scalers = [lag_of(consumerGroup=group, topic=name) for group, name in asked]
    partly = Partly({("a", 0): 7, ("a", 1): 9, ("b", 0): 10, ("b", 1): 10, ("c", 0): 1})
    answers = await read_all(scalers, partly, timeout=0.2)
    assert [answers[0], answers[5]] == [Measure(4.0, True), Measure(0.0, False)]
    assert [str(answer) for answer in answers[1:5]] == [
        "kafka://a:1: group slow: no answer within 0.12 s",
        "kafka://a:1: KafkaConnectionError: its broker is gone",
        "kafka://a:1: group slow: no answer within 0.12 s",
        "kafka://a:1: the ends of partitions: no answer within 0.06 s",
    ]


async def test_a_cluster_that_tells_nothing_has_failed() -> None:
    with pytest.raises(SourceError, match=r"group slow: no answer within 0\.12 s"):
        await read(Partly({}), timeout=0.2, topic="a", consumerGroup="slow")


class Starting(Answers):
    """A client of the library that has to be started first, which the first time takes for ever."""

    made: ClassVar[list["Starting"]] = []

    def __init__(self, **_: Any) -> None:
        super().__init__({("a", 0): 7})
        self.started = self.closed = False
        self.made.append(self)

    async def start(self) -> None:
        if self.made[0] is self:
            await asyncio.Event().wait()
        self.started = True

    async def close(self) -> None:
        self.closed = True

    stop = close


async def test_a_connection_that_was_given_up_while_it_was_opened_is_opened_afresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Starting, "made", [])
    monkeypatch.setattr(aiokafka.admin, "AIOKafkaAdminClient", Starting)
    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", Starting)
    client = KafkaClient(KafkaCluster(("a:1",)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await client.topics("g")
    assert await client.topics("g") == {"a"}
    assert [(each.started, each.closed) for each in Starting.made] == [(False, True), (True, False), (True, False)]
    await client.close()
    assert all(each.closed for each in Starting.made)


@for_each(({}, "GroupAuthorizationFailed"), ({"topic": "a"}, "its offsets are not told"))
async def test_a_group_that_may_not_be_read_is_unknown(metadata: dict[str, str], complaint: str) -> None:
    answer = await read(Answers({}, refused=30), **metadata)
    assert isinstance(answer, SourceError)
    assert complaint in str(answer)


async def test_partitions_that_no_topic_has_are_an_error() -> None:
    answer = await read(Answers({}), topic="a", partitionLimitation="7")
    assert isinstance(answer, SourceError)
    assert "no partition of partitionLimitation" in str(answer)


def test_what_was_committed_before_is_remembered_of_so_many_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "_REMEMBERED", 2)
    client = KafkaClient(KafkaCluster(("a:1",)))
    told = [client.previous(*each) for each in [("a", {("t", 0): 1}), ("b", {("t", 0): 2}), ("a", {("t", 0): 3})]]
    assert told == [{}, {}, {("t", 0): 1}]
    client.previous("c", {})
    assert client.previous("a", {}) == {("t", 0): 3}
    assert client.previous("b", {}) == {}, "the one that was not asked for the longest time"


async def test_two_objects_with_the_same_trigger_measure_the_same() -> None:
    """Though what the first one saw is what the second one would take for the last poll's."""
    scalers = [lag_of(index, topic="a", excludePersistentLag="true") for index in range(2)]
    polls = [Answers({("a", 0): first, ("a", 1): second}) for first, second in ((5, 5), (7, 9))]
    answers = await read_all(scalers, *polls)
    assert answers == [Measure(4.0, True)] * 2
