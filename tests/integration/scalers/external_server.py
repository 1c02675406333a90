"""A real gRPC server that is an external scaler, as somebody outside would write one."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio

from penstock.parameters import Trigger
from scalers.sources.external.messages import GET_METRIC_SPEC, GET_METRICS, IS_ACTIVE, STREAM_IS_ACTIVE, Method, message
from scalers.sources.external.trigger import External
from tests.support.certificates import Certificates


@dataclass
class ExternalServer:
    """Answers what it is told, and remembers what it was asked.

    specs and values: fields of the messages. failing: by method, or by ``GetMetrics <metric>``, the details of
    an error. pushes: what the streams
    send; None ends a stream cleanly, an exception breaks it.
    """

    port: int = 0
    specs: list[dict[str, Any]] = field(default_factory=lambda: [{"metricName": "depth", "targetSize": 5}])
    values: list[dict[str, Any]] = field(default_factory=lambda: [{"metricName": "other", "metricValue": 12}])
    active: bool = True
    failing: dict[str, str] = field(default_factory=dict)
    pushes: asyncio.Queue[bool | Exception | None] = field(default_factory=asyncio.Queue)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    peers: set[str] = field(default_factory=set)
    streams: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def named(self, method: str) -> list[Any]:
        return [request for name, request in self.asked if name == method]

    async def _answer(self, method: Method, request: Any, context: Any) -> Any:
        name = method.path.rpartition("/")[2]
        self.asked.append((name, request))
        self.peers.add(context.peer())
        asked = f"{name} {request.metricName}" if method is GET_METRICS else name
        for failing in {name, asked} & self.failing.keys():
            await context.abort(grpc.StatusCode.INTERNAL, self.failing[failing])
        made = message(method.response)()
        if method is IS_ACTIVE:
            made.result = self.active
        for spec in self.specs if method is GET_METRIC_SPEC else ():
            made.metricSpecs.add(**spec)
        for value in self.values if method is GET_METRICS else ():
            made.metricValues.add(**value)
        return made

    async def _stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.asked.append(("StreamIsActive", request))
        self.streams += 1
        try:
            while (push := await self.pushes.get()) is not None:
                if isinstance(push, Exception):
                    await context.abort(grpc.StatusCode.INTERNAL, str(push))
                yield message("IsActiveResponse")(result=push)
        finally:
            self.streams -= 1

    def handler(self) -> Any:
        handlers = {}
        for method in (IS_ACTIVE, GET_METRIC_SPEC, GET_METRICS, STREAM_IS_ACTIVE):
            make = grpc.unary_stream_rpc_method_handler if method.streams else grpc.unary_unary_rpc_method_handler
            handlers[method.path.rpartition("/")[2]] = make(
                self._stream if method.streams else self._answering(method),
                request_deserializer=message(method.request).FromString,
                response_serializer=message(method.response).SerializeToString,
            )
        return grpc.method_handlers_generic_handler("externalscaler.ExternalScaler", handlers)

    def _answering(self, method: Method) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            return await self._answer(method, request, context)

        return answer


def asking(
    server: str, environment: Mapping[str, str] | None = None, /, *, owner: str = "work", kind: str = "", **given: str
) -> External:
    """The trigger that asks this server. given: its metadata, and its certificates as from an authentication."""
    certificates = {name: given.pop(name) for name in ("caCert", "tlsClientCert", "tlsClientKey") & given.keys()}
    return External.parse(
        Trigger(
            *(0, "external"),
            metadata={"scalerAddress": server, **given},
            environment=environment or {},
            authentication=certificates,
            namespace="team",
            owner=owner,
            kind=kind,
        )
    )


@asynccontextmanager
async def external(port: int = 0, tls: Certificates | None = None) -> AsyncIterator[ExternalServer]:
    """A running external scaler on loopback; with certificates it wants the client's too."""
    told, server = ExternalServer(), aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((told.handler(),))
    if tls is None:
        told.port = server.add_insecure_port(f"127.0.0.1:{port}")
    else:
        pair = (tls.server_key.encode(), tls.server.encode())
        credentials = grpc.ssl_server_credentials([pair], tls.authority.encode(), require_client_auth=True)
        told.port = server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield told
    finally:
        await server.stop(None)
