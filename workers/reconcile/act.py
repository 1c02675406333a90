"""Carrying out a plan: one policy for order, fencing, conflicts, concurrency and write-through."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from scheduler.queue import Lane
from workers.api.kinds import Object, Ref, controller_of, ref_of, reference
from workers.cache.store import ObjectVersion, Store
from workers.cache.write_through import WriteThrough
from workers.client.event_recorder import Recorder
from workers.client.merge_patch import diff
from workers.client.rest import STRATEGIC_MERGE_PATCH, Cluster
from workers.errors import AlreadyExists, ClusterError, Conflict, Invalid, NotFound, Unavailable
from workers.handoff.claim_orders import ClaimOrders
from workers.metrics import process
from workers.reconcile import failures, generated_secrets, list_membership
from workers.reconcile.plan import (
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
from workers.reconcile.snapshot import Snapshot
from workers.runtime.leases import Notify

#: Pauses (seconds) before a create that got no answer is posted again.
REPEATS = (0.1, 0.5)
#: A create whose answer never came is decided on again after so many seconds, when the watch has surely shown it or is
#: known to be behind: a fresh reading before that could make the same Job under another name.
UNCERTAIN = 12.0

#: What was refused without anything else waiting for it is tried again within so many seconds: the same plan has more
#: to do by then.
SOON = 10.0

#: Raises LeaseLost when the key is no longer ours; called before every write.
Check = Callable[[], None]


class Actor:
    """Carries plans out against one cluster and writes every effect through to the store before its step ends.

    The write-through is what makes the next decision see what this one did, without waiting for the watch.
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
    ) -> None:
        self.cluster = cluster
        self.store = store
        self.recorder = recorder
        self.orders = orders
        self.reconcile = reconcile
        self.poll = poll
        self.notify = notify
        self.in_flight = in_flight
        # As many as `workers.client.rest` has connections: a write that waited for one there would run into the
        # deadline of its own answer, and after its lease had been checked.
        self.turns = asyncio.Semaphore(2 * in_flight)

    async def act(self, snapshot: Snapshot, plan: Plan, check: Check) -> datetime | None:
        """Carry out the plan; answers when to come back, if it says so.

        Raises the first ClusterError after which nothing more was done, or LeaseLost.
        """
        back: datetime | None = None
        run = _Run(self, snapshot, plan, check)
        for step in plan.steps:
            if isinstance(step, ComeBack):
                back = min(back, step.at) if back else step.at
            else:
                await run.step(step)
        return back


