"""The ledger of claims of a list on the measured server: which order it has carried out last."""

import asyncio
import time

import redis.asyncio as redis


class Orders:
    """The newest order that the ledger of a list was seen to have carried out."""

    def __init__(self, truth: redis.Redis, name: str) -> None:
        self._truth = truth
        self._ledger = f"{{{name}}}:penstock:"
        self._newest = 0

    def carries(self, piece: bytes) -> bool:
        """Returns True if these bytes of a connection call a script on the ledger."""
        return b"EVALSHA" in piece and self._ledger.encode() in piece

    async def newer(self, seconds: float) -> None:
        """Returns once the ledger has carried a newer order out than before, or after so many seconds."""
        until = time.monotonic() + seconds
        await self._went_back()
        before = self._newest
        while time.monotonic() < until and self._newest == before:
            await asyncio.sleep(0.05)
            await self._went_back()

    async def older(self, seconds: float) -> list[str]:
        """Looks for so long, and returns a text if the ledger carried out an order that is older than one before."""
        until, found = time.monotonic() + seconds, False
        while time.monotonic() < until and not found:
            found = await self._went_back()
            await asyncio.sleep(0.002)
        return [f"{self._ledger} carried out an order that was older than its last"] if found else []

    async def _went_back(self) -> bool:
        async for key in self._truth.scan_iter(match=f"{self._ledger}*", count=1000):
            order = int(await self._truth.hget(key, "order") or 0)
            if order and order < self._newest:
                return True
            self._newest = max(order, self._newest)
        return False
