"""The reach of the API server from this process: a process that cannot write to the cluster leaves the work to others.

A worker that is cut off from the API server alone would go on to claim its share of the keys, keep each until its
requests time out, and return it with a backoff, while another worker stands beside it and could do the work at once.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from scheduler import shared_ticks
from workers.errors import ClusterError, Unavailable
from workers.json_logs import outage_reason

log = logging.getLogger(__name__)

#: Seconds between two questions to the API server.
EVERY = 1.0
#: Seconds without an answer after which the API server is out of reach.
PATIENCE = 4.0


class ApiReach:
    """Asks the API server again and again whether it is there.

    ask: one request. lost: called once each time it comes out of reach. every, patience: as `EVERY` and `PATIENCE`.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[object]],
        lost: Callable[[], None],
        *,
        every: float = EVERY,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._lost = lost
        self._every = every
        self._patience = patience
        self._clock = clock
        self._answered = clock()
        self._told = False

    @property
    def there(self) -> bool:
        """Returns False while the API server is out of reach."""
        # Of questions that were answered at once the last one is as old as the pause, at most one and a half periods.
        return self._clock() - self._answered <= self._patience + 1.5 * self._every

    async def watch(self) -> None:
        """Asks until cancelled."""
        while True:
            await shared_ticks.tick(self._every)
            try:
                async with asyncio.timeout(self._patience):
                    await self._ask()
            except (Unavailable, TimeoutError) as error:
                if not self.there and not self._told:
                    log.warning(
                        "the API server is out of reach; claiming nothing", extra={"error": outage_reason(error)}
                    )
                    self._told = True
                    self._lost()
                continue
            except ClusterError:
                # A refusal is an answer.
                pass
            self._answered = self._clock()
            if self._told:
                log.info("the API server is in reach again")
            self._told = False
