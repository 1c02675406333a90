"""Keeping a guard alive: whoever kills it leaves its master unprotected only until it is missed."""

import asyncio
import logging

from deploy.local.supervisor.guard import Guard

log = logging.getLogger(__name__)

#: Seconds between two looks at the guard.
LOOK = 1.0


async def keep(guard: Guard) -> None:
    """Start the guard again whenever it has died, until cancelled."""
    while True:
        await asyncio.sleep(LOOK)
        try:
            if (code := guard.renew()) is not None:
                log.warning("the guard died and is started again", extra={"code": code, "pid": guard.pid})
        except OSError as error:
            log.warning("the guard cannot be started again", extra={"error": str(error)})
