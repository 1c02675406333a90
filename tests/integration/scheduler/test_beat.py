"""The beat on a real broker, tick by tick on a clock of our own."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from kombu.exceptions import OperationalError

from penstock._broker_format import RESTORING, FormatRefused
from scheduler import beat
from scheduler.keys import Keys
from scheduler.last_runs import LEASE
from tests.support.valkeys import ValkeyServer

SECOND = 1_000_000
NOON = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()) * SECOND
KEYS = Keys("test")
LANE = KEYS.lane("reconcile")
READY, LATER = LANE.all()[0], LANE.all()[3]


class Clock:
    """The broker's clock, as far as the beats under test can tell."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += round(timedelta(**by).total_seconds() * SECOND)


Beats = Callable[..., beat.Scheduler]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start_beat(broker: redis.Redis, redis_server: str, clock: Clock) -> Iterator[Beats]:
    """Starts beats that share the broker and the clock; `schedule` becomes Celery's beat_schedule."""
    started: list[tuple[Celery, beat.Scheduler]] = []

    def start(url: str = redis_server, **schedule: dict[str, Any]) -> beat.Scheduler:
        app = Celery("test", broker=url, set_as_current=False)
        app.conf.update(
            beat_schedule=schedule,
            task_default_queue="periodic",
            task_publish_retry=False,
            broker_connection_retry=False,
            penstock_broker=url,
            penstock_prefix="test",
            penstock_lanes={"reconcile": ("test.reconcile", "bells")},
        )
        scheduler = beat.Scheduler(app, clock=clock)
        started.append((app, scheduler))
        return scheduler

    yield start
    for app, scheduler in started:
        scheduler.close()
        app.close()


@pytest.fixture
def emitted(broker: redis.Redis) -> Callable[[], list[str]]:
    """The tasks that periodic entries have sent so far, oldest first."""

    def read() -> list[str]:
        return [json.loads(text)["headers"]["task"] for text in reversed(broker.lrange("periodic", 0, -1))]

    return read


def every(**interval: float) -> dict[str, Any]:
    return {"task": "work", "schedule": timedelta(**interval)}


def book(broker: redis.Redis, *keys: str, at: int) -> None:
    broker.zadd(LATER, dict.fromkeys(keys, at))


