"""The other direction of KEDA's external scalers: our triggers, measured for whoever asks over gRPC.

A trigger `external` or `external-push` in somebody else's KEDA names us as scalerAddress. Its metadata say which
of our triggers is meant (`trigger`) and are that trigger's parameters; see docs/external-scaler.md.
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
from scalers.polling.batched import Answer, BatchedReader, SourceState
from scalers.registry import ScalerRegistry
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
from scalers.ttl_cache import EVER, Recent
from scalers.wakeups.listeners import ListenerPool
from scalers.wakeups.wakeups import watches_of
from workers.errors import UserError

#: The metadata key that says which of our triggers is meant, and what a parameter is prefixed with whose name KEDA's
#: own trigger has, too.
TRIGGER, PREFIX = "trigger", "trigger."

#: What KEDA's trigger reads itself.
_KEDAS = frozenset({"scalerAddress", "enableTLS", "unsafeSsl", TRIGGER})

#: Types that ask others; two of them could ask each other for ever.
_ASKING = frozenset({"external", "external-push"})

#: Seconds for which an answer is given again: one look of KEDA's is three calls.
_MOMENT = 0.25

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Offer:
    """What is served. types: of triggers; none means every registered one. broker, prefix: Penstock's own."""

    registry: ScalerRegistry
    types: Collection[str] = ()
    broker: str = field(default="", repr=False)
    prefix: str = "penstock"

    def scaler(self, reference: Any) -> Scaler:
        """The trigger that a ScaledObjectRef asks for. Raises UserError."""
        told: Mapping[str, str] = dict(reference.scalerMetadata)
        type_ = told.get(TRIGGER, "").strip()
        if not type_:
            raise UserError(f"metadata {TRIGGER} must say which trigger is meant, such as push")
        if type_ in _ASKING or (self.types and type_ not in self.types):
            raise UserError(f"trigger type {type_} is not served here")
        own = {key.removeprefix(PREFIX): text for key, text in told.items() if key not in _KEDAS}
        # KEDA has looked the variables up: what a key names here is its value.
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
            )
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A trigger that is asked for. key: tells it from all others; it may hold secrets."""

    key: bytes = field(repr=False)
    scaler: Scaler

    @property
    def name(self) -> str:
        """As KEDA wants it, which puts ``s<index>-`` before it."""
        return metric_name(0, self.scaler.metric).removeprefix("s0-")

    def is_active(self, measure: Measure) -> bool:
        """Whether this measure makes it active."""
        return measure.value > self.scaler.activation if measure.active is None else measure.active


class Service:
    """Answers the calls of ``externalscaler.ExternalScaler``.

    interval: seconds between two looks at what a stream tells of, where nothing is heard of it. clock: µs.
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
        self._recent = Recent(seconds=_MOMENT, limit=10_000)
        self._bells: dict[str, asyncio.Event] = {}
        self._hearing = ListenerPool(self._ring)

    async def close(self) -> None:
        """Listen to no server any more."""
        await self._hearing.close()

    def handler(self) -> Any:
        """As a gRPC server takes it."""
        grpc = needed("grpc", EXTRA)
        answers = {IS_ACTIVE: self._is_active, GET_METRIC_SPEC: self._specs, GET_METRICS: self._metrics}
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(answer, **_wire(method))
            for method, answer in answers.items()
        }
        handlers[STREAM_IS_ACTIVE.name] = grpc.unary_stream_rpc_method_handler(self._stream, **_wire(STREAM_IS_ACTIVE))
        return grpc.method_handlers_generic_handler(f"{PACKAGE}.ExternalScaler", handlers)

    async def _is_active(self, reference: Any, context: Any) -> Any:
        asked = await self._asked(reference, context)
        return message("IsActiveResponse")(result=asked.is_active(await self._told(asked, context)))

    async def _specs(self, reference: Any, context: Any) -> Any:
        asked = await self._asked(reference, context)
        target = asked.scaler.target
        made = message("GetMetricSpecResponse")()
        made.metricSpecs.add(metricName=asked.name, targetSize=_whole(target), targetSizeFloat=float(target))
        return made

    async def _metrics(self, request: Any, context: Any) -> Any:
        asked = await self._asked(request.scaledObjectRef, context)
        value = milli((await self._told(asked, context)).value)
        made = message("GetMetricsResponse")()
        made.metricValues.add(metricName=request.metricName, metricValue=_whole(value), metricValueFloat=value)
        return made

    async def _stream(self, reference: Any, context: Any) -> AsyncIterator[Any]:
        asked = await self._asked(reference, context)
        async with aclosing(self._activity(asked)) as activity:
            async for active in activity:
                yield message("IsActiveResponse")(result=active)

    async def _activity(self, asked: _Asked) -> AsyncGenerator[bool]:
        """Whether the trigger is active: at once, whenever that changes, and whenever work arrives."""
        key, bell = f"{id(asked)}", asyncio.Event()
        self._bells[key] = bell
        self._hearing.follow({key: watches_of(asked.scaler)})
        before: bool | None = None
        heard = False
        try:
            while True:
                bell.clear()
                answer = await self._measured(asked, since=self._recent.now())
                if isinstance(answer, Measure):
                    active = asked.is_active(answer)
                    if active != before or (active and heard):
                        yield active
                    before = active
                heard = await _rung(bell, self._interval)
        finally:
            del self._bells[key]
            self._hearing.follow({key: frozenset()})

    def _ring(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self._bells:
                self._bells[key].set()

    async def _asked(self, reference: Any, context: Any) -> _Asked:
        try:
            return _Asked(reference.SerializeToString(deterministic=True), self._offer.scaler(reference))
        except UserError as error:
            await context.abort(needed("grpc", EXTRA).StatusCode.INVALID_ARGUMENT, str(error))
            raise

    async def _told(self, asked: _Asked, context: Any) -> Measure:
        answer = await self._measured(asked)
        if isinstance(answer, str):
            await context.abort(needed("grpc", EXTRA).StatusCode.FAILED_PRECONDITION, answer)
        assert isinstance(answer, Measure)
        return answer

    async def _measured(self, asked: _Asked, *, since: float = EVER) -> Answer:
        """A measure no older than a moment, or why there is none."""
        return await self._recent.get(asked.key, lambda: self._ask(asked), since=since)

    async def _ask(self, asked: _Asked) -> Answer:
        source = SourceState.of(asked.scaler, asked.key)
        [answer] = await self._sources.read(source, [asked.scaler], self._clock(), [(asked.key, 0)])
        return answer


async def _rung(bell: asyncio.Event, seconds: float) -> bool:
    """Whether the bell rings within that time."""
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return False
    return True


def _whole(value: float) -> int:
    """For clients that know no fractions: rounded up, so that something is never nothing."""
    return min(math.ceil(value), _LARGEST)


def _wire(method: Method) -> dict[str, Any]:
    return {
        "request_deserializer": message(method.request).FromString,
        "response_serializer": message(method.response).SerializeToString,
    }
