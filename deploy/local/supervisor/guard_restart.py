"""Replaces a guard that died, so that its master is unprotected for a second at most."""

import asyncio
import logging

from deploy.local.supervisor.guard import Guard

log = logging.getLogger(__name__)

#: Seconds between two checks of the guard.
PERIOD = 1.0


async def keep(guard: Guard) -> None:
    """Start the guard again whenever it has died, until cancelled."""
    while True:
        await asyncio.sleep(PERIOD)
        try:
            if (code := guard.renew()) is not None:
                log.warning("the guard died and is started again", extra={"code": code, "pid": guard.pid})
        except OSError as error:
            log.warning("the guard cannot be started again", extra={"error": str(error)})