def test_entries_go_on_when_the_clock_was_set_back(
    start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    running = start_beat(work=every(minutes=1))
    running.tick()
    for beats in ([running], [start_beat(work=every(minutes=1))]):
        clock.forward(minutes=1)
        beats[0].tick()
        before = len(emitted())
        clock.forward(hours=-1)
        beats[0].tick()
        clock.forward(minutes=1)
        beats[0].tick()
        assert len(emitted()) == before + 1


def test_a_key_that_is_due_becomes_ready_and_a_bell_rings(broker: redis.Redis, start_beat: Beats, clock: Clock) -> None:
    book(broker, "jobs.batch/default/a", at=NOON + 100_000)
    book(broker, "jobs.batch/default/b", at=NOON + 500_000)
    scheduler = start_beat()
    assert scheduler.tick() == pytest.approx(0.1)
    assert broker.llen("bells") == 0

    clock.forward(seconds=0.1)
    scheduler.tick()

    assert broker.zrange(READY, 0, -1) == [b"jobs.batch/default/a"]
    assert broker.zrange(LATER, 0, -1) == [b"jobs.batch/default/b"]
    assert json.loads(broker.lindex("bells", 0))["headers"]["task"] == "test.reconcile"


def test_a_tick_moves_ten_thousand_due_keys_and_rings_no_more_bells_than_there_are_slots(
    broker: redis.Redis, start_beat: Beats
) -> None:
    book(broker, *(f"jobs.batch/team-{n % 7}/job-{n}" for n in range(10_000)), at=NOON)
    start_beat().tick()
    assert broker.zcard(READY) == 10_000
    assert broker.zcard(LATER) == 0
    assert broker.llen("bells") == 16


def test_keys_that_are_due_one_after_another_do_not_cost_a_tick_each(
    broker: redis.Redis, start_beat: Beats, clock: Clock
) -> None:
    for number in range(100):
        book(broker, f"jobs.batch/default/{number}", at=NOON + 2000 * number)
    scheduler, ticks = start_beat(), 0
    while broker.zcard(LATER):
        clock.forward(seconds=scheduler.tick())
        ticks += 1
    assert ticks <= 12


def test_beats_side_by_side_emit_each_run_once(
    start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    beats = [start_beat(report=every(seconds=10), clean=every(seconds=15)) for _ in range(3)]
    for _ in range(300):
        for scheduler in beats:
            scheduler.tick()
        clock.forward(seconds=0.2)
    # A minute, its first moment included and its last one not: 10..50 and 15..45.
    assert len(emitted()) == 5 + 3


def test_the_same_run_has_the_same_task_id_whoever_emits_it(
    broker: redis.Redis, start_beat: Beats, clock: Clock
) -> None:
    ids = []
    for _ in range(2):
        broker.flushall()
        clock.now = NOON
        scheduler = start_beat(report=every(seconds=10))
        scheduler.tick()
        clock.forward(seconds=10)
        scheduler.tick()
        ids.append(json.loads(broker.lindex("periodic", 0))["headers"]["id"])
    assert ids[0] == ids[1]


def test_a_restart_neither_loses_nor_repeats_a_run(
    start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    schedule = {"report": {"task": "work", "schedule": crontab(minute="0", hour="13")}}
    start_beat(**schedule).tick()
    clock.forward(hours=1)
    start_beat(**schedule).tick()
    assert emitted() == ["work"]
    start_beat(**schedule).tick()
    clock.forward(minutes=1)
    start_beat(**schedule).tick()
    assert emitted() == ["work"]


def test_several_missed_runs_are_caught_up_with_once(
    start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    schedule = {"report": {"task": "work", "schedule": crontab(minute="0")}}
    start_beat(**schedule).tick()
    clock.forward(hours=5, minutes=30)
    late = start_beat(**schedule)
    for _ in range(10):
        late.tick()
    assert emitted() == ["work"]
    clock.forward(minutes=30)
    late.tick()
    assert emitted() == ["work", "work"]


def test_an_interval_keeps_its_phase(start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]) -> None:
    scheduler = start_beat(report=every(seconds=1))
    scheduler.tick()
    for _ in range(100):
        # Each run is noticed up to 0.15 s late; that must not add up.
        clock.forward(seconds=0.15)
        scheduler.tick()
    assert len(emitted()) == 15


def test_a_run_whose_beat_died_while_emitting_is_emitted_by_another(
    broker: redis.Redis, start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    scheduler = start_beat(report=every(seconds=10))
    scheduler.tick()
    clock.forward(seconds=10)
    broker.set("{test}:beat:lease:report", "a beat that is no more", px=round(LEASE * 1000))
    scheduler.tick()
    assert emitted() == []

    broker.delete("{test}:beat:lease:report")  # Its time is over.
    scheduler.tick()
    assert emitted() == ["work"]


def test_a_run_that_cannot_be_published_is_tried_again(
    start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = start_beat(report=every(seconds=10))
    scheduler.tick()
    clock.forward(seconds=10)
    with monkeypatch.context() as patched:

        def refuse(*_: Any, **__: Any) -> None:
            raise OperationalError("no route to the broker")

        patched.setattr(scheduler, "send_task", refuse)
        scheduler.tick()
    assert emitted() == []
    scheduler.tick()
    scheduler.tick()
    assert emitted() == ["work"]


def test_an_entry_that_is_added_or_changed_while_the_beat_runs_is_noticed(
    start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    scheduler = start_beat(report=every(hours=1))
    scheduler.tick()
    scheduler.add(name="report", task="sooner", schedule=timedelta(seconds=5))
    scheduler.add(name="other", task="other", schedule=timedelta(seconds=5))
    scheduler.tick()
    clock.forward(seconds=5)
    scheduler.tick()
    assert sorted(emitted()) == ["other", "sooner"]


def test_after_a_flush_the_running_beats_go_on_and_remember(
    broker: redis.Redis, start_beat: Beats, clock: Clock, emitted: Callable[[], list[str]]
) -> None:
    beats = [start_beat(report=every(seconds=10)) for _ in range(2)]
    for scheduler in beats:
        scheduler.tick()
    clock.forward(seconds=9)
    broker.flushall()
    beats[0].sync()
    # A beat that starts now learns from the others that the next run is a second away.
    beats.append(start_beat(report=every(seconds=10)))
    for scheduler in beats:
        scheduler.tick()
    clock.forward(seconds=1)
    for scheduler in beats:
        scheduler.tick()
    assert emitted() == ["work"]


def test_a_beat_neither_starts_on_half_a_backup_nor_writes_to_it(broker: redis.Redis, start_beat: Beats) -> None:
    broker.set(KEYS.format, RESTORING)
    with pytest.raises(FormatRefused, match="half of a backup"):
        start_beat(report=every(seconds=10)).tick()
    assert broker.keys("*") == [KEYS.format.encode()]


def test_a_beat_that_finds_half_a_backup_when_its_broker_is_back_ends_and_writes_nothing(
    broker: redis.Redis, start_beat: Beats, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = start_beat(report=every(seconds=10))
    scheduler.tick()
    with monkeypatch.context() as cut:
        cut.setattr(scheduler, "_sweep_lanes", raising(redis.ConnectionError("cut off")))
        scheduler.tick()
    broker.flushall()
    broker.set(KEYS.format, RESTORING)
    clock.forward(seconds=10)
    with pytest.raises(FormatRefused, match="half of a backup"):
        scheduler.tick()
    scheduler.close()
    assert broker.keys("*") == [KEYS.format.encode()]


def raising(error: Exception) -> Callable[[], float]:
    def fail() -> float:
        raise error

    return fail


def test_a_broker_that_is_away_is_waited_for(clock: Clock, start_beat: Beats) -> None:
    with ValkeyServer(config={"save": ""}) as first:
        url = f"{first.connection_url}/0"
        port = first.port
        scheduler = start_beat(url, report=every(seconds=10))
        scheduler.tick()
    clock.forward(seconds=10)
    assert scheduler.tick() == beat.LONGEST_SLEEP
    assert scheduler.tick() == beat.LONGEST_SLEEP

    with (
        ValkeyServer(port=port, config={"save": ""}) as second,
        redis.Redis.from_url(f"{second.connection_url}/0") as client,
    ):
        deadline = time.monotonic() + 60
        while not client.llen("periodic"):
            assert time.monotonic() < deadline
            scheduler.tick()
        assert client.llen("periodic") == 1


def test_the_log_tells_a_broker_that_is_away_from_one_that_answers_with_errors(
    start_beat: Beats, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = start_beat(report=every(seconds=10))
    away, full = redis.ConnectionError("refused"), redis.exceptions.OutOfMemoryError("OOM")
    outcomes = iter([full, full, away, away, 0.1])

    def sweep() -> float:
        if isinstance(outcome := next(outcomes), Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(scheduler, "_sweep_lanes", sweep)
    with caplog.at_level("INFO", logger="scheduler.beat"):
        for _ in range(5):
            scheduler.tick()
    told = [record.message for record in caplog.records if "broker" in record.message]
    assert [text.partition(";")[0] for text in told] == [
        "the broker answers with an error",
        "the broker is away",
        "the broker is back",
    ]


def test_a_scheduler_that_is_only_looked_at_touches_no_broker() -> None:
    app = Celery("test", broker="redis://127.0.0.1:1/0", set_as_current=False)
    scheduler = beat.Scheduler(app, lazy=True)
    assert "none" in scheduler.info
    scheduler.close()


def test_a_lane_that_cannot_be_swept_keeps_no_notification_of_the_others_back(
    start_beat: Beats, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, sent = start_beat(), []

    async def swept() -> list[object]:
        return [redis.exceptions.ConnectionError("away"), (2, 1.0)]

    monkeypatch.setattr(scheduler, "_lanes", [SimpleNamespace(name="reconcile"), SimpleNamespace(name="poll")])
    monkeypatch.setattr(scheduler, "_swept", swept)
    monkeypatch.setattr(scheduler, "_notify", lambda lane, number: sent.append((lane, number)))
    with pytest.raises(redis.exceptions.ConnectionError):
        scheduler._sweep_lanes()
    assert sent == [("poll", 2)]
