"""The executor of plans: one policy for order, fencing, conflicts, concurrency and write-through."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any

from scheduler.queue import Lane
from workers.api.kinds import JOB, Object, Ref, controller_of, ref_of, reference
from workers.api.merge_patch import diff
from workers.cache.store import ObjectVersion, Store
from workers.cache.write_through import WriteThrough
from workers.client import transport
from workers.client.event_recorder import Recorder
from workers.client.request_limiter import Priority, requests
from workers.client.rest import STRATEGIC_MERGE_PATCH, Cluster
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Discard,
    EditList,
    HoldKey,
    MarkObject,
    Patch,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Scale,
    Step,
    Together,
    Unfinalize,
)
from workers.decision.snapshot import Snapshot
from workers.errors import AlreadyExists, ClusterError, Conflict, Forbidden, Invalid, NotFound, Unavailable
from workers.handoff.claim_orders import ClaimOrders
from workers.metrics import process, servers
from workers.reconcile.creation_circuit import CreationCircuit
from workers.reconcile.creation_warnings import CreationWarning, CreationWarnings
from workers.reconcile.job_tracing import JobTracing
from workers.reconcile.step_handlers import edit_list, with_secret
from workers.runtime.leases import Notify
from workers.tracing.event_spans import CreationMoments

log = logging.getLogger(__name__)

#: Pauses (seconds) before a create that got no answer is posted again.
REPEATS = (0.1, 0.5)
#: Seconds until a create that was never answered is decided on again: by then the watch has shown the object, or its
#: kind is stale. A fresh reading before that could create the same Job under another name.
UNCERTAIN = 12.0
#: Longest wait (seconds) of a plan whose `meanwhile` was carried out: it has more to do by then.
SOON = 10.0

#: Requests of one stage that are answered 429 before it starts nothing new.
MOST_BUSY = 64

#: Statuses of answers to a create that do not say what became of it, 0 for no answer.
_OPEN = (0, 500, 502, 504)

#: The class of a step's requests; of the others it is FINISH.
PRIORITIES: Mapping[type[Step], Priority] = {
    Create: Priority.START,
    Scale: Priority.START,
    EditList: Priority.REPORT,
}

#: Called before every request of a plan; raises LeaseLost when this process no longer holds the key's lease.
Check = Callable[[], None]


class Actor:
    """Carries plans out against one cluster.

    Every effect is written through to the store before its step ends, so that the next decision sees it without
    waiting for the watch.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        store: Store,
        recorder: Recorder,
        orders: ClaimOrders,
        reconcile: Lane,
        poll: Lane,
        notify: Notify,
        in_flight: int,
        tracing: JobTracing,
    ) -> None:
        self.cluster = cluster
        self.tracing = tracing
        self.store = store
        self.recorder = recorder
        self.orders = orders
        self.reconcile = reconcile
        self.poll = poll
        self.notify = notify
        self.in_flight = in_flight
        self.circuit = CreationCircuit()
        self.warnings = CreationWarnings()
        #: Plans that are being carried out.
        self.under_way = 0

    async def act(self, snapshot: Snapshot, plan: Plan, check: Check) -> datetime | None:
        """Carries the plan out. Returns the earliest instant of its ComeBacks, if it has any.

        Raises the ClusterError that stopped the plan, or LeaseLost.
        """
        back: datetime | None = None
        run = _Run(self, snapshot, plan, check)
        self.under_way += 1
        try:
            for step in plan.steps:
                if isinstance(step, ComeBack):
                    back = min(back, step.at) if back else step.at
                else:
                    await run.step(step)
        finally:
            self.under_way -= 1
            if run.warnings:
                run.record_warnings()
        return back


