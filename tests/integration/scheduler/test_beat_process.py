"""Beats as processes, started the way Celery's users start theirs, and killed in the middle of work."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from scheduler.keys import Keys
from tests.support.tables import for_each

READY, LATER = (Keys("test").lane("reconcile").all()[place] for place in (0, 3))

KILLS = 3

Beat = subprocess.Popen[bytes]


@pytest.fixture
def start_beat(broker: redis.Redis, redis_server: str, tmp_path: Path) -> Iterator[Callable[[], Beat]]:
    """Starts a beat and waits for nothing; its output goes to a file of its own under tmp_path."""
    beats: list[Beat] = []

    def start() -> Beat:
        command = [sys.executable, "-m", "celery", "-A", "tests.integration.scheduler.beat_app", "beat"]
        options = ["-S", "scheduler.beat:Scheduler", "--pidfile=", "-l", "INFO"]
        with (tmp_path / f"beat-{len(beats)}.log").open("wb") as log:
            beats.append(
                subprocess.Popen(
                    [*command, *options], stdout=log, stderr=log, env={**os.environ, "TEST_BROKER": redis_server}
                )
            )
        return beats[-1]

    yield start
    for beat in beats:
        if beat.poll() is None:
            beat.kill()
        beat.wait()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def run_ids(broker: redis.Redis) -> list[str]:
    """The task ids of the runs emitted so far: the same run has the same id."""
    return [json.loads(text)["headers"]["id"] for text in broker.lrange("periodic", 0, -1)]


def emitted_beyond(broker: redis.Redis, count: int) -> Callable[[], bool]:
    return lambda: broker.llen("periodic") > count


def test_beats_that_are_killed_lose_no_due_key_and_repeat_at_most_the_run_in_their_hands(
    broker: redis.Redis, start_beat: Callable[[], Beat]
) -> None:
    keys = {f"jobs.batch/default/{n}" for n in range(500)}
    beats = [start_beat(), start_beat()]
    wait_until(emitted_beyond(broker, 0), "a first run")
    now = int(broker.time()[0]) * 1_000_000
    broker.zadd(LATER, {key: now + n * 10_000 for n, key in enumerate(sorted(keys))})
    for _ in range(KILLS):
        beats.pop(0).kill()
        beats.append(start_beat())
        wait_until(emitted_beyond(broker, broker.llen("periodic") + 3), "the other beat carries on")

    wait_until(lambda: broker.zcard(READY) == len(keys), "every due key is ready")
    assert {key.decode() for key in broker.zrange(READY, 0, -1)} == keys
    assert broker.zcard(LATER) == 0
    # A beat that is killed after it has sent a run and before it could say so leaves the run to the others.
    assert sum(times - 1 for times in Counter(run_ids(broker)).values()) <= KILLS
    assert broker.llen("bells") > 0


def test_a_beat_outlives_a_flush(broker: redis.Redis, start_beat: Callable[[], Beat]) -> None:
    start_beat()
    wait_until(emitted_beyond(broker, 0), "a first run")
    broker.flushall()
    wait_until(emitted_beyond(broker, 1), "runs after the flush")
    broker.zadd(LATER, {"jobs.batch/default/a": 0})
    wait_until(lambda: broker.zcard(READY) == 1, "a due key is ready")


@for_each(signal.SIGTERM, signal.SIGINT)
def test_a_signal_during_a_tick_ends_the_beat_after_the_tick(
    number: signal.Signals, broker: redis.Redis, start_beat: Callable[[], Beat], tmp_path: Path
) -> None:
    beat = start_beat()
    wait_until(emitted_beyond(broker, 0), "a first run")
    broker.client_pause(60_000, all=False)
    wait_until(lambda: _waits_for_the_broker(broker), "the tick waits for the answer of a script")
    beat.send_signal(number)
    broker.client_unpause()
    assert beat.wait(30) == 0
    output = (tmp_path / "beat-0.log").read_text()
    assert "Traceback" not in output
    assert "Unclosed" not in output


def _waits_for_the_broker(broker: redis.Redis) -> bool:
    """Returns whether the server holds back a command of the beat."""
    return any(one["name"] == "penstock-beat" and "b" in one["flags"] for one in broker.client_list())
