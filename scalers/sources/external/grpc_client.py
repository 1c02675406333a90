"""gRPC channels to external scalers: one per address and set of certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from penstock._trust import client_context
from penstock.extras import needed
from penstock.scaler import SourceError, Unreached
from scalers.sources.external.messages import (
    EXTRA,
    GET_METRIC_SPEC,
    GET_METRICS,
    IS_ACTIVE,
    STREAM_IS_ACTIVE,
    Method,
    message,
)
from scalers.sources.tls import TLS
from workers.cancellation import cancelled

#: Seconds without a word from a server after which it is pinged while a call is open, and seconds for its answer.
#: Servers refuse pings more often than every 5 minutes unless they are told otherwise; networks forget connections soon
#: after.
KEEPALIVE = (310.0, 20.0)
#: gRPC's wait before it reconnects is shorter than the circuit breaker's and the listener's, which decide therefore. A
#: new client shares neither the connection nor the wait of the one before it.
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an external scaler. tls: None is a plain connection."""

    target: str
    tls: TLS | None = None

    def __str__(self) -> str:
        return self.target


class ExternalClient:
    """A channel to one external scaler; nothing is sent before it is used.

    keepalive: as KEEPALIVE. A server that does not answer the ping is gone: its streams end with a SourceError.
    """

    def __init__(self, address: Address, *, keepalive: tuple[float, float] = KEEPALIVE) -> None:
        self._address = address
        silence, answer = (int(seconds * 1000) for seconds in keepalive)
        self._options = (
            *_OPTIONS,
            ("grpc.keepalive_time_ms", silence),
            ("grpc.keepalive_timeout_ms", answer),
            ("grpc.http2.ping_timeout_ms", answer),
            # A stream without pushes sends no data between pings.
            ("grpc.http2.max_pings_without_data", 0),
        )
        self._grpc = needed("grpc", EXTRA)
        self._aio = needed("grpc.aio", EXTRA)
        self._opening = asyncio.Lock()
        self._channel: Any = None
        if address.tls is None:
            self._channel = self._aio.insecure_channel(address.target, options=self._options)
        elif address.tls.verify:
            self._channel = self._secure(address.tls)

    async def specs(self, reference: Any) -> Any:
        """Returns the metrics of this ScaledObjectRef. Raises SourceError."""
        return (await self._call(GET_METRIC_SPEC, reference)).metricSpecs

    async def values(self, reference: Any, metric: str) -> Any:
        """Returns the values of one metric. Raises SourceError."""
        request = message("GetMetricsRequest")(scaledObjectRef=reference, metricName=metric)
        return (await self._call(GET_METRICS, request)).metricValues

    async def active(self, reference: Any) -> bool:
        """Returns whether the server calls the trigger active. Raises SourceError."""
        return bool((await self._call(IS_ACTIVE, reference)).result)

    async def pushes(self, reference: Any) -> AsyncIterator[bool]:
        """Yields False when the stream begins and True for every active push, until the server ends it.

        The stream begins when the server is connected: many servers send nothing before the first push. Others push
        their state several times a second: that nothing is active is no news, and KEDA ignores it as well. Raises
        SourceError.
        """
        channel = await self._opened()
        call = self._method(channel, STREAM_IS_ACTIVE)(reference)
        read = asyncio.ensure_future(call.read())
        ready = asyncio.ensure_future(channel.channel_ready())
        try:
            await asyncio.wait((read, ready), return_when=asyncio.FIRST_COMPLETED)
            begun = ready.done()
            if begun:
                yield False
            while (push := await read) is not self._grpc.aio.EOF:
                if push.result or not begun:
                    begun = True
                    yield bool(push.result)
                read = asyncio.ensure_future(call.read())
        except self._grpc.aio.AioRpcError as error:
            raise self._said(STREAM_IS_ACTIVE, error) from None
        finally:
            call.cancel()
            await cancelled(read, ready)

    async def close(self) -> None:
        """Ends every call and closes the connection."""
        with suppress(asyncio.CancelledError):
            if self._channel is not None:
                await self._channel.close()

    async def _opened(self) -> Any:
        """Returns the channel. To trust any certificate it fetches the server's first: gRPC always verifies."""
        tls = self._address.tls
        async with self._opening:
            if self._channel is None and tls is not None:
                try:
                    shown = await _certificate(self._address.target, tls)
                except (OSError, ValueError) as error:
                    raise Unreached(f"{self._address}: {error}") from error
                self._channel = self._secure(replace(tls, ca=shown.pem), shown.name)
        return self._channel

    def _secure(self, tls: TLS, name: str = "") -> Any:
        """Returns a channel over TLS. name: verified in the certificate instead of the address's host."""
        texts = (text.encode() or None for text in (tls.ca, tls.key, tls.cert))
        credentials = self._grpc.ssl_channel_credentials(*texts)
        options = (*self._options, ("grpc.ssl_target_name_override", name)) if name else self._options
        return self._aio.secure_channel(self._address.target, credentials, options=options)

    async def _call(self, method: Method, request: Any) -> Any:
        try:
            return await self._method(await self._opened(), method)(request)
        except self._grpc.aio.AioRpcError as error:
            raise self._said(method, error) from None

    def _method(self, channel: Any, method: Method) -> Any:
        make = channel.unary_stream if method.streams else channel.unary_unary
        return make(
            method.path,
            request_serializer=message(method.request).SerializeToString,
            response_deserializer=message(method.response).FromString,
        )

    def _said(self, method: Method, error: Any) -> SourceError:
        code = error.code()
        kind = Unreached if code is self._grpc.StatusCode.UNAVAILABLE else SourceError
        details = " ".join((error.details() or "").split())[:200]
        return kind(f"{self._address}: {method.name}: {code.name}{f': {details}' if details else ''}")


@dataclass(frozen=True, slots=True)
class _ServerCertificate:
    """The certificate of a server as PEM, and a name that it is valid for."""

    pem: str
    name: str


async def _certificate(place: str, tls: TLS) -> _ServerCertificate:
    """Returns the certificate of the server at ``host:port``. Raises OSError, and ValueError if it holds no name.

    It connects twice: the ssl module decodes the names of trusted certificates only.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    found = await _peer(host, int(port), tls.context())
    pem = ssl.DER_cert_to_PEM_cert(found.getpeercert(binary_form=True) or b"")
    trusting = client_context(cadata=pem)
    trusting.check_hostname = False
    return _ServerCertificate(pem, _name((await _peer(host, int(port), trusting)).getpeercert() or {}))


async def _peer(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return found
    finally:
        writer.close()


def _name(peer: Any) -> str:
    names = [name for kind, name in peer.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    common = [text for part in peer.get("subject", ()) for key, text in part if key == "commonName"]
    if not names and not common:
        raise ValueError("the server's certificate names nobody")
    return str((names or common)[0]).replace("*", "any", 1)
