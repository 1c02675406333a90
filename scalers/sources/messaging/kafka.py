"""KEDA's `apache-kafka` and `kafka` triggers: the lag of a consumer group."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import ClassVar, Literal, Self

from pydantic import SecretStr, field_validator, model_validator

from penstock.extras import needed
from penstock.parameters import ParameterError
from penstock.scaler import Connections, Measure, Source, SourceError, TooSlow, Unreached, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http.web import AMAZON
from scalers.sources.messaging import kafka_lag
from scalers.sources.messaging.kafka_client import EXTRA, MECHANISMS, Inquiry, KafkaClient, KafkaCluster, Offsets
from scalers.sources.messaging.kafka_lag import LagRules, Partition
from scalers.sources.tls import ProtectedCertificates

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

#: KEDA's other SASL mechanisms.
_MISSING = frozenset({"gssapi", "aws_msk_iam", "oauthbearer"})


_KERBEROS = frozenset({"keytab", "realm", "kerberosConfig", "kerberosServiceName", "kerberosDisableFAST"})


class KafkaSource(ProtectedCertificates):
    """The parameters and the measurement of both triggers. A subclass defines `topics`."""

    #: KEDA's names of the SASL mechanisms of this trigger, supported here or not.
    logins: ClassVar[frozenset[str]]

    bootstrap_servers: tuple[str, ...] = parameter(
        sources=(_M, _E), description="brokers to connect to first, as `host:port`"
    )
    consumer_group: str = parameter(sources=(_M, _E), description="consumer group whose lag counts")
    lag_threshold: int = parameter(10, sources=(_M,), gt=0, description="messages of lag that one Job is meant for")
    activation_lag_threshold: int = parameter(
        0, sources=(_M,), ge=0, description="the trigger is active above this lag"
    )
    offset_reset_policy: Literal["latest", "earliest"] = parameter(
        "latest",
        sources=(_M,),
        description="what a partition without a committed offset counts: `latest` one message, `earliest` all of them",
    )
    allow_idle_consumers: bool = parameter(
        False, sources=(_M,), description="allow more Jobs than there are partitions"
    )
    limit_to_partitions_with_lag: bool = parameter(
        False, sources=(_M,), description="no more Jobs than there are partitions with lag; needs `topic`"
    )
    ensure_even_distribution_of_partitions: bool = parameter(
        False, sources=(_M,), description="only numbers of Jobs that share the partitions evenly; needs `topic`"
    )
    exclude_persistent_lag: bool = parameter(
        False,
        sources=(_M,),
        description="leave out partitions whose committed offset has not moved since the last poll",
    )
    scale_to_zero_on_invalid_offset: bool = parameter(
        False, sources=(_M,), description="a partition without a committed offset counts 0 instead of 1"
    )
    partition_limitation: str = parameter("", sources=(_M,), description="`1,2,5-8`; none: all")
    sasl: str = parameter("none", sources=(_M, _A), description="`none`, `plaintext`, `scram_sha256`, `scram_sha512`")
    tls: Literal["enable", "disable"] = parameter("disable", sources=(_M, _A), description="`enable` speaks TLS")
    username: str | None = parameter(None, sources=(_A,), description="user name for SASL")
    password: SecretStr | None = parameter(None, sources=(_A,), description="password for SASL")

    @field_validator("partition_limitation")
    @classmethod
    def _of_numbers(cls, text: str) -> str:
        kafka_lag.numbers(text)
        return text

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        needed("aiokafka", EXTRA)
        if not all(self.bootstrap_servers):
            raise ParameterError("bootstrapServers", "must be addresses such as kafka-0:9092,kafka-1:9092")
        limited, even = self.limit_to_partitions_with_lag, self.ensure_even_distribution_of_partitions
        for name, asked in (("limitToPartitionsWithLag", limited), ("ensureEvenDistributionOfPartitions", even)):
            if asked and not self.topics:
                raise ParameterError(name, "needs a topic")
        if limited and self.allow_idle_consumers:
            raise ParameterError("limitToPartitionsWithLag", "and allowIdleConsumers exclude each other")
        if limited and even:
            raise ParameterError(
                "limitToPartitionsWithLag", "and ensureEvenDistributionOfPartitions exclude each other"
            )
        self._check_login()
        return self

    def _check_login(self) -> None:
        if self.sasl in _MISSING & self.logins:
            raise ParameterError("sasl", f"{self.sasl} is not supported yet")
        if self.sasl != "none" and self.sasl not in MECHANISMS:
            raise ParameterError("sasl", f"must be one of none, {', '.join(MECHANISMS)}")
        for name, value in (("username", self.username), ("password", self.password)):
            if self.sasl != "none" and value is None:
                raise ParameterError(name, f"is required by sasl {self.sasl}")
        material = self.certificates()
        if self.tls == "enable":
            material.context()
        elif "tls" not in self.model_fields_set:
            self.refuse_unused("tls: enable")

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to measure; none means all that the group has committed to."""
        raise NotImplementedError

    @property
    def server(self) -> KafkaCluster:
        """The cluster with the login."""
        return KafkaCluster(
            brokers=self.bootstrap_servers,
            tls=self.certificates() if self.tls == "enable" else None,
            mechanism=MECHANISMS.get(self.sasl, ""),
            user=self.username or "",
            password=self.password.get_secret_value() if self.password else "",
        )

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"kafka-{','.join(self.topics)}" if self.topics else f"kafka-{self.consumer_group}-topics"

    target: ClassVar[float] = value_of("lag_threshold")

    @property
    def rules(self) -> LagRules:
        """The rules of the lag."""
        return LagRules(
            threshold=self.lag_threshold,
            earliest=self.offset_reset_policy == "earliest",
            zero_without_offset=self.scale_to_zero_on_invalid_offset,
            exclude_persistent=self.exclude_persistent_lag,
            allow_idle=self.allow_idle_consumers,
            with_lag_only=self.limit_to_partitions_with_lag,
            even=self.ensure_even_distribution_of_partitions,
        )

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """Requests topics and ends of partitions all at once, and committed offsets group by group, side by side.

        A group or a partition whose broker does not answer is unknown by itself.
        """
        cluster = scalers[0].server
        async with connections.use(cluster, lambda: KafkaClient(cluster), KafkaClient.close) as client:
            inquiry = Inquiry(client, connections.timeout)
            found = await inquiry.topics({scaler.consumer_group for scaler in scalers if not scaler.topics})
            asked = [scaler.topics or _sorted(found[scaler.consumer_group]) for scaler in scalers]
            there = await client.partitions(topic for topics in asked for topic in topics)
            wanted = [tuple(scaler.wanted(topics, there)) for scaler, topics in zip(scalers, asked, strict=True)]
            groups: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
            for scaler, partitions in zip(scalers, wanted, strict=True):
                groups[scaler.consumer_group].update(partitions)
            ends, committed = await asyncio.gather(inquiry.ends(set(wanted)), inquiry.committed(groups))
            # Equal triggers share one answer: for the second one `previous` would return the first one's offsets.
            answers: dict[Self, Measure | Exception] = {}
            for scaler, partitions in dict(zip(scalers, wanted, strict=True)).items():
                topics, offsets = found.get(scaler.consumer_group), committed[scaler.consumer_group]
                latest = ends[partitions]
                if isinstance(offsets, SourceError):
                    answers[scaler] = offsets
                elif isinstance(topics, SourceError) and not scaler.topics:
                    answers[scaler] = topics
                elif scaler.topics and not partitions:
                    answers[scaler] = SourceError(f"{cluster}: {scaler.missing(there)}")
                elif isinstance(latest, SourceError):
                    answers[scaler] = latest
                else:
                    answers[scaler] = scaler.measured(partitions, offsets, latest, client)
            unreached = [answer for answer in answers.values() if isinstance(answer, Unreached | TooSlow)]
            if len(unreached) == len(answers):
                raise unreached[0]
            return [answers[scaler] for scaler in scalers]

    def missing(self, there: Mapping[str, frozenset[int]]) -> str:
        """Returns why there is no partition to measure."""
        missing = [topic for topic in self.topics if topic not in there]
        return f"there is no topic {', '.join(missing)}" if missing else "there is no partition of partitionLimitation"

    def wanted(self, topics: Sequence[str], there: Mapping[str, frozenset[int]]) -> list[tuple[str, int]]:
        """Returns the partitions to measure; none unless all topics that the trigger names exist."""
        if not there.keys() >= set(self.topics):
            return []
        only = kafka_lag.numbers(self.partition_limitation) if self.topics else None
        return [
            (topic, number)
            for topic in dict.fromkeys(topics)
            for number in sorted(there.get(topic, ()))
            if only is None or number in only
        ]

    def measured(
        self, wanted: Sequence[tuple[str, int]], committed: Offsets, ends: Offsets, client: KafkaClient
    ) -> Measure:
        """Returns the lag, and whether it makes the trigger active."""
        before: Offsets = {}
        if self.exclude_persistent_lag:
            before = client.previous(self, {each: committed[each] for each in wanted if each in committed})
        lag = kafka_lag.combined(
            (Partition(ends.get(each), committed.get(each), before.get(each)) for each in wanted), self.rules
        )
        return Measure(float(lag.value), lag.total > self.activation_lag_threshold)


