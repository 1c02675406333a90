"""The server side of KEDA's external scalers: Penstock's triggers, measured for an existing KEDA over gRPC.

A trigger `external` or `external-push` of that KEDA names this server as scalerAddress. Its metadata name one of
Penstock's trigger types (`trigger`) and hold that trigger's parameters; see docs/external-scaler.md.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from penstock.extras import needed
from penstock.parameters import FROM_ENV, Trigger
from penstock.scaler import Measure, Scaler, metric_name, milli
from scalers.polling.batched import Answer, BatchedReader
from scalers.scaler_registry import ScalerRegistry
from scalers.sources.external.messages import (
    EXTRA,
    GET_METRIC_SPEC,
    GET_METRICS,
    IS_ACTIVE,
    PACKAGE,
    STREAM_IS_ACTIVE,
    Method,
    message,
)
from scalers.triggers.parse import SourceKey
from scalers.ttl_cache import EVER, TTLCache
from scalers.wakeups.listeners import ListenerPool
from scalers.wakeups.wakeups import watches_of
from workers.errors import UserError

#: The metadata key that names the trigger type, and the prefix of parameters whose names KEDA's own trigger has, too.
TRIGGER, PREFIX = "trigger", "trigger."

#: Metadata that KEDA's own trigger reads.
_KEDAS = frozenset({"scalerAddress", "enableTLS", "unsafeSsl", TRIGGER})

#: Types that call external scalers: two servers could call each other for ever.
_CALLING = frozenset({"external", "external-push"})

#: Seconds for which an answer is reused: one poll of KEDA is three calls.
_MOMENT = 0.25

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Offer:
    """The triggers that are served. types: none means every registered one. broker, prefix: Penstock's own.

    quirks: KEDA's behaviors that are wanted, see workers.api.keda_compat.
    """

    registry: ScalerRegistry
    types: Collection[str] = ()
    broker: str = field(default="", repr=False)
    prefix: str = "penstock"
    quirks: Collection[str] = ()

    def scaler(self, reference: Any) -> Scaler:
        """Returns the trigger that a ScaledObjectRef names. Raises UserError."""
        metadata: Mapping[str, str] = dict(reference.scalerMetadata)
        type_ = metadata.get(TRIGGER, "").strip()
        if not type_:
            raise UserError(f"metadata {TRIGGER} must say which trigger is meant, such as push")
        if type_ in _CALLING or (self.types and type_ not in self.types):
            raise UserError(f"trigger type {type_} is not served here")
        own = {key.removeprefix(PREFIX): text for key, text in metadata.items() if key not in _KEDAS}
        # KEDA has resolved the variables: under a FromEnv key it sends the value, not the name.
        variables = {key: text for key, text in own.items() if key.endswith(FROM_ENV)}
        return self.registry.find(type_).parse(
            Trigger(
                index=0,
                type=type_,
                metadata={**own, **{key: key for key in variables}},
                environment=variables,
                namespace=reference.namespace,
                owner=reference.name,
                broker=self.broker,
                prefix=self.prefix,
                quirks=",".join(self.quirks),
            )
        )


@dataclass(frozen=True, slots=True)
class _Called:
    """A trigger that was called for. key: identifies it; it may hold secrets."""

    key: bytes = field(repr=False)
    scaler: Scaler

    @property
    def name(self) -> str:
        """The metric's name without ``s<index>-``, which KEDA adds itself."""
        return metric_name(0, self.scaler.metric).removeprefix("s0-")

    def is_active(self, measure: Measure) -> bool:
        """Returns whether this measure makes the trigger active."""
        return measure.value > self.scaler.activation if measure.active is None else measure.active


