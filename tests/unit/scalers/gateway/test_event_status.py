"""The state of one event, from deliveries and from what the channel remembers."""

from typing import Any

import redis.asyncio as redis

from penstock import cloudevents
from scalers.deliveries.delivery import Delivery, DeliveryAttempt
from scalers.gateway.destinations import Channel, Destination, EventJobOf
from scalers.gateway.event_status import EventStatus
from scalers.gateway.group_commit import GroupCommit
from scalers.gateway.push_request import ChannelLimits, PushTarget
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.tables import cases
from workers.api.kinds import EVENT_JOB, Ref
from workers.api.penstock_dev.push_settings import PushSettings
from workers.controllers.eventjob import jobs
from workers.decision.claims import ClaimedItem

STREAM = "{test}:events:team/orders"
CHANNEL = Channel(STREAM, ChannelLimits())
TARGET = PushTarget(EVENT_JOB, "team", "orders", "u1", PushSettings())
DESTINATION = Destination(TARGET, CHANNEL)
#: 2026-03-01T08:00:00Z, in µs.
MOMENT = 1_772_352_000_000_000


class TwoEventJobs:
    """The EventJobs of the channel, one of which has a delivery of event 1."""

    async def event_jobs(self, namespace: str, channel: str) -> tuple[EventJobOf, ...]:
        assert (namespace, channel) == ("team", "orders")
        return tuple(EventJobOf(Ref(EVENT_JOB, "team", name), uid) for name, uid in (("audit", "u2"), ("orders", "u1")))

    async def of_event(self, uid: str, id: str, source: str | None = None) -> tuple[Delivery, ...]:
        if (uid, id, source) not in (("u1", "1", "/shop"), ("u1", "1", None)):
            return ()
        attempt = DeliveryAttempt("orders-a", MOMENT + 1_500_000, "failed", "BackoffLimitExceeded")
        attributes = {"id": "1", "source": "/shop"}
        return (Delivery("1-0", attributes, "retrying", MOMENT, due=MOMENT + 9_000_000, attempts=(attempt,)),)


async def state(client: redis.Redis, id: str, source: str | None) -> dict[str, Any] | None:
    both: Any = TwoEventJobs()
    return await EventStatus(both, both, lambda _: client).of(DESTINATION, id, source)


async def test_a_delivery_is_told_with_its_attempts(fake_redis: redis.Redis) -> None:
    found = await state(fake_redis, "1", "/shop")
    assert found == {
        "id": "1",
        "source": "/shop",
        "accepted": None,
        "deliveries": [
            {
                "eventJob": "orders",
                "source": "/shop",
                "state": "retrying",
                "arrived": "2026-03-01T08:00:00.000Z",
                "due": "2026-03-01T08:00:09.000Z",
                "job": None,
                "attempts": [
                    {
                        "job": "orders-a",
                        "ended": "2026-03-01T08:00:01.500Z",
                        "outcome": "failed",
                        "reason": "BackoffLimitExceeded",
                    }
                ],
                "reason": None,
                "replays": 0,
            }
        ],
    }


async def test_a_running_delivery_names_its_job(fake_redis: redis.Redis) -> None:
    class Running(TwoEventJobs):
        async def of_event(self, uid: str, id: str, source: str | None = None) -> tuple[Delivery, ...]:
            return (Delivery("5-0", {"id": id, "source": "/shop"}, "running", MOMENT, claim=("5-0-1", 2)),)

    both: Any = Running()
    found = await EventStatus(both, both, lambda _: fake_redis).of(DESTINATION, "1", None)
    claim = ClaimedItem("5-0-1", attempt=2)
    owners = [{"name": "audit", "uid": "u2"}, {"name": "orders", "uid": "u1"}]
    assert found
    assert [each["job"] for each in found["deliveries"]] == [jobs.name(owner, claim) for owner in owners]


@cases(
    ("of every delivery", ["/shop", "/shop"], "/shop"),
    ("of plain events among others", ["/shop", TARGET.source], TARGET.source),
    ("of plain events where several are known", ["/shop", "/other"], TARGET.source),
)
async def test_without_a_source_the_answer_names_the_one(
    sources: list[str], named: str, fake_redis: redis.Redis
) -> None:
    class Known(TwoEventJobs):
        async def of_event(self, uid: str, id: str, source: str | None = None) -> tuple[Delivery, ...]:
            where = sources[uid == "u1"]
            return (Delivery("5-0", {"id": id, "source": where}, "waiting", MOMENT),)

    both: Any = Known()
    await fake_redis.zadd(f"{STREAM}:seen", {cloudevents.digest(named, "1"): MOMENT / 1000})
    found = await EventStatus(both, both, lambda _: fake_redis).of(DESTINATION, "1", None)
    assert found
    assert (found["source"], found["accepted"]) == (named, "2026-03-01T08:00:00.000Z")


async def test_an_event_that_no_event_job_has_taken_over_yet_is_known(fake_redis: redis.Redis) -> None:
    async def notify(_: Any) -> None:
        return

    commit = GroupCommit(fake_redis, Lane(fake_redis, "poll", Keys("test")), notify)
    event = {"specversion": "1.0", "id": "2", "source": TARGET.source, "type": "t"}
    await commit.push(CHANNEL, PushSettings(), [event])
    found = await state(fake_redis, "2", None)
    assert found
    assert (found["deliveries"], found["source"]) == ([], "/events/team/orders")
    assert found["accepted"].endswith("Z")
    assert await state(fake_redis, "2", "/other") is None
    assert await state(fake_redis, "3", None) is None
