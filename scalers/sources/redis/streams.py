"""KEDA's `redis-streams`, `redis-cluster-streams` and `redis-sentinel-streams` triggers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from redis import exceptions

from penstock.scaler import Source, SourceError, parameter
from scalers.claimable import ClaimRequest
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.redis.claim_scripts import RedisClaims, as_object
from scalers.sources.redis.connection import Answer, RedisLink
from scalers.sources.redis.source import ClusterServers, SentinelServers, SingleServer
from scheduler.scripts import Script, load

_CLAIM = Script(load("scalers", "claim_stream"))

#: The group that claims if the trigger names none.
GROUP = "penstock"


@dataclass(frozen=True, slots=True)
class Count:
    """The question for the number of entries of a stream that wait.

    group: None counts all entries. lag: entries not yet delivered to the group; otherwise entries delivered to a
    consumer of the group and not acknowledged.
    """

    key: str
    group: str | None = None
    lag: bool = False

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The commands of the question."""
        if self.group is None:
            return (("XLEN", self.key),)
        if self.lag:
            return (("XINFO GROUPS", self.key), ("XLEN", self.key))
        return (("XPENDING", self.key, self.group),)

    def answer(self, answers: Sequence[Any]) -> Answer:
        """Returns the answer, from those to the commands."""
        first = answers[0]
        if self.lag and isinstance(first, exceptions.ResponseError) and "no such key" in str(first):
            return 0
        if isinstance(first, exceptions.RedisError):
            return first
        if self.group is None:
            return int(first)
        if not self.lag:
            return int(first["pending"])
        # Names are bytes: those of other groups may be no text.
        groups: Mapping[bytes, Mapping[str, Any]] = {group["name"]: group for group in first}
        if group := groups.get(self.group.encode()):
            return self._lag(group)
        # A group that does not exist yet lags behind by the whole stream.
        return answers[1] if isinstance(answers[1], exceptions.RedisError) else int(answers[1])

    def _lag(self, group: Mapping[str, Any]) -> Answer:
        if "lag" not in group:
            return SourceError(f"{self.key}: lagCount needs Redis 7.0 or newer, or Valkey")
        if group["lag"] is None:
            return SourceError(
                f"{self.key}: the server cannot tell the lag of group {self.group}:"
                " entries were deleted before the group was given them"
            )
        return int(group["lag"])


class StreamClaims(RedisClaims):
    """Claims of a stream's entries."""

    @property
    @abstractmethod
    def group(self) -> str:
        """The consumer group whose pending entries are the ledger."""

    def claim_script(self) -> Script:
        """Returns the script that reads entries as a consumer of the group."""
        return _CLAIM

    def item(self, value: Any) -> tuple[str, str]:
        """Returns the entry's fields."""
        return as_object(value)

    def particulars(self, request: ClaimRequest) -> tuple[str, ...]:
        """Returns the group, and the object's consumer."""
        return (self.group, f"penstock:{request.uid}")


class StreamTrigger(StreamClaims):
    """One stream whose entries are work."""

    stream: str = parameter(sources=(Source.METADATA,), description="name of the stream")
    consumer_group: str | None = parameter(
        None, sources=(Source.METADATA,), description="without one the stream's length counts"
    )
    pending_entries_count: int = parameter(
        5, sources=(Source.METADATA,), ge=0, description="given to the group and not acknowledged, per Job"
    )
    stream_length: int = parameter(5, sources=(Source.METADATA,), ge=0, description="entries per Job, without a group")
    lag_count: int = parameter(
        0, sources=(Source.METADATA,), ge=0, description="if not 0: not given to the group yet, per Job (Redis 7)"
    )
    activation_lag_count: int = parameter(
        0, sources=(Source.METADATA,), description="active above so many, whatever counts"
    )

    metric: ClassVar[str] = text_of("redis-streams-{0.stream}")

    @property
    def target(self) -> float:
        """Entries per Job, by the way of counting."""
        if self.consumer_group is None:
            return self.stream_length
        return self.lag_count or self.pending_entries_count

    activation: ClassVar[float] = value_of("activation_lag_count")

    @property
    def question(self) -> Count:
        """The question for the stream's length, the group's lag, or its pending entries."""
        return Count(self.stream, self.consumer_group, self.consumer_group is not None and self.lag_count > 0)

    @property
    def group(self) -> str:
        """The trigger's group, or `penstock`."""
        return self.consumer_group or GROUP

    @staticmethod
    async def ask(link: RedisLink, questions: Sequence[Count]) -> Sequence[Answer]:  # type: ignore[override]
        """Returns all counts, in one round trip."""
        answers = iter(await link.run([command for question in questions for command in question.commands]))
        return [_answer(question, [next(answers) for _ in question.commands]) for question in questions]


class RedisStreams(StreamTrigger, SingleServer):
    """A stream on one server."""


class RedisClusterStreams(StreamTrigger, ClusterServers):
    """A stream on a cluster."""


class RedisSentinelStreams(StreamTrigger, SentinelServers):
    """A stream on the master that sentinels name."""


def _answer(question: Count, answers: Sequence[Any]) -> Answer:
    """Returns the answer; an answer that is none is of this question alone."""
    try:
        return question.answer(answers)
    except (ValueError, LookupError, TypeError, AttributeError):
        return SourceError(f"{question.key}: the answer is not one of a stream")
