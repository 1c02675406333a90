"""The beat: makes due keys ready, notifies workers, and emits Celery's own periodic entries.

``celery -A workers.app beat -S scheduler.beat:Scheduler``. Any number of beats may run without a leader: one script
moves a due key, and a run of a periodic entry is leased to one beat. The app's configuration:

    penstock_broker   URL or `BrokerAddress` of the broker that holds the lanes; without it, Celery's broker_url
    penstock_prefix   first part of every key there; without it, penstock
    penstock_lanes    lane name -> (Celery task that consumes it, Celery queue of its notifications)
    penstock_lease    duration of leases in the lanes, seconds
    penstock_backoff  (base, cap) of the backoff of failing keys, seconds
    penstock_slots    most notifications of a lane under way at once
    beat_schedule     periodic entries, as Celery knows them
"""

import asyncio
import copy
import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

import celery.beat
from celery import Celery
from celery.signals import beat_init
from kombu.exceptions import KombuError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from penstock._broker_format import FormatRefused
from scheduler.broker import clients
from scheduler.format_check import check_format
from scheduler.keys import Keys
from scheduler.lane_sweep import sweep_due
from scheduler.last_runs import LastRuns, RunLease
from scheduler.queue import Lane, RetryBackoff

log = logging.getLogger(__name__)

#: Longest pause between two ticks, seconds. A key that is booked while the beat sleeps, for a moment before its next
#: tick, is late by as much; schedules, and polls of at least a second, are booked longer ahead.
LONGEST_SLEEP = 0.5
#: Shortest pause: keys that are due one after another, such as those that a full namespace sent away, do not cost one
#: tick each. What becomes due this soon after a tick is late by as much.
SHORTEST_SLEEP = 0.02

#: Seconds between two looks at the format of the broker's data.
FORMAT_CHECK = 1.0

#: Errors of redis-py and kombu while the broker is away, or answers with an error.
BROKER_ERRORS = (RedisError, KombuError, OSError)

