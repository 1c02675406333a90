"""The guard of a running process against data that it would misread: it ends the process.

A newer release may raise the format while this process runs, a broker may come back with another one's data, and a
restore may have begun while this process was frozen or cut off.
Claims are refused by the broker itself (scheduler/lua/claim.lua); all other work ends here, within a second.
"""

import logging
import os
import signal
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from penstock._broker_format import FormatRefused
from scheduler import shared_ticks
from scheduler.format_check import check_format
from scheduler.keys import Keys

log = logging.getLogger(__name__)

#: Seconds between two looks at the format.
EVERY = 1.0
#: Seconds between two looks while the broker was away from the start: this process has work as soon as it is back.
SOON = 0.1


def end_process() -> None:
    """Ends this process as its supervisor would: what is in hand is finished."""
    os.kill(os.getpid(), signal.SIGTERM)


class FormatGuard:
    """Looks at the format of the broker's data, at first and from then on.

    end: called once when the format is refused. every, soon: as `EVERY` and `SOON`.
    """

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        *,
        end: Callable[[], None] = end_process,
        every: float = EVERY,
        soon: float = SOON,
    ) -> None:
        self._client = client
        self._keys = keys
        self._end = end
        self._every = every
        self._soon = soon
        self._checked = False
        self._refused: FormatRefused | None = None

    async def begin(self) -> None:
        """Checks for the first time; a broker that is away is checked once it is back.

        Raises penstock._broker_format.FormatRefused.
        """
        try:
            await check_format(self._client, self._keys)
        except (RedisError, OSError) as error:
            log.info("the format of the broker's data is unknown so far", extra={"error": str(error)})
        else:
            self._checked = True

    def tell(self) -> None:
        """Raises penstock._broker_format.FormatRefused if the process was ended for it."""
        if self._refused:
            raise self._refused

    async def watch(self) -> None:
        """Looks again and again, until the format is refused or this is cancelled."""
        while True:
            await shared_ticks.tick(self._every if self._checked else self._soon)
            try:
                await check_format(self._client, self._keys)
            except FormatRefused as error:
                log.critical("this process ends", extra={"error": str(error)})
                self._refused = error
                self._end()
                return
            except (RedisError, OSError):
                # Whoever works with the broker tells of its absence.
                continue
            self._checked = True
