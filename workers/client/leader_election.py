"""Leader election by a Kubernetes Lease, with a fencing epoch.

The rules are those of Kubernetes' own leader election: a candidate takes the Lease when it has observed it unchanged
for its whole duration, on the candidate's monotonic clock; wall clocks are written for people and never compared. That
does not stop a stalled leader from writing once more when it resumes. The epoch does: it is `spec.leaseTransitions`,
rises with every change of leader, and the store refuses writes of lower ones.

A leader that was killed cannot give up its Lease. One that gives signs of life elsewhere notes that on the Lease
(`PRESENT`); when they end, a candidate takes the Lease at once. If the leader lives nevertheless, the epoch fences it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from scheduler import shared_ticks
from workers import errors
from workers.api.kinds import LEASE, Kind, Object, Ref
from workers.cancellation import cancelled
from workers.client.request_limiter import Priority, requests
from workers.json_logs import Outage, outage_reason

log = logging.getLogger(__name__)

Work = Callable[[int], Awaitable[None]]

#: Annotation of a Lease: the holder that gives signs of life. It speaks of no other holder: releases that know nothing
#: of it leave it as it is when they take the Lease.
PRESENT = "penstock.dev/present-as"


class LeaseApi(Protocol):
    """The part of `workers.client.rest.Cluster` that the election uses."""

    async def get(self, ref: Ref) -> Object: ...
    async def create(self, kind: Kind, body: Object) -> Object: ...
    async def replace(self, ref: Ref, body: Object) -> Object: ...


#: Part of `Terms.renew` after which a leader renews, on average.
RENEWAL = 0.4


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. lease: a Lease unchanged for so long may be taken by another candidate; whole, as the API requires.

    renew: a leader that could not renew for so long stops leading; shorter than `lease`, so that it has stopped before
    the next one starts; it renews after a fifth to three fifths of that. retry: pause between two attempts to take the
    Lease, or after one to renew that failed; with jitter.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise errors.UserError(f"lease {self.lease} s, renew {self.renew} s, retry {self.retry} s must decrease")

    @classmethod
    def of(cls, lease: int) -> "Terms":
        """Returns the terms for this lease, in the proportions of Kubernetes' defaults (15, 10, 2)."""
        return cls(lease, renew=lease * 2 / 3, retry=lease * 2 / 15)


async def _no_floor() -> int:
    return 0


class Presences(Protocol):
    """The part of `workers.runtime.presence.Presence` that the election uses."""

    async def until_gone(self, identity: str) -> None: ...


