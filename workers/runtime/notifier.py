"""The notifier: Celery messages without content that make a worker claim from a lane."""

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
    """Publishes notifications through Celery from an event loop.

    lanes: by lane, the Celery task and queue. A notification that cannot be published is dropped: the sweep notifies
    for every lane whose ready keys are not being claimed.
    """

    def __init__(self, app: Celery, lanes: Mapping[str, tuple[str, str]]) -> None:
        self._app = app
        self._lanes = lanes
        # kombu's publish blocks; one thread keeps it off the loop.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notifier")

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Sends so many notifications for each lane. Raises nothing while the broker is away."""
        wanted = {lane: count for lane, count in notifications.items() if count > 0}
        if wanted:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._publish, wanted)

    def close(self) -> None:
        """Publishes what is under way, then stops."""
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
            log.warning("notifications could not be sent", extra={"lanes": sorted(notifications), "error": str(error)})
