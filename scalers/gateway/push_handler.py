"""One request from its head to its answer: who sends it, which events it has, and whether the broker has them."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import orjson
from redis.exceptions import RedisError

from penstock import cloudevents
from scalers.gateway import http_binding
from scalers.gateway.auth.pusher import Pusher, Unauthenticated
from scalers.gateway.body_reader import Receive, read_body
from scalers.gateway.destinations import Destination, Destinations
from scalers.gateway.event_status import EventStatus
from scalers.gateway.group_commit import Accepted, Event, GroupCommit
from scalers.gateway.handshake import handshake
from scalers.gateway.http_binding import Binding, Mode, PlainEvent
from scalers.gateway.overload import Load
from scalers.gateway.problem import RequestRefused, refused
from scalers.gateway.push_request import PushRequest, PushTarget, RawHeaders, by_name
from scalers.metrics import INGEST_SECONDS
from workers.api import times
from workers.api.kinds import EVENT_JOB
from workers.errors import Unavailable
from workers.events import not_before
from workers.tracing.push_tracing import PushTracing

log = logging.getLogger(__name__)

#: Bytes of the largest body of one event, whatever its target says, and of a batch.
EVENT_BYTES, BATCH_BYTES = 1 << 20, 4 << 20
#: Seconds that reading the state of an event may take.
STATUS_SECONDS = 5.0
#: Headers by which senders name a delivery, so that its repetition is the same event.
_DELIVERY_NAMES = ("idempotency-key", "x-github-delivery", "webhook-id")
_DELIVERY_IDS = frozenset(name.encode() for name in _DELIVERY_NAMES)


class PusherIdentification(Protocol):
    """Tells who pushes: `scalers.gateway.auth.push_authenticator.PushAuthenticator`."""

    async def identify(self, target: PushTarget | None, request: PushRequest) -> Pusher:
        """Returns the pusher. target: None if there is none of this name."""
        ...


class Answer(NamedTuple):
    """An answer: JSON, unless `media_type` says something else."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    media_type: str = "application/json"


class RequestHead(NamedTuple):
    """A request without its body. headers: as they came, names in lower case. certificate: the client's, in DER."""

    namespace: str
    target: str
    headers: RawHeaders
    certificate: bytes | None = None


@dataclass
class PushHandler:
    """Answers the requests of the paths below `/events`."""

    destinations: Destinations
    authenticator: PusherIdentification
    commit: GroupCommit
    status: EventStatus
    load: Load
    tracing: PushTracing = field(default_factory=PushTracing)
    utc_now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def push(self, head: RequestHead, receive: Receive) -> Answer:
        """Returns the answer to a POST once its events are accepted.

        Raises RequestRefused, and body_reader.Disconnected if there is no one to answer.
        """
        with self.load.request() as held:
            received = self.utc_now()
            destination = await self._find(head)
            binding = http_binding.binding_of(head.headers)
            body = await read_body(receive, head.headers, _most(destination, binding.mode), held)
            held.complete()
            began = time.perf_counter()
            request = PushRequest(head.headers, body, head.certificate, received)
            pusher, destination = await self._identified(destination, request)
            if pusher.challenge is not None:
                return Answer(200, pusher.challenge.encode(), media_type="text/plain; charset=utf-8")
            events = _events(destination.target, binding, request, pusher)
            traced = self.tracing.begun(events)
            accepted = await self.commit.push(destination.channel, destination.target.settings, traced, pusher.proof)
            if self.tracing.is_on:
                path, duplicates = f"/events/{head.namespace}/{head.target}", [one.duplicate for one in accepted]
                self.tracing.ended(path, events, traced, duplicates, _micros(received), _micros(self.utc_now()))
            INGEST_SECONDS.observe(time.perf_counter() - began)
            return _answered(destination.target, accepted, batch=binding.mode == "batch")

    async def event(self, head: RequestHead, id: str, source: str | None, receive: Receive) -> Answer:
        """Returns the state of one event, for those who may push it. Raises as `push` does; 404 for an unknown one."""
        with self.load.request() as held:
            destination = await self._find(head)
            body = await read_body(receive, head.headers, 0, held)
            held.complete()
            request = PushRequest(head.headers, body, head.certificate, self.utc_now())
            _, destination = await self._identified(destination, request)
            try:
                # A channel on another server has a client without a deadline of its own.
                async with asyncio.timeout(STATUS_SECONDS):
                    found = await self.status.of(destination, id, source)
            except (RedisError, OSError) as error:
                raise _away(error) from error
            if found is None:
                raise refused(404, "unknown-event", "no such event is known; it may have been forgotten since")
            return Answer(200, orjson.dumps(found))

    async def options(self, head: RequestHead) -> Answer:
        """Returns the answer to OPTIONS. It is the same for a target that allows nothing and for none."""
        destination = await self._find(head)
        origins = destination.target.settings.webhook_origins if destination else ()
        return Answer(204, headers=handshake(origins, by_name(head.headers)))

    async def _find(self, head: RequestHead) -> Destination | None:
        try:
            return await self.destinations.find(head.namespace, head.target)
        except Unavailable as error:
            raise refused(503, "unavailable", str(error), headers={"Retry-After": "1"}) from None
        except (RedisError, OSError) as error:
            raise _away(error) from error

    async def _identified(self, destination: Destination | None, request: PushRequest) -> tuple[Pusher, Destination]:
        """Returns the pusher, and the destination, which exists then."""
        try:
            pusher = await self.authenticator.identify(destination.target if destination else None, request)
        except Unauthenticated as error:
            log.info("a push was not authenticated", extra={"reason": str(error)})
            detail = "there is no target of this name, or it does not take pushes with these credentials"
            raise refused(401, "unauthenticated", detail, headers={"WWW-Authenticate": error.challenge}) from None
        except Unavailable as error:
            log.warning("pushes cannot be authenticated now", extra={"error": str(error)})
            after = {"Retry-After": str(max(1, round(error.retry_after or 1)))}
            raise refused(503, "unavailable", "the credentials cannot be checked now", headers=after) from None
        except (RedisError, OSError) as error:
            raise _away(error) from error
        if destination is None:
            raise RuntimeError("an unknown target was authenticated")
        if destination.problem:
            detail = f"{destination.target.ref} takes no pushes now: {destination.problem}"
            raise refused(503, "target-unusable", detail, headers={"Retry-After": "10"})
        return pusher, destination


