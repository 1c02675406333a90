"""KEDA's `nats-jetstream` trigger: messages that a consumer has not received or not acknowledged."""

from typing import ClassVar
from urllib.parse import urlsplit

import orjson

from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.http.web import Session, WebSource
from workers.api.kinds import Object

_M, _A = Source.METADATA, Source.AUTHENTICATION


class NATSJetStream(WebSource):
    """One consumer of one stream, read from the monitoring endpoint of a NATS server."""

    endpoint: str = parameter(
        name="natsServerMonitoringEndpoint",
        sources=(_M, _A),
        description="`host:port` of the server's monitoring endpoint",
    )
    account: str | None = parameter(
        None, also=("accountID",), sources=(_M, _A), description="account that owns the stream"
    )
    stream: str = parameter(sources=(_M,), description="stream of the consumer")
    consumer: str = parameter(sources=(_M,), description="consumer whose messages count: pending and not acknowledged")
    lag_threshold: int = parameter(10, sources=(_M,), ge=0, description="messages that one Job is meant for")
    activation_lag_threshold: int = parameter(
        0, sources=(_M,), description="the trigger is active above so many messages"
    )
    use_https: bool = parameter(False, sources=(_M,), description="ask over HTTPS")

    @property
    def url(self) -> str:
        """The URL of the monitoring endpoint, which the manifest gives as host:port."""
        return f"{'https' if self.use_https else 'http'}://{self.endpoint}"

    url_parameter: ClassVar[str] = "natsServerMonitoringEndpoint"
    metric: ClassVar[str] = text_of("nats-jetstream-{0.stream}")
    target: ClassVar[float] = value_of("lag_threshold")
    activation: ClassVar[float] = value_of("activation_lag_threshold")

    async def ask(self, session: Session) -> float:
        """Returns the pending and the unacknowledged messages; in a cluster the consumer's leader knows them."""
        consumer = await self._consumer(session, self.url)
        if elsewhere := self._leader_of(consumer):
            consumer = await self._consumer(session, elsewhere)
        try:
            return float(consumer["num_pending"] + consumer["num_ack_pending"])
        except (KeyError, TypeError):
            raise SourceError(f"{self.server}: consumer {self.consumer} tells no numbers") from None

    def _leader_of(self, consumer: Object) -> str | None:
        """Returns the URL of the consumer's leader: servers of a cluster have host names below that of the service."""
        leader = (consumer.get("cluster") or {}).get("leader")
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if not leader or host.startswith(f"{leader}.") or ":" in host or host.replace(".", "").isdecimal():
            return None
        login, at, place = parts.netloc.rpartition("@")
        return f"{parts.scheme}://{login}{at}{leader}.{place}"

    async def _consumer(self, session: Session, base: str) -> Object:
        query = {"consumers": "true", "config": "true", **({"acc": self.account} if self.account else {})}
        answer = await self.get(session, "/jsz", query, base=base)
        with self.understanding("one of JetStream"):
            accounts = orjson.loads(answer.body).get("account_details") or ()
            streams = {each["name"]: each for account in accounts for each in account.get("stream_detail") or ()}
            if self.stream not in streams:
                raise SourceError(f"{self.server}: there is no stream {self.stream}")
            consumers = {each["name"]: each for each in streams[self.stream].get("consumer_detail") or ()}
        if self.consumer not in consumers:
            raise SourceError(f"{self.server}: stream {self.stream} has no consumer {self.consumer}")
        return dict(consumers[self.consumer])