#: Namespace of task ids: a run has the same task id in every beat.
_RUN_IDS = uuid.UUID("5f1c1cf3-58a5-4a6b-8a2d-3e0b7f1d9c64")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The next run of an entry. Moments are microseconds since the epoch."""

    entry: Any
    last: int
    due: int


class Scheduler(celery.beat.Scheduler):  # type: ignore[misc]
    """A beat scheduler for Celery whose state is in the broker.

    While the broker is away, or answers with errors, the beat logs and waits; nothing that was due meanwhile is lost,
    but a periodic entry that missed several runs catches up with one.

    clock: replaces the broker's clock, microseconds since the epoch; for tests only.
    """

    max_interval = LONGEST_SLEEP

    def __init__(self, app: Celery, *args: Any, clock: Callable[[], int] | None = None, **kwargs: Any) -> None:
        self._clock = clock
        self._upcoming: dict[str, Upcoming] = {}
        self._trouble: str | None = None
        # When to look at the format of the broker's data again, on our monotonic clock.
        self._look = float("-inf")
        #: Called at the begin of each tick.
        self.ticking: Callable[[], None] = lambda: None
        super().__init__(app, *args, **kwargs)
        self.max_interval = min(self.max_interval, LONGEST_SLEEP)

    @property
    def info(self) -> str:
        """The line that `celery beat` prints about its scheduler."""
        return f"    . lanes -> {', '.join(self._lane_tasks) or 'none'}"

    def install_default_entries(self, data: Any) -> None:
        """Adds Celery's clean-up of old results, but only where results are stored."""
        if self.app.conf.result_backend:
            super().install_default_entries(data)

    def tick(self, *_: Any, **__: Any) -> float:
        """Does what is due. Returns the seconds until the next tick.

        Raises penstock._broker_format.FormatRefused when the broker's data are those of a newer release, or half of a
        backup.
        """
        self.ticking()
        try:
            self._check_format()
            sleep = min(self._sweep_lanes(), self._emit_entries(), self.max_interval)
        except ResponseError as error:
            return self._wait("the broker answers with an error; ticking on", error)
        except BROKER_ERRORS as error:
            return self._wait("the broker is away; ticking on", error)
        if self._trouble:
            log.info("the broker is back")
        self._trouble = None
        return max(sleep, SHORTEST_SLEEP)

    def _check_format(self) -> None:
        now = time.monotonic()
        if now >= self._look:
            self._run(check_format(self._client, self._keys))
            self._look = now + FORMAT_CHECK

    def _wait(self, trouble: str, error: Exception) -> float:
        """Logs the trouble unless it is that of the last tick. Returns the seconds until the next tick.

        The broker that is back may have other data: the next tick looks at their format first.
        """
        self._look = float("-inf")
        if self._trouble != trouble:
            log.warning(trouble, extra={"error": str(error)})
        self._trouble = trouble
        return float(self.max_interval)

    def sync(self) -> None:
        """Stores the last runs again, in case the broker lost them; not into data that this release does not read."""
        if self._upcoming:
            try:
                self._run(check_format(self._client, self._keys))
                self._run(self._runs.load({name: upcoming.last for name, upcoming in self._upcoming.items()}))
            except (*BROKER_ERRORS, FormatRefused) as error:
                log.warning("last runs could not be written", extra={"error": str(error)})

    def close(self) -> None:
        """Closes the connection to the broker."""
        super().close()
        if "_loop" in self.__dict__:
            self._run(self._client.aclose())
            self.__dict__.pop("_loop").close()

    # Opened on first use: Celery makes schedulers only to print them, and forks after making them.

    @cached_property
    def _loop(self) -> asyncio.Runner:
        return asyncio.Runner()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run(work)

    @cached_property
    def _client(self) -> Redis:
        return clients.client(
            self.app.conf.get("penstock_broker") or self.app.conf.broker_url,
            socket_timeout=5,
            socket_connect_timeout=3,
            socket_keepalive=True,
            # The next tick is the retry.
            retry=Retry(NoBackoff(), 1),
            client_name="penstock-beat",
        )

    @cached_property
    def _keys(self) -> Keys:
        return Keys(self.app.conf.get("penstock_prefix") or Keys().prefix)

    @cached_property
    def _runs(self) -> LastRuns:
        return LastRuns(self._client, self._keys, clock=self._clock)

    @property
    def _lane_tasks(self) -> Mapping[str, tuple[str, str]]:
        lanes: Mapping[str, tuple[str, str]] = self.app.conf.get("penstock_lanes") or {}
        return lanes

    @cached_property
    def _lanes(self) -> list[Lane]:
        options: dict[str, Any] = {"clock": self._clock}
        if lease := self.app.conf.get("penstock_lease"):
            options["lease"] = lease
        if backoff := self.app.conf.get("penstock_backoff"):
            options["backoff"] = RetryBackoff(*backoff)
        if slots := self.app.conf.get("penstock_slots"):
            options["slots"] = slots
        return [Lane(self._client, name, self._keys, **options) for name in self._lane_tasks]

    # Booked keys of the lanes.

    def _sweep_lanes(self) -> float:
        """Returns the seconds until a booked key is due or a lease ends."""
        sleep, failures = LONGEST_SLEEP, []
        for lane, swept in zip(self._lanes, self._run(self._swept()), strict=True):
            # The notifications of one lane are sent although another lane failed: its sweep has counted them.
            try:
                if isinstance(swept, BaseException):
                    raise swept
                notifications, due = swept
                self._notify(lane.name, notifications)
                sleep = min(sleep, due)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return sleep

    async def _swept(self) -> list[tuple[int, float] | BaseException]:
        return await asyncio.gather(*map(sweep_due, self._lanes), return_exceptions=True)

    def _notify(self, lane: str, notifications: int) -> None:
        task, queue = self._lane_tasks[lane]
        with self.app.producer_pool.acquire(block=True) as producer:
            for _ in range(notifications):
                self.app.send_task(task, queue=queue, producer=producer, ignore_result=True)

    # Celery's own periodic entries.

    def _emit_entries(self) -> float:
        """Returns the seconds until a periodic entry is due.

        A last run that is still to come was recorded before the clock was set back: it counts as now.
        """
        if not self.schedule:
            return LONGEST_SLEEP
        now = self._run(self._runs.now())
        self._load_entries(now)
        for upcoming in list(self._upcoming.values()):
            if upcoming.last > now:
                self._expect(upcoming.entry.name, upcoming.entry, now, now)
            elif upcoming.due <= now:
                self._emit(upcoming, now)
        due = min((upcoming.due for upcoming in self._upcoming.values()), default=now)
        return (due - now) / 1e6

    def _load_entries(self, now: int) -> None:
        """Determines the next run of entries that were added or changed, and forgets removed ones."""
        for name in self._upcoming.keys() - self.schedule.keys():
            del self._upcoming[name]
        new = {
            name: entry
            for name, entry in self.schedule.items()
            if name not in self._upcoming or self._upcoming[name].entry is not entry
        }
        if new:
            last = self._run(self._runs.load(dict.fromkeys(new, now)))
            for name, entry in new.items():
                self._expect(name, entry, min(last.get(name, now), now), now)

    def _expect(self, name: str, entry: Any, last: int, now: int) -> None:
        self._upcoming[name] = Upcoming(entry, last, self._due(entry, last, now))

    def _due(self, entry: Any, last: int, now: int) -> int:
        """Returns the first moment after `last` at which the entry's schedule is due."""
        schedule = copy.copy(entry.schedule)
        schedule.app = self.app
        schedule.nowfun = lambda: _moment(now)
        try:
            left = schedule.remaining_estimate(_moment(last))
        except Exception:
            # One entry with a broken schedule must not stop the others.
            log.exception("the next run of an entry cannot be calculated", extra={"entry": entry.name})
            return now + 60_000_000
        return now + int(left.total_seconds() * 1_000_000)

    def _emit(self, upcoming: Upcoming, now: int) -> None:
        entry, name = upcoming.entry, upcoming.entry.name
        lease = self._run(self._runs.acquire(name, upcoming.last))
        if lease is None:
            return
        if isinstance(lease, int):
            self._expect(name, entry, lease, now)
            return
        published = False
        try:
            published = self._publish(lease, upcoming)
        finally:
            # An entry that missed several runs is emitted once, not once per run.
            on_time = self._due(entry, upcoming.due, now) > now
            run = (upcoming.due if on_time else now) if published else None
            self._run(self._runs.release(lease, run))
        if run is not None:
            self._expect(name, entry, run, now)

    def _publish(self, lease: RunLease, upcoming: Upcoming) -> bool:
        entry = copy.copy(upcoming.entry)
        run_id = str(uuid.uuid5(_RUN_IDS, f"{self._keys.tag} {entry.name} {upcoming.last}"))
        entry.options = {"task_id": run_id, **entry.options}
        if lease.expired:
            return False
        with self.app.producer_pool.acquire(block=True) as producer:
            try:
                self.apply_async(entry, producer=producer, advance=False)
            except celery.beat.SchedulingError as error:
                log.warning("an entry could not be emitted", extra={"entry": entry.name, "error": str(error)})
                return False
        log.info("entry emitted", extra={"entry": entry.name, "task": entry.task, "id": run_id})
        return True


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)


def _stop_between_ticks(sender: celery.beat.Service, **_: object) -> None:
    """Makes SIGTERM and SIGINT end a beat of ours after its tick; a second signal ends it at once.

    Celery's own handler closes the scheduler in the middle of the tick, on the event loop that runs it. asyncio answers
    with an error, which is lost if a callback of the loop receives it: the signal then ends nothing.
    """
    if not isinstance(sender.scheduler, Scheduler) or threading.current_thread() is not threading.main_thread():
        return

    def stop(*_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _exit)
        sender.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


beat_init.connect(_stop_between_ticks)


def _exit(*_: object) -> None:
    raise SystemExit(1)
