"""The notifier: Celery messages without content that make a worker claim from a lane.

A message goes into the list of its queue as one command on the process's own client. Celery's publisher would block,
and take several times the CPU for a text that is the same but for its ids.
"""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from celery import Celery
from kombu import Connection
from kombu.transport import virtual
from kombu.utils import json
from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.lanes import LANES, queue_key
from workers.metrics import process

log = logging.getLogger(__name__)

#: Stands for the ids of a message in its text.
_ID = "the id of a notification"


class Notifier:
    """Publishes notifications through the broker from an event loop.

    app: Celery's; its workers read the messages. prefix: of the broker's keys. A notification that cannot be published
    is dropped: the sweep notifies for every lane whose ready keys are not being claimed.
    """

    def __init__(self, client: Redis, app: Celery, prefix: str) -> None:
        self._client = client
        self._queues = {lane: (queue_key(prefix, lane), _pieces(app, *LANES[lane])) for lane in LANES}

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Sends so many notifications for each lane. Raises nothing while the broker is away."""
        for lane, count in notifications.items():
            if count <= 0:
                continue
            key, pieces = self._queues[lane]
            try:
                await self._client.lpush(key, *(str(uuid.uuid4()).join(pieces) for _ in range(count)))
            except (OSError, RedisError) as error:
                log.warning("notifications could not be sent", extra={"lane": lane, "error": str(error)})
            else:
                process.NOTIFICATIONS.labels(lane).inc(count)


def _pieces(app: Celery, task: str, queue: str) -> list[str]:
    """Returns the text of a message as Celery publishes it to Redis, in the pieces between its ids."""
    with Connection(transport=_RecordingTransport) as connection:
        app.send_task(task, queue=queue, connection=connection, task_id=_ID, ignore_result=True)
        message = connection.transport.recorded
    message["properties"]["delivery_tag"] = _ID
    text: str = json.dumps(message)
    return text.split(_ID)


class _RecordingChannel(virtual.Channel):  # type: ignore[misc]
    """A channel of a virtual transport, as Redis's is, that keeps the last message."""

    def _put(self, _queue: str, message: Any, **_: Any) -> None:
        self.connection.recorded = message

    def _size(self, _queue: str) -> int:
        return 0


class _RecordingTransport(virtual.Transport):  # type: ignore[misc]
    Channel = _RecordingChannel
    recorded: Any = None
