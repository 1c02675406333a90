"""The reconciler: observe, decide, act. The controllers decide; this module is the rest of the loop."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from random import uniform

from scheduler.queue import UNSETTLED, ClaimedKeys, Done, Failed, Lease, Outcome, Postponed, Requeue, RequeueAt
from workers.api.kinds import Object
from workers.decision import plan as steps
from workers.decision.controller import Controller
from workers.decision.limits import LimitReservation
from workers.decision.plan import Plan, RecordEvent
from workers.decision.snapshot import Snapshot
from workers.errors import ClusterError, Conflict, NotFound, Stale, Unavailable, UserError
from workers.json_logs import is_outage
from workers.metrics import process
from workers.reconcile import unreadable_field
from workers.reconcile.act import UNCERTAIN, Actor
from workers.reconcile.decision_log import DecisionLog
from workers.reconcile.namespace_bulkhead import NamespaceBulkhead
from workers.reconcile.observe import Observer
from workers.reconcile.reservations import Reservations
from workers.runtime.leases import LeaseKeeper, LeaseLost

log = logging.getLogger(__name__)

#: Errors of a decision that say themselves what is wrong.
_EXPECTED = (ClusterError, Stale, UserError)
#: Longest backoff (seconds) while the API server or a watch is away: either may return at any moment.
AWAY = 5.0
#: Seconds until a proof that was asked for has been given, and the failures after which it is less likely.
PROVED, PROOFS = 0.25, 6
#: Seconds for which the field to blame is looked for: of a large object it takes thousands of decisions, and all other
#: work of the process stands still meanwhile.
BLAMING = 1.0
#: A wait that the API server asks for is prolonged at random by up to this part: those it refused together come apart.
SPREAD = 0.5


class Reconciler:
    """The handler of the reconcile lane.

    controllers: by kind id, the same as the observer's. clock: the wall clock, read once per decision. deadline:
    seconds one reconcile may take. slow: returns True for a namespace whose requests hang. reservations: of limits that
    objects share.
    """

    def __init__(
        self,
        *,
        controllers: Mapping[str, Controller],
        observer: Observer,
        actor: Actor,
        decisions: DecisionLog,
        clock: Callable[[], datetime],
        deadline: float,
        slow: Callable[[str], bool],
        reservations: Reservations | None = None,
    ) -> None:
        self._controllers = controllers
        self._observer = observer
        self._actor = actor
        self._decisions = decisions
        self._reservations = reservations
        self._clock = clock
        self._deadline = deadline
        self._bulkhead = NamespaceBulkhead(slow)

    async def handle(self, claim: ClaimedKeys, keeper: LeaseKeeper) -> None:
        """Reconciles the keys of the claim concurrently, each under its own lease."""
        leases, idle = self._with_room(claim.leases)
        snapshots = await self._observer.observe(leases) if leases else {}
        busy: list[tuple[Lease, Snapshot, Plan]] = []
        made: list[tuple[Snapshot, Plan]] = []
        for lease in leases:
            snapshot = snapshots.get(lease)
            if snapshot is None:
                idle.append((lease, Done()))
                continue
            if isinstance(snapshot, Exception):
                idle.append((lease, self._not_observed(lease, snapshot)))
                continue
            try:
                plan = self._decide(snapshot)
                if plan.reservation:
                    snapshot, plan = await self._within_limits(snapshot, plan.reservation)
            except Exception as error:
                idle.append((lease, self._undecided(lease, snapshot, error)))
                continue
            made.append((snapshot, plan))
            process.show(snapshot.ref, plan.levels)
            if plan.steps:
                busy.append((lease, snapshot, plan))
            else:
                idle.append((lease, Done()))
        if idle:
            process.RECONCILES.labels("any", "nothing to do").inc(sum(outcome == Done() for _, outcome in idle))
            await keeper.settle_all(idle)
        works = (keeper.work(lease, self._carry_out(lease, snapshot, plan, keeper)) for lease, snapshot, plan in busy)
        # Wait for all: the consumer settles every lease after an error, and no work may continue without its lease.
        for ended in await asyncio.gather(*works, self._decisions.note(made), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    def _with_room(self, claimed: Sequence[Lease]) -> tuple[Sequence[Lease], list[tuple[Lease, Outcome]]]:
        """Returns the leases to work on, and the outcomes of those whose namespaces are full."""
        full = self._bulkhead.full()
        if not full:
            return claimed, []
        leases: list[Lease] = []
        refused: list[tuple[Lease, Outcome]] = []
        now = time.monotonic()
        for lease in claimed:
            kind, _, rest = lease.key.partition("/")
            namespace = rest.partition("/")[0]
            if namespace in full:
                process.RECONCILES.labels(kind, "namespace is full").inc()
                refused.append((lease, Postponed(self._bulkhead.comes_back(namespace, now))))
            else:
                leases.append(lease)
        return leases, refused

    def _decide(self, snapshot: Snapshot) -> Plan:
        return self._controllers[snapshot.ref.kind.id].decide(snapshot, self._clock())

    def _undecided(self, lease: Lease, snapshot: Snapshot, error: Exception) -> Failed:
        """Returns the failure of an object that cannot be decided on; an Event names the field that is to blame."""
        body = snapshot.body
        if body is not None and not (isinstance(error, _EXPECTED) or is_outage(error)):
            until = time.monotonic() + BLAMING

            def decide(changed: Object) -> Plan:
                return self._decide(replace(snapshot, body=changed))

            if field := unreadable_field.find(body, decide, lambda: time.monotonic() <= until):
                error = UserError(f"{field}: cannot be read: {type(error).__name__}: {error}")
                self._actor.recorder.record(snapshot.ref.kind, body, RecordEvent("Warning", "Unreadable", str(error)))
        return self._failed(lease, error)

    async def _within_limits(self, snapshot: Snapshot, asked: LimitReservation) -> tuple[Snapshot, Plan]:
        """Returns the decision made with the allowance that the shared limits grant."""
        if self._reservations is None:
            raise UserError("this process keeps no limits that objects share")
        answered = replace(snapshot, allowance=await self._reservations.ask(snapshot, asked))
        return answered, self._decide(answered)

    async def _carry_out(self, lease: Lease, snapshot: Snapshot, plan: Plan, keeper: LeaseKeeper) -> Outcome:
        started = time.monotonic()
        kind, namespace = snapshot.ref.kind.id, snapshot.ref.namespace
        self._bulkhead.begin(namespace)
        try:
            async with asyncio.timeout(self._deadline):
                back = await self._actor.act(snapshot, plan, lambda: keeper.check(lease))
        except LeaseLost:
            raise
        except ClusterError as error:
            return self._failed(lease, error)
        except Exception as error:
            failed = self._failed(lease, error)
            return replace(failed, reason=f"{UNSETTLED}{failed.reason}", after=UNCERTAIN) if _creates(plan) else failed
        finally:
            self._bulkhead.end(namespace)
            process.RECONCILE_SECONDS.labels(kind).observe(time.monotonic() - started)
        process.RECONCILES.labels(kind, "done").inc()
        log.log(
            # Plans that only wait would fill the log at INFO.
            logging.DEBUG
            if all(isinstance(step, steps.HoldKey | steps.ComeBack) for step in plan.steps)
            else logging.INFO,
            "reconciled",
            extra={"key": lease.key, "why": plan.why, "ms": round((time.monotonic() - started) * 1000, 1)},
        )
        if back is None:
            return Done()
        # A moment that is over would wait in the table of due times for the next sweep.
        return RequeueAt(back.timestamp()) if back > self._clock() else Requeue()

    def _not_observed(self, lease: Lease, error: Exception) -> Outcome:
        """Returns the outcome of a key that could not be observed; a watch that is behind may catch up any moment."""
        if not isinstance(error, Stale):
            failed = self._failed(lease, error)
            return replace(failed, reason=lease.still(failed.reason))
        process.RECONCILES.labels(lease.key.partition("/")[0], "Stale").inc()
        proved_soon = lease.expired is not None and lease.failures < PROOFS
        return Failed(lease.still(str(error)), within=PROVED if proved_soon else AWAY)

    def _failed(self, lease: Lease, error: Exception) -> Failed:
        """Returns the failure to settle with; an unexpected error is logged with its traceback."""
        kind = lease.key.partition("/")[0]
        process.RECONCILES.labels(kind, type(error).__name__).inc()
        if isinstance(error, ClusterError | Stale | UserError | TimeoutError):
            reason = str(error) or "the reconcile took too long"
            # A concurrent write or deletion is expected, and decided on afresh.
            level = logging.INFO if isinstance(error, Conflict | NotFound) else logging.WARNING
            log.log(level, "a reconcile failed", extra={"key": lease.key, "error": reason})
        elif is_outage(error):
            reason = f"the broker does not answer: {error}"
            log.warning("a reconcile failed", extra={"key": lease.key, "error": reason})
        else:
            reason = f"{type(error).__name__}: {error}"
            log.error("a reconcile failed unexpectedly", extra={"key": lease.key}, exc_info=error)
        after, within = None, None
        if isinstance(error, ClusterError):
            after, within = error.retry_after, error.within
            reason = f"{UNSETTLED if error.uncertain else ''}{reason}"
        if after is not None:
            after *= uniform(1, 1 + SPREAD)
        return Failed(reason[:500], after, AWAY if isinstance(error, Unavailable | TimeoutError) else within)


def _creates(plan: Plan) -> bool:
    # After a time-out a create may still succeed unnoticed, and without the broker the store lacks what was created:
    # such a plan must wait for the watch (UNCERTAIN). Errors of the API server say themselves what is uncertain.
    return any(
        isinstance(part, steps.Create)
        for step in plan.steps
        for part in (step.steps if isinstance(step, steps.Together) else (step,))
    )
