"""The `push` trigger: CloudEvents that any Redis client may push, each taken in once."""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Self

from pydantic import SecretStr, model_validator

from penstock.client import beside
from penstock.parameters import ParameterError
from penstock.scaler import Connections, Source, parameter
from scalers.claimable import ClaimableItems, ClaimRequest
from scalers.sources.events import intake
from scalers.sources.events.intake import Intake
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.redis.connection import Answer, RedisLink, RedisServer
from scalers.sources.redis.own_broker import own_broker
from scalers.sources.redis.source import SingleServer
from scalers.sources.redis.streams import StreamClaims

_M = (Source.METADATA,)

#: Parameters of the connection to another server than Penstock's own broker, by field.
_ELSEWHERE = {
    **{name: name for name in ("username", "password", "ca", "cert", "key")},
    **{"enable_tls": "enableTLS", "tls_mode": "tls", "unsafe_ssl": "unsafeSsl", "key_password": "keyPassword"},
    "database_index": "databaseIndex",
}


class Push(StreamClaims, SingleServer):
    """CloudEvents that were pushed to a Redis stream and are not done. See [events.md](events.md)."""

    stream: str | None = parameter(
        None, sources=_M, description="what is pushed to; else `{<prefix>}:events:<namespace>/<name>`"
    )
    events_per_job: int = parameter(1, sources=_M, ge=1, description="events that one Job is meant for")
    activation_events: int = parameter(0, sources=_M, ge=0, description="active above so many events")
    consumer_group: str = parameter("penstock", sources=_M, description="the group as which Jobs take events")
    count_taken: bool = parameter(
        True, sources=_M, description="count events that Jobs have taken and not acknowledged, too"
    )
    max_events: int = parameter(
        10_000, sources=_M, ge=1, le=1_000_000, description="events that may be not done; more are dropped"
    )
    deduplication_window: timedelta = parameter(
        timedelta(hours=1), sources=_M, description="an event of the same source and id is the same one for so long"
    )
    deduplication_limit: int = parameter(
        100_000, sources=_M, ge=0, le=10_000_000, description="events that are remembered for that, the newest"
    )
    max_parked: int = parameter(
        1_000, sources=_M, ge=0, le=1_000_000, description="pushed entries that are no events and are kept"
    )
    of_namespace: str = parameter("", sources=(Source.NAMESPACE,))
    of_object: str = parameter("", sources=(Source.OWNER,))
    own_broker: SecretStr = parameter(SecretStr(""), sources=(Source.BROKER,))
    own_prefix: str = parameter("penstock", sources=(Source.PREFIX,))

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self._is_own:
            for field, name in _ELSEWHERE.items():
                if field in self.model_fields_set:
                    raise ParameterError("address", f"is required by {name}")
            if not self.own_broker.get_secret_value():
                raise ParameterError("address", "is required, or host and port")
            self._check_name()
            try:
                _ = self.server
            except ValueError as error:
                raise ParameterError("address", f"Penstock's own broker: {error}") from None
        return self

    def _check_name(self) -> None:
        """Raises ParameterError for a stream in Penstock's own broker that is not one of the object's namespace.

        That broker holds the events of other namespaces, and the state of Penstock itself.
        """
        tag = f"{{{self.own_prefix}}}"
        ours = f"{tag}:events:{self.of_namespace}/"
        if self.stream and beside(self.stream, "").startswith(tag) and not self.stream.startswith(ours):
            raise ParameterError("stream", f"of Penstock's own broker's keys it must begin with {ours}")

    @property
    def _is_own(self) -> bool:
        return not self.addresses and not self.hosts and not self.ports

    def places(self) -> list[tuple[str, int]]:
        """Returns host and port of every server that is named; none for Penstock's own broker."""
        return [] if self._is_own else super().places()

    @property
    def server(self) -> RedisServer:
        """Penstock's own broker, unless another server is named."""
        return own_broker(self.own_broker.get_secret_value(), self.own_prefix) if self._is_own else super().server

    metric: ClassVar[str] = text_of("push-{0.question.stream}")
    target: ClassVar[float] = value_of("events_per_job")
    activation: ClassVar[float] = value_of("activation_events")

    @property
    def question(self) -> Intake:
        """The intake."""
        own = f"{{{self.own_prefix}}}:events:{self.of_namespace}/{self.of_object}"
        return Intake(
            stream=self.stream or own,
            group=self.consumer_group,
            limit=self.max_events,
            window=int(self.deduplication_window.total_seconds() * 1000),
            remembered=self.deduplication_limit,
            parked=self.max_parked,
            held=self.count_taken,
        )

    @staticmethod
    async def ask(link: RedisLink, questions: Sequence[Intake]) -> Sequence[Answer]:  # type: ignore[override]
        """Takes pushed events in, and returns the number of events in each intake."""
        return await intake.ask(link, questions)

    group: ClassVar[str] = value_of("consumer_group")
    # Events are claimed once they are accepted.
    queue: ClassVar[str] = value_of("question.accepted")

    async def carry_out(self, request: ClaimRequest, connections: Connections) -> ClaimableItems:
        """Takes pushed events in, then claims."""
        await self.server.answers([self.question], intake.ask, connections)
        return await super().carry_out(request, connections)
