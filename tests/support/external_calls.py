"""Calls of `externalscaler.ExternalScaler`, as any client of the protocol makes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from scalers.sources.external.messages import STREAM_IS_ACTIVE, Method, message


def reference(**metadata: str) -> Any:
    """Returns a ScaledObjectRef with these metadata; two underscores stand for a dot."""
    told = {key.replace("__", "."): text for key, text in metadata.items()}
    return message("ScaledObjectRef")(name="work", namespace="team", scalerMetadata=told)


async def call(address: str, method: Method, request: Any) -> Any:
    """Returns the answer of one call. Raises grpc.aio.AioRpcError."""
    async with aio.insecure_channel(address) as channel:
        ask = channel.unary_unary(
            method.path,
            request_serializer=message(method.request).SerializeToString,
            response_deserializer=message(method.response).FromString,
        )
        return await ask(request, timeout=60)


@asynccontextmanager
async def streaming(address: str, request: Any) -> AsyncIterator[Any]:
    """A call of StreamIsActive, whose `read` returns the next answer; cancelled with the block."""
    async with aio.insecure_channel(address) as channel:
        stream = channel.unary_stream(
            STREAM_IS_ACTIVE.path,
            request_serializer=message(STREAM_IS_ACTIVE.request).SerializeToString,
            response_deserializer=message(STREAM_IS_ACTIVE.response).FromString,
        )(request)
        try:
            yield stream
        finally:
            stream.cancel()
