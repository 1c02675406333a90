"""The keyed queue under kill -9, SIGSTOP, lost connections and FLUSHALL: no key is lost, none is held twice."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.valkeys import ValkeyServer

LEASE = 3.0
KEYS = [f"jobs.batch/team-{number % 5}/job-{number}" for number in range(60)]
WORKERS = 4
#: How long things are broken, seconds; CHAOS_SECONDS lengthens a hunt.
SECONDS = float(os.environ.get("CHAOS_SECONDS", "12"))
#: How long recovery may take: a stopped worker's leases, the quarantine after a flush, a backoff.
RECOVERY = 60.0

pytestmark = pytest.mark.timeout(SECONDS + 2 * RECOVERY)


class Fleet:
    """Worker processes, one queue server, and the server that keeps the truth."""

    def __init__(self, queue_url: str, truth_url: str) -> None:
        self.queue_url, self.truth_url = queue_url, truth_url
        self.queue = redis.Redis.from_url(queue_url)
        self.truth = redis.Redis.from_url(truth_url)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
        self.kills = 0

    def start(self) -> None:
        argv = [sys.executable, "-m", "tests.chaos.holder", self.queue_url, self.truth_url, str(LEASE)]
        # What a worker says when its connection is cut is no news here.
        self.workers.append(subprocess.Popen(argv, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL))

    def kill(self) -> None:
        victim = self.workers.pop(random.randrange(len(self.workers)))
        victim.kill()
        victim.wait()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        """Stop a worker for longer than its leases last."""
        victim = random.choice(self.workers)
        victim.send_signal(signal.SIGSTOP)
        self.stopped.append((time.monotonic() + LEASE * 1.5, victim))

    def resume(self, *, everybody: bool = False) -> None:
        now = time.monotonic()
        for until, victim in list(self.stopped):
            if everybody or now > until:
                victim.send_signal(signal.SIGCONT)
                self.stopped.remove((until, victim))

    def cut(self) -> None:
        """Cut every connection of the queue server."""
        self.queue.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def flush(self, mark: "Marker") -> None:
        """Lose everything, and mark all keys as the informers' relist does."""
        self.queue.flushall()
        mark(KEYS)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()
        self.queue.close()
        self.truth.close()


class Marker:
    """Asks for versions of keys, as something outside would: first the fact, then the mark."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __call__(self, keys: list[str]) -> None:
        async def mark() -> None:
            async with redis.asyncio.Redis.from_url(self._fleet.queue_url) as client:
                await Lane(client, "chaos", Keys("chaos"), lease=LEASE).mark(keys)

        for key in keys:
            self._fleet.truth.hincrby("wanted", key, 1)
        asyncio.run(mark())


@contextmanager
def fleet() -> Iterator[Fleet]:
    with ValkeyServer(config={"save": ""}) as queue, ValkeyServer(config={"save": ""}) as truth:
        started = Fleet(f"{queue.connection_url}/0", f"{truth.connection_url}/0")
        try:
            for _ in range(WORKERS):
                started.start()
            wait_for(lambda: int(started.truth.get("started") or 0) >= WORKERS, "the workers to start")
            yield started
        finally:
            started.resume(everybody=True)
            started.close()


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + RECOVERY
    while not condition():
        assert time.monotonic() < deadline, f"waited {RECOVERY:.0f} s in vain for {what}"
        time.sleep(0.05)


def converged(fleet: Fleet) -> bool:
    return fleet.truth.hgetall("wanted") == fleet.truth.hgetall("reconciled")


def overlaps(log: list[str]) -> list[str]:
    """Where work under a token took effect although a later token had been given out: two hands on one key."""
    found, latest = [], defaultdict(int)
    for line in log:
        key, token, event = line.rsplit(" ", 2)
        if event == "start":
            latest[key] = max(latest[key], int(token))
        elif event == "end" and int(token) < latest[key]:
            found.append(f"{key}: token {token} took effect after {latest[key]} had started")
    return found


DISASTERS = {
    "kill -9": ("kill",),
    "SIGSTOP for longer than the lease": ("stop",),
    "cut connections": ("cut",),
    "FLUSHALL": ("flush",),
    "all of it": ("kill", "stop", "cut", "flush"),
}


@pytest.mark.parametrize("disasters", DISASTERS.values(), ids=DISASTERS.keys())
def test_no_key_is_lost_and_none_is_held_twice(disasters):
    random.seed(str(disasters))
    with fleet() as house:
        mark = Marker(house)
        mark(KEYS)
        wait_for(lambda: house.truth.hlen("reconciled") > 0, "the first reconcile")
        until = time.monotonic() + SECONDS / (1 if len(disasters) > 1 else 2)
        while time.monotonic() < until:
            mark(random.sample(KEYS, 15))
            disaster = random.choice(disasters)
            if disaster == "flush":
                house.flush(mark)
            elif disaster != "stop" or len(house.stopped) < WORKERS - 1:
                getattr(house, disaster)()
            house.resume()
            time.sleep(random.uniform(0.1, 0.4))
        house.resume(everybody=True)
        mark(random.sample(KEYS, 15))
        wait_for(lambda: converged(house), "every key to be reconciled at its last version")
        log = [line.decode() for line in house.truth.lrange("log", 0, -1)]
    assert overlaps(log) == []
    assert sum(line.endswith(" end") for line in log) >= len(KEYS)


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (["k 1 start", "k 1 end", "k 2 start", "k 2 end"], 0),
        (["k 1 start", "k 2 start", "k 1 lost", "k 2 end"], 0),
        (["k 1 start", "k 2 start", "k 1 end", "k 2 end"], 1),
        (["k 1 start", "k 2 start", "k 2 end", "k 1 end"], 1),
    ],
    ids=["in turn", "the first noticed", "side by side", "the first woke up late"],
)
def test_the_check_for_overlaps_sees_one(log, found):
    assert len(overlaps(log)) == found
