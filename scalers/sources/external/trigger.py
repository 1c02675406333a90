"""KEDA's `external` and `external-push` triggers: a gRPC server measures the value."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, SecretStr, model_validator

from penstock.extras import needed
from penstock.parameters import FROM_ENV, IGNORED_TRUST, Origin, ParameterError, Trigger
from penstock.scaler import Connections, Measure, Scaler, Source, SourceError, milli, parameter
from scalers.sources.external.grpc_client import Address, ExternalClient
from scalers.sources.external.messages import EXTRA, Reference
from scalers.sources.field_properties import text_of
from scalers.sources.tls import TLS
from workers.api.kinds import SCALED_OBJECT

_M, _A = Source.METADATA, Source.AUTHENTICATION

#: Host and port, the host perhaps in brackets.
_PLACE = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/]+):[0-9]+")


class External(Scaler):
    """A gRPC server that implements `externalscaler.ExternalScaler`; all metadata is passed on to it."""

    scaler_address: str = parameter(sources=(_M,), description="host and port, or another target that gRPC reads")
    enable_tls: bool = parameter(False, name="enableTLS", sources=(_M,), description="speak TLS")
    unsafe_ssl: bool = parameter(False, sources=(_M,), description="trust whatever certificate the server shows")
    ca_cert: str | None = parameter(
        None, sources=(_A,), description="PEM of the authority to trust instead of the system's"
    )
    tls_client_cert: str | None = parameter(None, sources=(_A,), description="PEM of a client certificate")
    tls_client_key: SecretStr | None = parameter(
        None, sources=(_A,), description="PEM of the client certificate's private key"
    )

    _reference: Reference = PrivateAttr(Reference("", "", frozenset()))
    _secrets: tuple[str, ...] = PrivateAttr(())
    _kind: str = PrivateAttr("")

    @classmethod
    def parse(cls, trigger: Trigger) -> Self:
        """Returns the trigger with its own parameters; all other metadata is for the server. Raises SettingsError."""
        own = {key for name, info in cls.model_fields.items() for key in Origin.of(name, info).names}
        metadata = {key: text for key, text in trigger.metadata.items() if key in own}
        scaler = super().parse(replace(trigger, metadata=metadata))
        scaler._reference = Reference(trigger.owner, trigger.namespace, frozenset(_metadata(trigger)))
        scaler._kind = trigger.kind
        scaler._secrets = tuple(text for key, text in scaler._reference.metadata if key.endswith(FROM_ENV) and text)
        return scaler

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        needed("grpc", EXTRA)
        needed("google.protobuf", EXTRA)
        if (self.tls_client_cert is None) != (self.tls_client_key is None):
            raise ParameterError("tlsClientCert", "and tlsClientKey must come together")
        if self.unsafe_ssl and not self.server.tls and IGNORED_TRUST not in self.quirks:
            raise ParameterError("unsafeSsl", "is of no use without enableTLS")
        if self.server.tls:
            try:
                self.server.tls.context()
            except ParameterError as error:
                raise ParameterError("caCert" if error.field == "ca" else "tlsClientCert", str(error)) from None
        return self

    metric: ClassVar[str] = text_of("external-{0.scaler_address}")
    target: ClassVar[float] = 0.0

    @property
    def server(self) -> Address:
        """The address, with the certificates if it speaks TLS."""
        if not (self.enable_tls or self.ca_cert or self.tls_client_cert):
            return Address(self.scaler_address)
        if self.unsafe_ssl and not _PLACE.fullmatch(self.scaler_address):
            raise ParameterError("unsafeSsl", "needs an address such as scaler.example:9090")
        key = self.tls_client_key.get_secret_value() if self.tls_client_key else ""
        cert = self.tls_client_cert or ""
        return Address(self.scaler_address, TLS(self.ca_cert or "", cert, key, verify=not self.unsafe_ssl))

    async def answer(self, connections: Connections) -> Measure:
        """Measures over the channel that all triggers of the server share.

        Cancelled, it retires the channel: a server that vanished without a word would keep it for many minutes.
        """
        address = self.server
        async with connections.use(address, lambda: ExternalClient(address), ExternalClient.close) as client:
            try:
                measure = await self.ask(client)
                # A server may quote what it was sent.
                return replace(measure, incomplete=measure.incomplete and self.hide(measure.incomplete))
            except SourceError as error:
                raise type(error)(self.hide(str(error))) from None
            except asyncio.CancelledError:
                connections.retire(address, client)
                raise

    def hide(self, text: str) -> str:
        """Returns the text without the values of environment variables."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    async def ask(self, client: ExternalClient) -> Measure:
        """Returns value, target and activity, as KEDA combines them for the object's kind. Raises SourceError.

        A server that names no metric is not asked further: there is nothing to measure.
        """
        reference = self._reference.message()
        specs = await client.specs(reference)
        if not specs:
            return Measure(0.0, active=False, target=0.0)
        combine = self._largest if self._kind == SCALED_OBJECT.kind else self._combined
        measure = await combine(client, reference, specs)
        return replace(measure, active=await client.active(reference))

    async def _largest(self, client: ExternalClient, reference: Any, specs: Sequence[Any]) -> Measure:
        """Returns the metric that asks for most replicas, which an autoscaler would follow.

        One that fails could ask for more: the measure is then incomplete. Raises SourceError if all fail.
        """
        names = [spec.metricName for spec in specs]
        for name in set(names):
            if names.count(name) > 1:
                raise SourceError(f"{self.scaler_address}: two metrics are called {name!r}")
        found: list[tuple[float, float]] = []
        failed: list[SourceError] = []
        for spec in specs:
            try:
                found.append((await self._sum(client, reference, spec.metricName), _target(spec)))
            except SourceError as error:
                failed.append(error)
        if not found:
            raise failed[0]
        # What a metric without a target asks for is unknown, and could be the most.
        value, target = max(found, key=lambda each: milli(each[0]) / each[1] if each[1] > 0 else inf)
        return Measure(value, target=target, incomplete="; ".join(map(str, failed)) or None)

    async def _combined(self, client: ExternalClient, reference: Any, specs: Sequence[Any]) -> Measure:
        """Returns the sum of the values of all metrics with the first one's name, and the mean target of all."""
        first, value = specs[0].metricName, 0.0
        for _ in range(sum(spec.metricName == first for spec in specs)):
            value += await self._sum(client, reference, first)
        return Measure(value, target=sum(map(_target, specs)) / len(specs))

    async def _sum(self, client: ExternalClient, reference: Any, metric: str) -> float:
        return sum(map(_value, await client.values(reference, metric)))


class ExternalPush(External):
    """An external scaler that also pushes when there is work; the object is then polled at once."""

    @property
    def watched(self) -> tuple[Reference, ...]:
        """The stream of this object's activity."""
        return (self._reference,)


def _metadata(trigger: Trigger) -> Iterator[tuple[str, str]]:
    """Yields the metadata; a FromEnv key has the variable's value, or is left out without one."""
    for key, text in trigger.metadata.items():
        if not key.endswith(FROM_ENV):
            yield key, text
        elif (found := trigger.environment.get(text.strip())) is not None:
            yield key, found


def _target(spec: Any) -> float:
    return float(spec.targetSizeFloat if spec.targetSizeFloat > 0 else spec.targetSize)


def _value(answered: Any) -> float:
    return float(answered.metricValueFloat if answered.metricValueFloat > 0 else answered.metricValue)