def _sorted(topics: Set[str] | SourceError) -> tuple[str, ...]:
    return () if isinstance(topics, SourceError) else tuple(sorted(topics))


class ApacheKafka(KafkaSource):
    """Lag of a consumer group on some topics, or on all that it has committed to."""

    logins = frozenset({*MECHANISMS, "gssapi", "aws_msk_iam"})
    unsupported = AMAZON | _KERBEROS
    topic: tuple[str, ...] = parameter((), sources=(_M, _E), description="none: all that the group has committed to")

    topics: ClassVar[tuple[str, ...]] = value_of("topic")


class Kafka(KafkaSource):
    """Lag of a consumer group on one topic, or on all that it has committed to."""

    logins = frozenset({*MECHANISMS, "gssapi", "oauthbearer"})
    unsupported = AMAZON | _KERBEROS | {"saslTokenProvider", "oauthTokenEndpointUri", "oauthExtensions"}
    topic: str | None = parameter(None, sources=(_M, _E), description="none: all that the group has committed to")
    version: str | None = parameter(None, sources=(_M,), description="it has no effect: brokers are asked for theirs")
    full_metadata: bool = parameter(False, sources=(_M,), description="it has no effect on what is measured")

    @property
    def topics(self) -> tuple[str, ...]:
        """The one topic, if there is one."""
        return (self.topic,) if self.topic else ()