class _Run:
    """One plan in progress; follows the reconciled object's version as its own steps change it."""

    def __init__(self, actor: Actor, snapshot: Snapshot, plan: Plan, check: Check) -> None:
        self._actor = actor
        self._snapshot = snapshot
        self._body = snapshot.body
        self._plan = plan
        self._check = check
        self._began = actor.tracing.now()
        self._effects = WriteThrough(
            actor.store, actor.notify, snapshot.ref.key, check, side_by_side=lambda: actor.under_way
        )
        # References only: a stage may create a thousand objects.
        self._named = frozenset(ref for step in plan.steps if isinstance(step, PatchStatus) for ref in step.made)
        self._made: dict[Ref, Object] = {}
        # Children that an earlier plan created: they are no news.
        self._known: set[Ref] = set()
        #: What the API server said about created objects.
        self.warnings: list[CreationWarning] = []

    @cached_property
    def _observed_children(self) -> Mapping[Ref, Object]:
        """The children by their addresses, as the decision saw them; those that exist."""
        entries = (entry for kind in self._snapshot.children.values() for entry in kind)
        return {entry.ref: entry.body for entry in entries if entry.body is not None}

    async def step(self, step: Step) -> None:
        name = type(step).__name__
        try:
            done = await self._carry_out(step)
        except ClusterError as error:
            process.WRITES.labels(name, type(error).__name__).inc()
            raise
        finally:
            # Also after a time-out or a lost lease: the writes that succeeded must be seen by the next decision.
            await self._effects.flush()
        process.WRITES.labels(name, "done" if done else "taken").inc()

    def record_warnings(self) -> None:
        """Records the warnings, once for all objects that share one."""
        if self._body is not None:
            for record in self._actor.warnings.events(self._body, self.warnings, time.monotonic()):
                self._actor.recorder.record(self._snapshot.ref.kind, self._body, record)

    async def _carry_out(self, step: Step) -> bool:
        """Carries one step out. Returns False for a create whose name is taken and that the plan can do without."""
        try:
            # The lease is checked before the step, and before each request that waited for its turn meanwhile.
            with requests(PRIORITIES.get(type(step), Priority.FINISH), self._check):
                await _METHODS[type(step)](self, step)
        except AlreadyExists:
            if not isinstance(step, Create) or step.taken is None:
                raise
            await self._record(step.taken)
            # The plan's status counts on the object that was not created: decide once more.
            await self._enqueue(self._actor.reconcile, self._snapshot.ref)
            return False
        except (Conflict, NotFound):
            if isinstance(step, PatchStatus):
                await self._refresh(self._snapshot.ref)
            elif isinstance(step, Patch | Delete | Unfinalize):
                await self._refresh(step.ref)
            raise
        return True

    async def _refresh(self, ref: Ref) -> str | None:
        """Reads an object on which a write failed from the API server, and stores it.

        Returns its uid, an empty one if there is no such object, or None if that could not be found out.

        The store may be behind, or hold a version of another history (a restored cluster or broker): without the API
        server's state the next decision would fail the same way, until the next relist.
        """
        try:
            found = await self._actor.cluster.get(ref)
        except NotFound:
            entry = await self._actor.store.get(ref)
            if entry is not None and entry.body is not None:
                await self._store_read(ref, ObjectVersion.gone(ref, entry.body["metadata"]["uid"]))
            return ""
        except ClusterError as error:
            log.debug("an object was not read again", extra={"object": str(ref), "error": str(error)})
            return None
        await self._store_read(ref, ObjectVersion(found))
        return str(found["metadata"]["uid"])

    async def _store_read(self, ref: Ref, change: ObjectVersion) -> None:
        """Stores what was read from the API server just now: unlike our own effects, a change marks our key."""
        after = self._snapshot.at or None
        await self._actor.notify(await self._actor.store.apply(ref.kind, [change], read_after=after))

    async def _create(self, step: Create) -> None:
        if (complete := await with_secret(step, self._actor.cluster, self._owns)) is None:
            return
        posted = self._actor.tracing.now()
        step, ref = self._actor.tracing.stamped(complete, posted), ref_of(step.kind, step.body)
        try:
            created = await self._post(step)
        except AlreadyExists as error:
            created = await self._existing(ref)
            if not self._owns(created) and not _same_controller(step.body, created):
                if step.any_owner:
                    return
                raise AlreadyExists(f"{ref} exists and belongs to somebody else", status=error.status) from error
            self._known.add(ref)
            # An earlier plan created it, and it may have progressed since.
            await self._store_read(ref, ObjectVersion(created))
        else:
            process.CREATED.labels(self._snapshot.ref.kind.id, step.kind.id, self._snapshot.ref.namespace).inc()
            await self._effects.add(step.kind, ObjectVersion(created))
            if step.kind == JOB:
                self._trace(created, posted)
        if ref in self._named:
            self._made[ref] = reference(step.kind, created)

    def _trace(self, created: Object, posted: int) -> None:
        tracing = self._actor.tracing
        moments = CreationMoments(self._snapshot.at or self._began, self._began, posted, tracing.now())
        tracing.created(self._snapshot, self._plan, created, moments)

    async def _existing(self, ref: Ref) -> Object:
        try:
            return await self._actor.cluster.get(ref)
        except NotFound as error:
            raise Conflict(f"{ref} was deleted while it was made again", status=409) from error

    async def _post(self, step: Create) -> Object:
        """Posts until it is known whether the object exists: not knowing would not be safe, repeating a name is.

        Raises AlreadyExists if it does after an attempt whose answer did not say so; Unavailable, with `retry_after`
        set, if that could not be found out; the error of the namespace's circuit.
        """
        circuit, namespace, kind = self._actor.circuit, step.body["metadata"].get("namespace", ""), step.kind.id

        def check(*, sends: bool = True) -> None:
            self._check()
            if held := circuit.held(namespace, kind, time.monotonic(), sends=sends):
                servers.CREATIONS_HELD.labels(kind).inc()
                raise held

        for pause in (*REPEATS, None):
            told: list[str] = []
            # The circuit may open while the creation waits for its turn.
            check(sends=False)
            try:
                with requests(Priority.START, check, told.append):
                    created = await self._actor.cluster.create(step.kind, step.body)
            except ClusterError as error:
                if error.held:
                    raise
                circuit.refused(namespace, kind, error, time.monotonic())
                if not _may_have_created(error):
                    raise
                if await self._exists(ref_of(step.kind, step.body)):
                    raise AlreadyExists("created by an attempt whose answer did not say so", status=409) from error
                # After a time-out it may still be under way, in an admission webhook: posted again it would take as
                # long once more.
                if pause is None or error.status or isinstance(error.__cause__, TimeoutError):
                    error.retry_after, error.uncertain = UNCERTAIN, True
                    raise
                await asyncio.sleep(pause)
            else:
                circuit.created(namespace, kind)
                self.warnings += ((step.kind, text) for text in told)
                return created
        raise AssertionError("unreachable")

    async def _exists(self, ref: Ref) -> bool:
        """Returns True if the object is known to exist."""
        try:
            await self._actor.cluster.get(ref)
        except ClusterError:
            return False
        return True

    async def _discard(self, step: Discard) -> None:
        try:
            found = await self._actor.cluster.get(step.ref)
        except NotFound:
            return
        if self._owns(found):
            await self._delete(Delete(step.ref, found["metadata"]["uid"]))

    def _owns(self, body: Object) -> bool:
        controller = controller_of(body)
        return self._body is not None and controller is not None and controller["uid"] == self._body["metadata"]["uid"]

    async def _delete(self, step: Delete) -> None:
        try:
            self._check()
            answer = await self._actor.cluster.delete(
                step.ref, uid=step.uid, resource_version=step.resource_version, propagation=step.propagation
            )
        except NotFound:
            answer = {}
        except Conflict:
            if step.resource_version:
                raise
            # The uid differs: the observed object is gone, and another one has its name. If it is the same, nothing was
            # deleted, and no change of it would ask for the deletion again.
            if await self._refresh(step.ref) in (step.uid, None):
                raise
            return
        if answer.get("kind") == step.ref.kind.kind and "deletionTimestamp" in answer["metadata"]:
            change = ObjectVersion.left(step.ref.kind, answer)
            known = self._observed_children.get(step.ref)
            if known is not None and answer.get("status") != known.get("status"):
                # Not by the deletion: the watch shows this version, too, and it would mark nothing.
                await self._store_read(step.ref, change)
            else:
                await self._effects.add(step.ref.kind, change)
        else:
            await self._effects.add(step.ref.kind, ObjectVersion.gone(step.ref, step.uid))

    async def _patch(self, step: Patch) -> None:
        ours = self._body is not None and step.ref == self._snapshot.ref
        version = self._version() if ours else step.resource_version
        metadata = {**step.body.get("metadata", {}), "resourceVersion": version}
        self._check()
        patched = await self._actor.cluster.patch(step.ref, {**step.body, "metadata": metadata})
        await self._keep(step.ref, patched)
        if step.then:
            await self._record(step.then)

    async def _unfinalize(self, step: Unfinalize) -> None:
        # Fenced by uid only: a kubelet's write in between must not keep a finished pod from being deleted.
        body = {"metadata": {"uid": step.uid, "$deleteFromPrimitiveList/finalizers": [step.finalizer]}}
        try:
            self._check()
            patched = await self._actor.cluster.patch(step.ref, body, type=STRATEGIC_MERGE_PATCH)
        except NotFound:
            patched = None
        except (Conflict, Invalid):
            # A patch that would change the uid of another object of that name is refused this way, too.
            try:
                found = await self._actor.cluster.get(step.ref)
            except NotFound:
                found = {"metadata": {"uid": ""}}
            if found["metadata"]["uid"] == step.uid:
                raise
            patched = None
        self._actor.tracing.ended(self._snapshot, step.ref, step.uid)
        if patched is None:
            await self._effects.add(step.ref.kind, ObjectVersion.gone(step.ref, step.uid))
            return
        if step.ref == self._snapshot.ref:
            self._body = patched
        await self._effects.add(step.ref.kind, ObjectVersion.left(step.ref.kind, patched))

    async def _scale(self, step: Scale) -> None:
        body = {"metadata": {"resourceVersion": step.resource_version}, "spec": {"replicas": step.replicas}}
        try:
            self._check()
            # Not written through: workloads are read from the API server, never from the store.
            await self._actor.cluster.patch(step.ref, body, subresource="scale")
        except ClusterError as error:
            if step.otherwise and not isinstance(error, Conflict):
                message = step.otherwise.message.replace("{error}", str(error))
                await self._record(replace(step.otherwise, message=message))
            raise
        if step.then:
            await self._record(step.then)

    async def _patch_status(self, step: PatchStatus) -> None:
        if self._body is None:
            return
        patch = diff(self._body.get("status") or {}, self._with_references(step))
        if not patch:
            return
        body = {"metadata": {"resourceVersion": self._version()}, "status": patch}
        self._check()
        ref = self._snapshot.ref
        patched = await self._actor.cluster.patch(ref, body, subresource="status" if ref.kind.status else "")
        await self._keep(self._snapshot.ref, patched)

    def _with_references(self, step: PatchStatus) -> Object:
        known = [self._made[ref] for ref in step.made if ref in self._made]
        return {**step.status, "active": [*step.status.get("active", ()), *known]} if known else step.status

    async def _together(self, stage: Together) -> None:
        waiting = list(reversed(stage.steps))
        done = 0
        errors: list[Exception] = []

        async def work() -> None:
            nonlocal done
            # After a failure that speaks for all steps nothing new is started: it would fail a hundred times.
            while waiting and not (errors and _stops(stage, errors)):
                step = waiting.pop()
                try:
                    # Two statements: `done += await …` would read `done` before the wait, and lose others' additions.
                    created = await self._carry_out(step)
                    known = isinstance(step, Create) and ref_of(step.kind, step.body) in self._known
                    done += created and not known
                except Exception as error:
                    errors.append(error)

        await asyncio.gather(*(work() for _ in range(min(self._actor.in_flight, len(waiting)))))
        if stage.then and done:
            await self._record(replace(stage.then, message=stage.then.message.replace("{done}", str(done))))
        for message, error in islice({str(error): error for error in errors}.items(), self._actor.in_flight):
            expected = isinstance(error, Conflict) or _is_terminating(error)
            if stage.otherwise and isinstance(error, ClusterError) and not expected:
                text = stage.otherwise.message.replace("{error}", message)
                await self._record(replace(stage.otherwise, message=text))
        if (worst := _worst(errors)) and (stage.vital or not isinstance(worst, ClusterError)):
            if stage.meanwhile is not None and isinstance(worst, ClusterError):
                await self._meanwhile(stage.meanwhile, worst)
            raise worst

    async def _meanwhile(self, steps: Sequence[Step], error: ClusterError) -> None:
        error.within = SOON
        await self._effects.flush()
        try:
            for step in steps:
                await self._carry_out(step)
        except ClusterError as another:
            # The first refusal still decides when the plan is tried again.
            another.within, another.retry_after = SOON, _longest((error, another))
            raise

    async def _record(self, record: RecordEvent) -> None:
        kind, body = record.about or (self._snapshot.ref.kind, self._body)
        if body is not None:
            self._actor.recorder.record(kind, body, record)

    async def _hold(self, step: HoldKey) -> None:
        await asyncio.sleep(step.seconds)

    async def _count(self, step: CountMetric) -> None:
        process.measure(step.metric, step.value, step.labels, step.times)

    async def _edit_list(self, step: EditList) -> None:
        self._check()
        await edit_list(self._actor.cluster, step)

    async def _mark(self, step: MarkObject) -> None:
        await self._enqueue(self._actor.reconcile, step.ref)

    async def _poll(self, step: PollNow) -> None:
        lane, key = self._actor.poll, self._snapshot.ref.key
        if step.order is None:
            await self._enqueue(lane, self._snapshot.ref)
            return
        self._check()
        await self._actor.notify({lane.name: await self._actor.orders.put(key, step.order, lane)})

    async def _enqueue(self, lane: Lane, ref: Ref) -> None:
        marked = await lane.mark((ref.key,))
        await self._actor.notify({lane.name: marked.notifications})

    async def _keep(self, ref: Ref, body: Object) -> None:
        if ref == self._snapshot.ref:
            self._body = body
        await self._effects.add(ref.kind, ObjectVersion(body))

    def _version(self) -> str:
        assert self._body is not None
        return str(self._body["metadata"]["resourceVersion"])