def _most(destination: Destination | None, mode: Mode) -> int:
    """Returns the most bytes of a body that are read.

    Before it is known who sends a request, only targets for everybody show their own limit.
    """
    if mode == "batch":
        return BATCH_BYTES
    anonymous = destination is not None and destination.target.settings.anonymous
    return destination.target.settings.max_bytes if destination and anonymous else EVENT_BYTES


def _events(target: PushTarget, binding: Binding, request: PushRequest, pusher: Pusher) -> list[Event]:
    """Returns the request's events. Raises RequestRefused."""
    mode, most = binding.mode, target.settings.max_bytes
    if mode != "batch" and len(request.body) > most:
        raise refused(413, "too-large", f"an event for {target.ref} has {most} bytes at most")
    plain = _plain_event(target, binding, request, pusher)
    if pusher.delivery is not None:
        # The sender's signature does not cover the headers.
        binding = binding.without_attributes
    events: list[Event] = [*http_binding.read_events(binding, request.body, plain)]
    for index, event in enumerate(events if target.kind == EVENT_JOB else ()):
        try:
            not_before.of(event, request.received)
        except ValueError as error:
            where, members = (f"event {index}: ", {"index": index}) if mode == "batch" else ("", {})
            raise refused(400, "invalid-event", f"{where}{not_before.NAME}: {error}", members=members) from None
    for index, event in enumerate(events if mode == "batch" else ()):
        if cloudevents.size(event) > most:
            detail = f"event {index}: an event for {target.ref} has {most} bytes at most"
            raise refused(413, "too-large", detail, members={"index": index})
    return events


def _plain_event(target: PushTarget, binding: Binding, request: PushRequest, pusher: Pusher) -> PlainEvent:
    """Returns the attributes of an event that is made of a body which is none."""
    delivery, settings = pusher.delivery, target.settings
    if delivery is not None:
        instant = delivery.time or request.received
        type_, source = delivery.type or settings.type, delivery.source or target.source
        return PlainEvent(delivery.id, source, type_, times.render_precisely(instant), delivery.subject)
    given = "" if _DELIVERY_IDS.isdisjoint(binding.values) else _delivery_id(request.headers)
    id_ = given or next(_RANDOM_IDS)
    return PlainEvent(id_, target.source, settings.type, times.render_precisely(request.received))


def random_ids() -> Iterator[str]:
    """Yields ids of 128 random bits, many of one call of the system."""
    while True:
        text = os.urandom(16 * 256).hex()
        for place in range(0, len(text), 32):
            yield text[place : place + 32]


#: Draws its first ids for the first event: a gateway that is a fork has none of another's.
_RANDOM_IDS = random_ids()


def _delivery_id(headers: Mapping[str, str]) -> str:
    """Returns the name that the sender gave the delivery, empty if it gave none."""
    for name in _DELIVERY_NAMES:
        given = _utf8(headers.get(name, "").strip())
        # Idempotency-Key is a structured field: a text in quotes.
        if len(given) > 1 and given[0] == given[-1] == '"':
            given = given[1:-1]
        if given:
            return given
    return ""


def _utf8(text: str) -> str:
    """Returns a header's text as UTF-8 if it is, as senders write what is not ASCII; else as Latin-1, as it is read."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return text


def _answered(target: PushTarget, accepted: list[Accepted], *, batch: bool) -> Answer:
    if batch:
        return Answer(202, orjson.dumps([_told(one) for one in accepted]))
    [one] = accepted
    id_ = one.id if one.id.isalnum() and one.id.isascii() else quote(one.id, safe="")
    where = f"/events/{target.namespace}/{target.name}/{id_}"
    if one.source != target.source:
        where += f"?source={quote(one.source, safe='')}"
    return Answer(202, orjson.dumps(_told(one)), {"Location": where})


def _told(one: Accepted) -> dict[str, Any]:
    return {"id": one.id, "source": one.source, "duplicate": one.duplicate, "entry": one.entry}


def _away(error: Any) -> RequestRefused:
    log.warning("the broker is away", extra={"error": type(error).__name__})
    detail = "the broker does not answer; nothing of the request was accepted"
    return refused(503, "broker-away", detail, headers={"Retry-After": "1"})


def _micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)