class _Run:
    """One plan being carried out: knows the reconciled object's newest version as its own steps change it."""

    def __init__(self, actor: Actor, snapshot: Snapshot, plan: Plan, check: Check) -> None:
        self._actor = actor
        self._snapshot = snapshot
        self._body = snapshot.body
        self._check = check
        self._effects = WriteThrough(actor.store, actor.notify, snapshot.ref.key)
        # Of what the plan makes, references to what its status names: the objects themselves are not kept.
        self._named = frozenset(ref for step in plan.steps if isinstance(step, PatchStatus) for ref in step.made)
        self._made: dict[Ref, Object] = {}
        self._steps: Mapping[type, Callable[[Any], Awaitable[None]]] = {
            Create: self._create,
            Delete: self._delete,
            Discard: self._discard,
            Patch: self._patch,
            Unfinalize: self._unfinalize,
            Scale: self._scale,
            PatchStatus: self._patch_status,
            Together: self._together,
            RecordEvent: self._record,
            EditList: self._enlist,
            MarkObject: self._mark,
            CountMetric: self._measure,
            PollNow: self._ask,
            HoldKey: self._rest,
        }

    async def step(self, step: Step) -> None:
        name = type(step).__name__
        try:
            done = await self._carry_out(step)
        except ClusterError as error:
            process.WRITES.labels(name, type(error).__name__).inc()
            raise
        finally:
            # Also when the time is over or the lease is lost: what was done was done.
            await self._effects.land()
        process.WRITES.labels(name, "done" if done else "taken").inc()

    async def _carry_out(self, step: Step) -> bool:
        """Carry one step out; False if it made nothing because its name is taken, and the plan goes on without it."""
        try:
            await self._steps[type(step)](step)
        except AlreadyExists:
            if not isinstance(step, Create) or step.taken is None:
                raise
            await self._record(step.taken)
            # What its status says of the object that was not made is decided on once more.
            await self._want(self._actor.reconcile, self._snapshot.ref)
            return False
        return True

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The right to one write now: there may be many plans, and the lease must be ours when it is our turn."""
        async with self._actor.turns:
            self._check()
            yield

    async def _create(self, step: Create) -> None:
        if (minted := await generated_secrets.minted(step, self._actor.cluster, self._owns)) is None:
            return
        step, ref = minted, ref_of(step.kind, step.body)
        try:
            created = await self._post(step)
        except AlreadyExists as error:
            created = await self._existing(ref)
            if not self._owns(created) and not _same_controller(step.body, created):
                if step.any_owner:
                    return
                raise AlreadyExists(f"{ref} exists and belongs to somebody else", status=error.status) from error
            # It may have come far since: unlike what we do ourselves, that is news for our own key too.
            await self._actor.notify(await self._actor.store.apply(step.kind, [ObjectVersion(created)]))
        else:
            process.CREATED.labels(self._snapshot.ref.kind.id, step.kind.id, self._snapshot.ref.namespace).inc()
            await self._effects.add(step.kind, ObjectVersion(created))
        if ref in self._named:
            self._made[ref] = reference(step.kind, created)

    async def _existing(self, ref: Ref) -> Object:
        """The object that has a name; raises Conflict when nobody has it any more."""
        try:
            return await self._actor.cluster.get(ref)
        except NotFound as error:
            raise Conflict(f"{ref} was deleted while it was made again", status=409) from error

    async def _post(self, step: Create) -> Object:
        """Post until there is an answer: the name makes repeating safe, and not knowing would not be.

        Raises Unavailable with `retry_after` when the answer stays away; by then the watch has told what became of it.
        """
        for pause in REPEATS:
            try:
                async with self._turn():
                    return await self._actor.cluster.create(step.kind, step.body)
            except Unavailable as error:
                if error.status:
                    raise
                await asyncio.sleep(pause)
        try:
            async with self._turn():
                return await self._actor.cluster.create(step.kind, step.body)
        except Unavailable as error:
            if not error.status:
                error.retry_after = UNCERTAIN
            raise

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
            async with self._turn():
                answer = await self._actor.cluster.delete(
                    step.ref, uid=step.uid, resource_version=step.resource_version, propagation=step.propagation
                )
        except NotFound:
            answer = {}
        except Conflict:
            if step.resource_version:
                raise
            # Another object has the name by now: ours is gone.
            return
        if answer.get("kind") == step.ref.kind.kind and "deletionTimestamp" in answer["metadata"]:
            await self._effects.add(step.ref.kind, ObjectVersion.left(step.ref.kind, answer))
        else:
            await self._effects.add(step.ref.kind, ObjectVersion.gone(step.ref, step.uid))

    async def _patch(self, step: Patch) -> None:
        ours = self._body is not None and step.ref == self._snapshot.ref
        version = self._version() if ours else step.resource_version
        metadata = {**step.body.get("metadata", {}), "resourceVersion": version}
        async with self._turn():
            patched = await self._actor.cluster.patch(step.ref, {**step.body, "metadata": metadata})
        await self._keep(step.ref, patched)

    async def _unfinalize(self, step: Unfinalize) -> None:
        # Not fenced by a version: whoever else writes to the object in these moments does not keep it from going.
        body = {"metadata": {"uid": step.uid, "$deleteFromPrimitiveList/finalizers": [step.finalizer]}}
        try:
            async with self._turn():
                patched = await self._actor.cluster.patch(step.ref, body, type=STRATEGIC_MERGE_PATCH)
        except NotFound:
            patched = None
        except (Conflict, Invalid):
            # Another object of the name has a uid that cannot be changed to this one.
            if await self._is_there(step.ref, step.uid):
                raise
            patched = None
        if patched is None:
            await self._effects.add(step.ref.kind, ObjectVersion.gone(step.ref, step.uid))
            return
        if step.ref == self._snapshot.ref:
            self._body = patched
        await self._effects.add(step.ref.kind, ObjectVersion.left(step.ref.kind, patched))

    async def _is_there(self, ref: Ref, uid: str) -> bool:
        """Whether the object of this uid has the name, or nobody or another by now."""
        try:
            found = await self._actor.cluster.get(ref)
        except NotFound:
            return False
        return bool(found["metadata"]["uid"] == uid)

    async def _scale(self, step: Scale) -> None:
        body = {"metadata": {"resourceVersion": step.resource_version}, "spec": {"replicas": step.replicas}}
        try:
            async with self._turn():
                # Not into the store: nobody looks at workloads there.
                await self._actor.cluster.patch(step.ref, body, subresource="scale")
        except ClusterError as error:
            if step.otherwise and not isinstance(error, Conflict):
                told = step.otherwise.message.replace("{error}", str(error))
                await self._record(replace(step.otherwise, message=told))
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
        async with self._turn():
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

        async def one_after_the_other() -> None:
            nonlocal done
            # After the first failure nothing new is started: what fails once would fail a hundred times.
            while waiting and not (errors and failures.stop(stage, errors)):
                step = waiting.pop()
                try:
                    # Not in one expression: that would add to what `done` was before the wait.
                    made = await self._carry_out(step)
                    done += made
                except Exception as error:
                    errors.append(error)

        keeper: list[Coroutine[Any, Any, None]] = [
            one_after_the_other() for _ in range(min(self._actor.in_flight, len(waiting)))
        ]
        await asyncio.gather(*keeper)
        if stage.then and done:
            await self._record(replace(stage.then, message=stage.then.message.replace("{done}", str(done))))
        for message, error in islice({str(error): error for error in errors}.items(), self._actor.in_flight):
            if stage.otherwise and isinstance(error, ClusterError) and not failures.is_everyday(error):
                told = stage.otherwise.message.replace("{error}", message)
                await self._record(replace(stage.otherwise, message=told))
        if (worst := failures.worst(errors)) and (stage.vital or not isinstance(worst, ClusterError)):
            await self._meanwhile(stage, worst)
            raise worst

    async def _meanwhile(self, stage: Together, error: Exception) -> None:
        if stage.meanwhile is None or not isinstance(error, ClusterError):
            return
        error.within = SOON
        await self._effects.land()
        try:
            for step in stage.meanwhile:
                await self._carry_out(step)
        except ClusterError as another:
            # When it is tried again is still up to what was refused before.
            another.within, another.retry_after = SOON, failures.longest((error, another))
            raise

    async def _record(self, record: RecordEvent) -> None:
        kind, body = record.about or (self._snapshot.ref.kind, self._body)
        if body is not None:
            self._actor.recorder.record(kind, body, record)

    async def _rest(self, step: HoldKey) -> None:
        await asyncio.sleep(step.seconds)

    async def _measure(self, step: CountMetric) -> None:
        process.measure(step.metric, step.value, step.labels, step.times)

    async def _enlist(self, step: EditList) -> None:
        async with self._turn():
            await list_membership.enlist(self._actor.cluster, step)

    async def _mark(self, step: MarkObject) -> None:
        await self._want(self._actor.reconcile, step.ref)

    async def _ask(self, step: PollNow) -> None:
        lane, key = self._actor.poll, self._snapshot.ref.key
        if step.order is None:
            await self._want(lane, self._snapshot.ref)
            return
        self._check()
        await self._actor.notify({lane.name: await self._actor.orders.put(key, step.order, lane)})

    async def _want(self, lane: Lane, ref: Ref) -> None:
        marked = await lane.mark((ref.key,))
        await self._actor.notify({lane.name: marked.notifications})

    async def _keep(self, ref: Ref, body: Object) -> None:
        if ref == self._snapshot.ref:
            self._body = body
        await self._effects.add(ref.kind, ObjectVersion(body))

    def _version(self) -> str:
        assert self._body is not None
        return str(self._body["metadata"]["resourceVersion"])


def _same_controller(one: Object, other: Object) -> bool:
    """Whether both belong to the same owner, who need not be the reconciled object."""
    first, second = controller_of(one), controller_of(other)
    return first is not None and second is not None and first["uid"] == second["uid"]