#: Of the class, not of each run: bound methods in a run would make it a cycle, and all that it holds garbage that only
#: a collection finds.
_METHODS: Mapping[type[Step], Callable[[_Run, Any], Awaitable[None]]] = {
    Create: _Run._create,
    Delete: _Run._delete,
    Discard: _Run._discard,
    Patch: _Run._patch,
    Unfinalize: _Run._unfinalize,
    Scale: _Run._scale,
    PatchStatus: _Run._patch_status,
    Together: _Run._together,
    RecordEvent: _Run._record,
    EditList: _Run._edit_list,
    MarkObject: _Run._mark,
    CountMetric: _Run._count,
    PollNow: _Run._poll,
    HoldKey: _Run._hold,
}


def _same_controller(one: Object, other: Object) -> bool:
    """Returns True if both have the same controller, which need not be the reconciled object."""
    first, second = controller_of(one), controller_of(other)
    return first is not None and second is not None and first["uid"] == second["uid"]


def _stops(stage: Together, errors: Sequence[Exception]) -> bool:
    """Returns True if one of these errors would meet the stage's other steps as well."""
    # The limiter lets fewer go after a 429; a plan that gave up all others for it would come back for them in vain.
    others = [error for error in errors if not _is_busy(error)]
    if stage.meanwhile is None:
        return bool(others) or len(errors) > MOST_BUSY
    return any(
        not (isinstance(error, ClusterError) and error.status) or error.held or _is_terminating(error)
        for error in others
    )


