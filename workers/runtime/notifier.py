"""The notifier: Celery messages without content that make a worker claim from a lane.

A message goes into the list of its queue as one command on the process's own client. It is written here, after version
2 of Celery's message protocol (https://docs.celeryq.dev/en/stable/internals/protocol.html) and the envelope of kombu's
transport for Redis: Celery's publisher would block, and its modules take a tenth of the memory of a process.
"""

import base64
import logging
import os
import socket
import uuid
from collections.abc import Mapping

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.lanes import LANES, queue_key
from workers.metrics import process

log = logging.getLogger(__name__)

#: Arguments, keyword arguments, and what follows a task: nothing of each.
_BODY = base64.b64encode(orjson.dumps([[], {}, dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))])).decode()


class Notifier:
    """Publishes notifications through the broker from an event loop; Celery workers read the messages.

    prefix: of the broker's keys. A notification that cannot be published is dropped: the sweep notifies for every lane
    whose ready keys are not being claimed.
    """

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Sends so many notifications for each lane. Raises nothing while the broker is away."""
        for lane, count in notifications.items():
            if count <= 0:
                continue
            messages = (_message(*LANES[lane]) for _ in range(count))
            try:
                await self._client.lpush(queue_key(self._prefix, lane), *messages)
            except (OSError, RedisError) as error:
                log.warning("notifications could not be sent", extra={"lane": lane, "error": str(error)})
            else:
                process.NOTIFICATIONS.labels(lane).inc(count)


def _message(task: str, queue: str) -> bytes:
    """Returns a message that makes a worker run the task once, without arguments and result."""
    task_id = str(uuid.uuid4())
    absent = ("shadow", "eta", "expires", "group", "group_index", "parent_id", "stamped_headers")
    return orjson.dumps(
        {
            "body": _BODY,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                "lang": "py",
                "task": task,
                "id": task_id,
                "root_id": task_id,
                "retries": 0,
                "timelimit": [None, None],
                "argsrepr": "()",
                "kwargsrepr": "{}",
                "origin": f"gen{os.getpid()}@{socket.gethostname()}",
                "ignore_result": True,
                "replaced_task_nesting": 0,
                "stamps": {},
                **dict.fromkeys(absent),
            },
            "properties": {
                "correlation_id": task_id,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": task_id,
            },
        }
    )