class Service:
    """Implements ``externalscaler.ExternalScaler``.

    interval: seconds between two measurements of a stream whose source sends no notifications. clock: µs.
    """

    def __init__(
        self,
        offer: Offer,
        sources: BatchedReader,
        *,
        interval: float = 5.0,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._offer = offer
        self._sources = sources
        self._interval = interval
        self._clock = clock
        self._cache = TTLCache(seconds=_MOMENT, limit=10_000)
        self._changed: dict[str, asyncio.Event] = {}
        self._listeners = ListenerPool(self._notify)

    async def close(self) -> None:
        """Ends every listener."""
        await self._listeners.close()

    def handler(self) -> Any:
        """Returns the handler for a gRPC server."""
        grpc = needed("grpc", EXTRA)
        answers = {IS_ACTIVE: self._is_active, GET_METRIC_SPEC: self._specs, GET_METRICS: self._metrics}
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(answer, **_wire(method))
            for method, answer in answers.items()
        }
        handlers[STREAM_IS_ACTIVE.name] = grpc.unary_stream_rpc_method_handler(self._stream, **_wire(STREAM_IS_ACTIVE))
        return grpc.method_handlers_generic_handler(f"{PACKAGE}.ExternalScaler", handlers)

    async def _is_active(self, reference: Any, context: Any) -> Any:
        asked = await self._called(reference, context)
        return message("IsActiveResponse")(result=asked.is_active(await self._measure(asked, context)))

    async def _specs(self, reference: Any, context: Any) -> Any:
        asked = await self._called(reference, context)
        target = asked.scaler.target
        made = message("GetMetricSpecResponse")()
        made.metricSpecs.add(metricName=asked.name, targetSize=_whole(target), targetSizeFloat=float(target))
        return made

    async def _metrics(self, request: Any, context: Any) -> Any:
        asked = await self._called(request.scaledObjectRef, context)
        value = milli((await self._measure(asked, context)).value)
        made = message("GetMetricsResponse")()
        made.metricValues.add(metricName=request.metricName, metricValue=_whole(value), metricValueFloat=value)
        return made

    async def _stream(self, reference: Any, context: Any) -> AsyncIterator[Any]:
        asked = await self._called(reference, context)
        async with aclosing(self._activity(asked)) as activity:
            async for active in activity:
                yield message("IsActiveResponse")(result=active)

    async def _activity(self, asked: _Called) -> AsyncGenerator[bool]:
        """Yields whether the trigger is active: at once, when that changes, and when work arrives."""
        key, changed = f"{id(asked)}", asyncio.Event()
        self._changed[key] = changed
        self._listeners.follow({key: watches_of(asked.scaler)})
        before: bool | None = None
        notified = False
        try:
            while True:
                changed.clear()
                answer = await self._cached(asked, since=self._cache.now())
                if isinstance(answer, Measure):
                    active = asked.is_active(answer)
                    if active != before or (active and notified):
                        yield active
                    before = active
                notified = await _is_set(changed, self._interval)
        finally:
            del self._changed[key]
            self._listeners.follow({key: frozenset()})

    def _notify(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self._changed:
                self._changed[key].set()

    async def _called(self, reference: Any, context: Any) -> _Called:
        try:
            return _Called(reference.SerializeToString(deterministic=True), self._offer.scaler(reference))
        except UserError as error:
            await context.abort(needed("grpc", EXTRA).StatusCode.INVALID_ARGUMENT, str(error))
            raise

    async def _measure(self, asked: _Called, context: Any) -> Measure:
        answer = await self._cached(asked)
        failure = answer if isinstance(answer, str) else answer.incomplete
        if failure is not None:
            await context.abort(needed("grpc", EXTRA).StatusCode.FAILED_PRECONDITION, failure)
        assert isinstance(answer, Measure)
        return answer

    async def _cached(self, asked: _Called, *, since: float = EVER) -> Answer:
        """Returns a measure no older than a moment, or the reason why there is none."""
        return await self._cache.get(asked.key, lambda: self._ask(asked), since=since)

    async def _ask(self, asked: _Called) -> Answer:
        source = SourceKey.of(asked.scaler, asked.key)
        [answer] = await self._sources.read(source, [asked.scaler], self._clock(), [(asked.key, 0)])
        return answer


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Returns whether the event is set within that time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _whole(value: float) -> int:
    """Returns the value rounded up, so that a fraction is not 0 for clients that know whole numbers only."""
    return min(math.ceil(value), _LARGEST)


def _wire(method: Method) -> dict[str, Any]:
    return {
        "request_deserializer": message(method.request).FromString,
        "response_serializer": message(method.response).SerializeToString,
    }
