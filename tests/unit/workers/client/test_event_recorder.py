"""Events about our objects: aggregated over time and processes, bounded per object, never an error."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from workers.api import kinds
from workers.api.kinds import EVENT, Ref
from workers.client.event_recorder import BURST, OF_ONE, REFILL_SECONDS, Recorder, event_name
from workers.decision.plan import RecordEvent
from workers.errors import AlreadyExists, Forbidden, NotFound

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CREATED = RecordEvent("Normal", "KEDAJobsCreated", "Created 3 jobs")


def scaled_job(name="work", uid="u1"):
    return {"metadata": {"name": name, "namespace": "team", "uid": uid, "resourceVersion": "7"}}


class Events:
    """As much of a cluster as Events need: it keeps them by name."""

    def __init__(self):
        self.stored = {}
        self.refuse = None

    async def create(self, kind, body):
        assert kind is EVENT
        if self.refuse:
            raise self.refuse
        name = body["metadata"]["name"]
        if name in self.stored:
            raise AlreadyExists("it exists", status=409)
        self.stored[name] = body
        return body

    async def get(self, ref):
        try:
            return self.stored[ref.name]
        except KeyError:
            raise NotFound("gone", status=404) from None

    async def patch(self, ref: Ref, body, **_):
        self.stored[ref.name] = {**self.stored[ref.name], **body}
        return self.stored[ref.name]


class Clock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cluster():
    return Events()


@pytest.fixture
def recorder(cluster, clock):
    """A factory: a recorder writes once, when it is closed."""
    return lambda: Recorder(cluster, clock=clock, every=3600)


async def written(recorder, *records):
    """Records these about the ScaledJob, and writes them."""
    events = recorder()
    for record in records:
        events.record(kinds.SCALED_JOB, scaled_job(), record)
    await events.close()


async def test_an_event_names_its_object_as_kubectl_describe_looks_for_it(cluster, recorder):
    await written(recorder, CREATED)
    [event] = cluster.stored.values()
    assert event["involvedObject"] == {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "name": "work",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert event["metadata"]["namespace"] == "team"
    assert RecordEvent(event["type"], event["reason"], event["message"]) == CREATED
    assert event["count"] == 1
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-03-01T12:00:00Z"


async def test_a_storm_of_equal_sayings_is_one_event_with_a_count(cluster, recorder):
    await written(recorder, *[CREATED] * 10_000)
    assert [event["count"] for event in cluster.stored.values()] == [10_000]


async def test_another_process_raises_the_count_of_the_same_event(cluster, recorder, clock):
    for _ in range(2):
        await written(recorder, CREATED)
        clock.now += timedelta(minutes=5)
    [event] = cluster.stored.values()
    assert event["count"] == 2
    assert event["firstTimestamp"] == "2026-03-01T12:00:00Z"
    assert event["lastTimestamp"] == "2026-03-01T12:05:00Z"


async def test_one_object_cannot_flood_and_does_not_silence_another(cluster, recorder, clock):
    events = recorder()
    for number in range(100):
        events.record(kinds.SCALED_JOB, scaled_job(), RecordEvent("Warning", "KEDAJobCreateFailed", f"job {number}"))
    events.record(kinds.SCALED_JOB, scaled_job("other", "u2"), CREATED)
    clock.now += timedelta(seconds=REFILL_SECONDS)
    for number in range(100, 200):
        events.record(kinds.SCALED_JOB, scaled_job(), RecordEvent("Warning", "KEDAJobCreateFailed", f"job {number}"))
    await events.close()
    names = [event["involvedObject"]["name"] for event in cluster.stored.values()]
    assert names.count("work") == BURST + 1
    assert names.count("other") == 1


async def test_routine_events_do_not_silence_warnings(cluster, recorder):
    runs = [RecordEvent("Normal", "SuccessfulCreate", f"Created job work-{number}") for number in range(BURST + 10)]
    await written(recorder, *runs, RecordEvent("Warning", "MissSchedule", "Missed scheduled time to start a job"))
    types = [event["type"] for event in cluster.stored.values()]
    assert (types.count("Normal"), types.count("Warning")) == (BURST, 1)


async def test_a_clock_that_was_set_back_silences_nobody(cluster, recorder, clock):
    events = recorder()
    events.record(kinds.SCALED_JOB, scaled_job(), CREATED)
    clock.now -= timedelta(hours=6)
    events.record(kinds.SCALED_JOB, scaled_job(), RecordEvent("Warning", "KEDAJobCreateFailed", "no room"))
    await events.close()
    assert len(cluster.stored) == 2


async def test_a_refused_event_is_no_error_and_the_next_one_is_written(cluster, recorder):
    cluster.refuse = Forbidden("the namespace is terminating", status=403)
    await written(recorder, CREATED)
    assert cluster.stored == {}
    cluster.refuse = None
    await written(recorder, CREATED)
    assert len(cluster.stored) == 1


def test_different_events_have_different_names_that_fit_a_long_owner():
    other = RecordEvent("Normal", "KEDAJobsCreated", "Created 4 jobs")
    names = {
        event_name(scaled_job(), CREATED),
        event_name(scaled_job(), other),
        event_name(scaled_job(uid="u2"), CREATED),
    }
    assert len(names) == 3
    assert len(event_name(scaled_job("x" * 253), CREATED)) <= 253


async def test_an_unexpected_error_of_one_event_does_not_stop_the_next_one(cluster, clock, caplog):
    events = Recorder(cluster, clock=clock, every=0.0)
    cluster.refuse = KeyError("metadata")
    events.record(kinds.SCALED_JOB, scaled_job(), CREATED)
    async with asyncio.timeout(60):
        while not caplog.records:
            await asyncio.sleep(0)
        cluster.refuse = None
        events.record(kinds.SCALED_JOB, scaled_job("other", "u2"), CREATED)
        while not cluster.stored:
            await asyncio.sleep(0)
    await events.close()
    assert [event["involvedObject"]["name"] for event in cluster.stored.values()] == ["other"]


async def test_a_server_that_is_away_makes_neither_a_heap_of_events_nor_a_long_goodbye(
    cluster, recorder, clock, monkeypatch
):
    monkeypatch.setattr("workers.client.event_recorder.WAITING", 10)
    monkeypatch.setattr("workers.client.event_recorder.CLOSING", 0.01)
    events, tried = recorder(), []

    async def never_answers(kind, body):
        tried.append(body["metadata"]["name"])
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster, "create", never_answers)
    for number in range(50):
        events.record(kinds.SCALED_JOB, scaled_job(uid=f"u{number}"), CREATED)
    assert len(events._pending) == 10
    async with asyncio.timeout(60):
        await events.close()
    assert len(tried) == 1


async def test_a_namespace_whose_events_hang_stops_no_other_and_fills_a_part_of_the_bound(clock):
    events, hang = Events(), asyncio.Event()
    create = events.create

    async def hangs(kind, body):
        if body["metadata"]["namespace"] == "bad":
            await hang.wait()
        return await create(kind, body)

    events.create = hangs
    recorder = Recorder(events, clock=clock, every=0.001)

    def about(namespace, number=0):
        return {"metadata": {"name": f"work-{number}", "namespace": namespace, "uid": f"{namespace}-{number}"}}

    for number in range(3 * OF_ONE):
        recorder.record(kinds.SCALED_JOB, about("bad", number), CREATED)
    recorder.record(kinds.SCALED_JOB, about("good"), CREATED)
    while "good" not in {body["metadata"]["namespace"] for body in events.stored.values()}:
        await asyncio.sleep(0.001)
    assert {body["metadata"]["namespace"] for body in events.stored.values()} == {"good"}
    hang.set()
    await recorder.close()
    assert len(events.stored) == 1 + OF_ONE
