"""The keyed queue under kill -9, SIGSTOP, lost connections and FLUSHALL: no key is lost, none is held twice."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
import redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.chaos import hands
from tests.chaos.hands import Effect, Lost, Piece, Start
from tests.support.paths import ROOT
from tests.support.tables import cases
from tests.support.valkeys import ValkeyServer

LEASE = 3.0
KEYS = [f"jobs.batch/team-{number % 5}/job-{number}" for number in range(60)]
WORKERS = 4
#: A disaster comes upon a worker that has so much in hand.
ENOUGH = 5
#: How long things are broken at least, seconds, for a hunt. Without it every disaster of a list comes once.
SECONDS = float(os.environ.get("CHAOS_SECONDS", "0"))
#: How long a step may take: a stopped worker's leases, the quarantine after a flush, a backoff, on a busy machine.
RECOVERY = 60.0

pytestmark = pytest.mark.timeout(SECONDS + 5 * RECOVERY)


@dataclass(frozen=True)
class Stopped:
    """A worker that stands still, and what it had in hand then."""

    worker: subprocess.Popen[bytes]
    pieces: frozenset[Piece]


class Fleet:
    """Worker processes, one queue server, and the server that keeps the truth."""

    def __init__(self, queue_url: str, truth_url: str) -> None:
        self._urls = queue_url, truth_url
        self._queue = redis.Redis.from_url(queue_url)
        self._truth = redis.Redis.from_url(truth_url)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._stopped: list[Stopped] = []
        #: What was in the hands of those that were stopped.
        self.caught: set[Piece] = set()

    def start(self) -> None:
        """All workers, until they have begun to look for work."""
        for _ in range(WORKERS):
            self._start()
        wait_for(lambda: int(self._truth.get("started") or 0) == WORKERS, "the workers to start")

    def begin(self) -> None:
        """A new log; whatever came before, everybody is at work."""
        self._resume()
        self.caught = set()
        self._truth.delete("log")

    def _start(self) -> None:
        argv = [sys.executable, "-m", "tests.chaos.holder", *self._urls, str(LEASE)]
        # What a worker says when its connection is cut is no news here.
        self._workers.append(subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL))

    def log(self) -> list[Start | Effect | Lost]:
        """What the workers did so far."""
        return list(hands.read(line.decode() for line in self._truth.lrange("log", 0, -1)))

    def mark(self, keys: Sequence[str]) -> None:
        """Ask for versions of keys, as something outside would: first the fact, then the mark."""

        async def mark() -> None:
            async with redis.asyncio.Redis.from_url(self._urls[0]) as client:
                await Lane(client, "chaos", Keys("chaos"), lease=LEASE).mark(keys)

        for key in keys:
            self._truth.hincrby("wanted", key, 1)
        asyncio.run(mark())

    # What may happen

    def kill(self) -> None:
        """A worker dies in the middle of its work, and another one is started."""
        victim = self._catch().worker
        self._workers.remove(victim)
        victim.kill()
        victim.wait()
        self._start()

    def stop(self) -> None:
        """A worker stands still in the middle of its work, until others have begun on all that it has in hand."""
        if len(self._stopped) == WORKERS - 1:
            wait_for(self._let_go, "a stopped worker's work to be taken over")
        caught = self._catch()
        self._stopped.append(caught)
        self.caught |= caught.pieces

    def cut(self) -> None:
        """Every connection of the queue server is cut."""
        self._queue.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def flush(self) -> None:
        """Everything is lost in the middle of a worker's work, and all keys are marked as the informers' relist does.

        The worker stands still for less than its leases last: nobody may begin on its keys before they are over.
        """
        caught = self._catch()
        self._queue.flushall()
        self.mark(KEYS)
        time.sleep(LEASE * 0.3)
        caught.worker.send_signal(signal.SIGCONT)

    def _catch(self) -> Stopped:
        """Stop a worker that has enough in hand."""
        caught: list[Stopped] = []

        def attempt() -> bool:
            self.mark(random.sample(KEYS, 30))
            still = [each.worker for each in self._stopped]
            worker = random.choice([each for each in self._workers if each not in still])
            worker.send_signal(signal.SIGSTOP)
            pieces = hands.in_hand(self.log()).get(worker.pid, set())
            if len(pieces) < ENOUGH:
                worker.send_signal(signal.SIGCONT)
                return False
            caught.append(Stopped(worker, frozenset(pieces)))
            return True

        wait_for(attempt, "a worker to have enough in hand")
        return caught[0]

    # What must come of it

    def _let_go(self) -> bool:
        """Whether a stopped worker's work was taken over; it goes on then."""
        log = self.log()
        for each in self._stopped:
            if hands.taken_over(each.pieces, log):
                each.worker.send_signal(signal.SIGCONT)
                self._stopped.remove(each)
                return True
        return False

    def recover(self) -> None:
        """All goes on, until everything that was caught has ended and every key is at its last version."""
        while self._stopped:
            wait_for(self._let_go, "a stopped worker's work to be taken over")
        wait_for(self._none_in_hand, "what was stopped to end")
        self.mark(random.sample(KEYS, 15))
        wait_for(self._converged, "every key to be reconciled at its last version")

    def _none_in_hand(self) -> bool:
        # What a worker had in hand that was killed afterwards never ends.
        found = hands.in_hand(self.log())
        return not any(self.caught & found.get(worker.pid, set()) for worker in self._workers)

    def _converged(self) -> bool:
        return self._truth.hgetall("wanted") == self._truth.hgetall("reconciled")

    def _resume(self) -> None:
        while self._stopped:
            self._stopped.pop().worker.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """The end of all workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._queue.close()
        self._truth.close()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + RECOVERY
    while not condition():
        assert time.monotonic() < deadline, f"waited {RECOVERY:.0f} s in vain for {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def house() -> Iterator[Fleet]:
    """One fleet for all tests: what one of them leaves is good work for the next."""
    with ValkeyServer(config={"save": ""}) as queue, ValkeyServer(config={"save": ""}) as truth:
        made = Fleet(f"{queue.connection_url}/0", f"{truth.connection_url}/0")
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture
def fleet(house: Fleet) -> Fleet:
    """The fleet, with everybody at work."""
    house.begin()
    return house


@cases(
    ("kill -9", ["kill"] * 4),
    ("SIGSTOP for longer than the lease", ["stop"] * 3),
    ("cut connections", ["cut"] * 8),
    ("FLUSHALL", ["flush"] * 2),
    ("all of it", ["stop", "kill", "cut", "flush", "stop", "cut", "kill"]),
)
def test_no_key_is_lost_and_none_is_held_twice(disasters: list[str], fleet: Fleet):
    random.seed(str(disasters))
    fleet.mark(KEYS)
    until = time.monotonic() + SECONDS
    order = list(disasters)
    while order or time.monotonic() < until:
        fleet.mark(random.sample(KEYS, 15))
        getattr(fleet, order.pop(0) if order else random.choice(disasters))()
        time.sleep(random.uniform(0.1, 0.4))
    fleet.recover()
    log = fleet.log()
    assert hands.overlaps(log) == []
    assert {entry.piece.key for entry in log if isinstance(entry, Effect)} == set(KEYS)
    assert len(fleet.caught) >= ENOUGH * disasters.count("stop")
