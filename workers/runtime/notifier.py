"""Ringing bells: Celery messages without content that make some worker look into a lane."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from workers.metrics import process

log = logging.getLogger(__name__)


class Notifier:
    """Publishes bells through Celery from an event loop.

    kombu's publish blocks, so one thread of our own does it. A bell that cannot be published is dropped: the sweep
    rings for every lane that has ready keys and is not being claimed from.
    """

    def __init__(self, app: Celery, lanes: Mapping[str, tuple[str, str]]) -> None:
        self._app = app
        self._lanes = lanes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bells")

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Ring so many bells of each lane.

        Raises nothing for a broker that is away for a moment; the caller's work is not lost with the bell.
        """
        wanted = {lane: count for lane, count in notifications.items() if count > 0}
        if wanted:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._publish, wanted)

    def close(self) -> None:
        """Publish what is under way, then stop."""
        self._thread.shutdown(wait=True)

    def _publish(self, notifications: Mapping[str, int]) -> None:
        try:
            with self._app.producer_pool.acquire(block=True, timeout=5) as producer:
                for lane, count in notifications.items():
                    task, queue = self._lanes[lane]
                    for _ in range(count):
                        self._app.send_task(task, queue=queue, producer=producer, ignore_result=True)
                    process.NOTIFICATIONS.labels(lane).inc(count)
        except (OSError, KombuError, RedisError) as error:
            log.warning("bells could not be rung", extra={"lanes": sorted(notifications), "error": str(error)})