def _may_have_created(error: ClusterError) -> bool:
    """Returns True for an answer to a create, or none at all, that leaves open whether the object exists.

    Storage that does not confirm in time may have stored it, and a proxy that does not wait may have passed it on. What
    an admission webhook refuses is not stored.
    """
    return isinstance(error, Unavailable) and error.status in _OPEN and not transport.is_of_admission(error)


def _worst(errors: Sequence[Exception]) -> Exception | None:
    """Returns the error that a stage fails with: a lost lease or an unexpected error before any refusal.

    Of refusals the first, with the longest `retry_after` of all, and uncertain if one of them is.
    """
    refused = [error for error in errors if isinstance(error, ClusterError)]
    if len(refused) < len(errors) or not refused:
        return next((error for error in errors if not isinstance(error, ClusterError)), None)
    refused[0].retry_after = _longest(refused)
    refused[0].uncertain = any(error.uncertain for error in refused)
    return refused[0]


def _longest(errors: Iterable[ClusterError]) -> float | None:
    return max((error.retry_after for error in errors if error.retry_after is not None), default=None)


def _is_busy(error: Exception) -> bool:
    return isinstance(error, Unavailable) and error.status == 429 and not error.held


def _is_terminating(error: Exception) -> bool:
    return isinstance(error, Forbidden) and error.namespace_terminating