class Elector:
    """One candidate for one Lease.

    identity: unique to this process. presence: signs of life under that identity, and those of others; without it this
    candidate waits until a Lease runs out. floor: reads the highest epoch the store has accepted, which a deleted
    Lease, that counts from 0 again, must exceed. clock: monotonic seconds. trying: called before each attempt to renew
    or to take the Lease.
    """

    def __init__(
        self,
        cluster: LeaseApi,
        lease: Ref,
        identity: str,
        *,
        terms: Terms = Terms(),
        presence: Presences | None = None,
        floor: Callable[[], Awaitable[int]] = _no_floor,
        clock: Callable[[], float] = time.monotonic,
        trying: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._trying = trying
        self._ref = lease
        self._identity = identity
        self._terms = terms
        self._presence = presence
        self._gone = ""
        self._floor = floor
        self._clock = clock
        self._lease: Object | None = None
        self._observed = clock()
        self._renewed = clock()

    async def lead(self, work: Work) -> None:
        """Campaigns for ever; while this candidate leads, `work(epoch)` runs, cancelled when leadership ends.

        When work returns, the Lease is released until the next attempt; when it raises, or `lead` is cancelled, the
        Lease is released too, so that the next leader need not wait for it to run out.
        """
        while True:
            epoch = await self._acquire()
            log.info("leading", extra={"lease": str(self._ref), "epoch": epoch})
            working = asyncio.ensure_future(work(epoch))
            renewing = asyncio.create_task(self._renew())
            try:
                await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancelled(working, renewing)
                await self._release()
            if not working.cancelled():
                working.result()
            await self._pause()

    async def _acquire(self) -> int:
        outage = Outage(log)
        while True:
            try:
                if (epoch := await self._attempt()) is not None:
                    return epoch
            except errors.ClusterError as error:
                outage.lasts("could not campaign", lease=str(self._ref), error=str(error))
            else:
                outage.over("campaigning again", lease=str(self._ref))
            await self._pause_unless_gone()

    async def _attempt(self) -> int | None:
        """Tries to become the leader. Returns the epoch, or None while another candidate leads."""
        # Before the calls: our term counts from a moment that is not after the one at which the Lease was written.
        started = self._clock()
        try:
            await self._observe()
            if self._held_by_another():
                return None
            spec = (self._lease or {}).get("spec") or {}
            epoch = 1 + max(int(spec.get("leaseTransitions") or 0), await self._floor())
            now = _micro_time()
            self._note(await self._write({"acquireTime": now, "renewTime": now, "leaseTransitions": epoch}))
        except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
            # Another candidate wrote first; the API server lets one of several concurrent writes through.
            self._gone = ""
            return None
        self._gone = ""
        self._renewed = started
        return epoch

    async def _observe(self) -> None:
        try:
            with requests(Priority.ELECT):
                lease: Object | None = await self._cluster.get(self._ref)
        except errors.NotFound:
            lease = None
        self._note(lease)

    def _note(self, lease: Object | None) -> None:
        # Any change of the object is a sign of life of its leader, measured on our clock: its own may be wrong.
        if _version(lease) != _version(self._lease):
            self._observed = self._clock()
        self._lease = lease

    def _held_by_another(self) -> bool:
        spec = (self._lease or {}).get("spec") or {}
        if spec.get("holderIdentity") in (None, "", self._identity, self._gone):
            return False
        lasts = float(spec.get("leaseDurationSeconds") or self._terms.lease)
        return self._clock() - self._observed < lasts

    async def _renew(self) -> None:
        """Returns when leadership is lost: another candidate has the Lease, or it could not be renewed in time."""
        renewed = True
        while True:
            if renewed:
                self._trying()
                # Without jitter: a process that leads many kinds renews their Leases side by side.
                await shared_ticks.tick(self._terms.renew * RENEWAL)
            else:
                await self._pause()
            started, renewed = self._clock(), False
            try:
                # A renewal that hangs must not outlast our term: work is cancelled on time without an answer.
                async with asyncio.timeout(max(0.0, self._renewed + self._terms.renew - started)):
                    if not await self._renewed_once():
                        log.warning("another leads", extra={"lease": str(self._ref)})
                        return
                self._renewed, renewed = started, True
            except (errors.ClusterError, TimeoutError) as error:
                reason = str(error) or "no answer within its term"
                log.warning("could not renew", extra={"lease": str(self._ref), "error": reason})
            if self._clock() - self._renewed >= self._terms.renew:
                return

    async def _renewed_once(self) -> bool:
        try:
            self._note(await self._write({"renewTime": _micro_time()}))
        except errors.Conflict:
            # An edit by a user conflicts, too; only another holder means that leadership is lost.
            await self._observe()
            spec = (self._lease or {}).get("spec") or {}
            return bool(spec.get("holderIdentity") == self._identity)
        except errors.NotFound:
            return False
        return True

    async def _release(self) -> None:
        """Frees the Lease for the next leader; if that fails, it runs out by itself."""
        spec = (self._lease or {}).get("spec") or {}
        if spec.get("holderIdentity") != self._identity:
            return
        try:
            async with asyncio.timeout(self._terms.retry):
                free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
                self._note(await self._write(free))
        except (errors.ClusterError, TimeoutError) as error:
            log.info("could not give up", extra={"lease": str(self._ref), "error": outage_reason(error)})

    async def _write(self, changes: Object) -> Object:
        spec = (self._lease or {}).get("spec") or {}
        held = {"holderIdentity": self._identity, "leaseDurationSeconds": self._terms.lease}
        known = (self._lease or {}).get("metadata") or {"namespace": self._ref.namespace, "name": self._ref.name}
        present = {PRESENT: self._identity} if self._presence else {}
        body: Object = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {**known, "annotations": {**(known.get("annotations") or {}), **present}},
            "spec": {**spec, **held, **changes},
        }
        with requests(Priority.ELECT):
            if self._lease is None:
                return await self._cluster.create(LEASE, body)
            return await self._cluster.replace(self._ref, body)

    async def _pause_unless_gone(self) -> None:
        """Pauses, but not for longer than the Lease's holder gives signs of life."""
        holder = str(((self._lease or {}).get("spec") or {}).get("holderIdentity") or "")
        annotations = ((self._lease or {}).get("metadata") or {}).get("annotations") or {}
        if self._presence is None or holder in ("", self._gone) or annotations.get(PRESENT) != holder:
            await self._pause()
            return
        pausing = asyncio.create_task(self._pause())
        leaving = asyncio.create_task(self._presence.until_gone(holder))
        try:
            await asyncio.wait({pausing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                leaving.result()
                log.info("the leader is gone", extra={"lease": str(self._ref), "leader": holder})
                self._gone = holder
        finally:
            await cancelled(pausing, leaving)

    async def _pause(self) -> None:
        self._trying()
        # Jitter, so that candidates that started together do not stay in step.
        await asyncio.sleep(self._terms.retry * random.uniform(0.8, 1.2))


def _version(lease: Object | None) -> str | None:
    return lease["metadata"]["resourceVersion"] if lease else None


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
