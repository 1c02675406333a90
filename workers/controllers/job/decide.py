"""The decision about one batch/v1 Job: its pods, its counts and its end, as Kubernetes' own controller decides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from workers.api import times
from workers.api.kinds import JOB, POD, Object, ref_of
from workers.controller import Controller
from workers.controllers import conditions
from workers.controllers.job import backoff, deadline, ending, pods, spec, status, ttl
from workers.controllers.job.ending import Ending
from workers.controllers.job.ranking import rank
from workers.controllers.job.status import Condition, Tally
from workers.plan import NOTHING, ComeBack, Create, Delete, PatchStatus, Plan, Record, Step, Together
from workers.snapshot import Entry, Snapshot

#: The value of `spec.managedBy` that gives a Job to this controller.
MANAGER = "penstock.dev/job-controller"
#: The value that gives it to the cluster's own controller, the same as none at all.
BUILT_IN = "kubernetes.io/job-controller"

#: Pods created or deleted by one plan, as in Kubernetes.
HELPING = 500
#: A pod that goes at once when it is deleted sends no further news: look again.
_LOOK_AGAIN = timedelta(seconds=1)


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do about a Job and its pods."""
    job = snapshot.body
    if job is None or job["metadata"].get("deletionTimestamp"):
        return NOTHING
    if how := conditions.finished(job):
        return ttl.decide(snapshot, job, spec.of(job), how, now)
    if field := spec.unsupported(job):
        message = f"spec.{field} is not supported yet; the Job is not run"
        return Plan((Record("Warning", "UnsupportedField", message),), message)
    return _Decision(job, snapshot.children.get(POD.id, ()), now).plan()


@dataclass(frozen=True)
class _Change:
    """What is done to the pods, the counts once it is done, and when to look again."""

    steps: tuple[Step, ...]
    tally: Tally
    back: datetime | None = None


@dataclass(frozen=True)
class _Decision:
    """The decision about one unfinished Job."""

    job: Object
    entries: tuple[Entry, ...]
    now: datetime

    def plan(self) -> Plan:
        """Pods first, then the status, then what to tell about it."""
        if over := ending.decided(self.job) or self._failure:
            return self._finish(over, self._stop(over))
        change = self._manage()
        if over := ending.success(self._spec, change.tally.succeeded, change.tally.active):
            return self._finish(over, change)
        settings = status.suspension(self.job, self._spec.suspended)
        return self._assemble(change, settings, self._started, self._limit)

    @cached_property
    def _spec(self) -> spec.Spec:
        return spec.of(self.job)

    @cached_property
    def _pods(self) -> pods.Pods:
        return pods.sort(self.entries)

    @cached_property
    def _tally(self) -> Tally:
        """Counts as observed. A finished pod that was counted and is gone since stays counted."""
        observed = self.job.get("status") or {}
        return Tally(
            active=len(self._pods.active),
            ready=self._pods.ready,
            terminating=len(self._pods.terminating),
            succeeded=max(observed.get("succeeded") or 0, len(self._pods.succeeded)),
            failed=max(observed.get("failed") or 0, len(self._pods.failed)),
        )

    @cached_property
    def _started(self) -> datetime | None:
        """When the Job started; starting over, and its deadline with it, when it is resumed."""
        if self._spec.suspended:
            return None
        text = (self.job.get("status") or {}).get("startTime")
        resumed = conditions.holds(self.job, "Suspended")
        return times.parse(text) if text and not resumed else self.now

    @property
    def _started_at_last(self) -> datetime | None:
        """A finished Job must have started, unless it was suspended and had nothing to do."""
        if text := (self.job.get("status") or {}).get("startTime"):
            return times.parse(text)
        return None if self._spec.suspended and self._spec.completions == 0 else self.now

    @cached_property
    def _limit(self) -> datetime | None:
        return deadline.of(self._spec, self._started)

    @cached_property
    def _failure(self) -> Ending | None:
        return ending.failure(self._spec, self._tally.failed, self._pods.active, self._limit, self.now)

    def _stop(self, over: Ending) -> _Change:
        """Delete all pods that still work. Those killed by a failure count as failed."""
        change = self._remove(self._pods.active)
        if over.target == "FailureTarget":
            killed = self._tally.active - change.tally.active
            return replace(change, tally=replace(change.tally, failed=change.tally.failed + killed))
        return change

    def _manage(self) -> _Change:
        """Bring the number of active pods to what is wanted."""
        active = self._pods.active
        wanted = 0 if self._spec.suspended else self._wanted()
        if len(active) > wanted:
            return self._remove(sorted(active, key=rank)[: len(active) - wanted])
        blocking = self._tally.terminating if self._spec.replace_only_failed else 0
        missing = wanted - len(active) - blocking
        if missing <= 0:
            return _Change((), self._tally)
        ready_at = backoff.ready_at(self._pods.succeeded, self._pods.failed)
        if ready_at and ready_at > self.now:
            return _Change((), self._tally, ready_at)
        return self._add(missing)

    def _wanted(self) -> int:
        """How many pods should be active now."""
        if self._spec.completions is None:
            # A work queue: once a pod has succeeded the others finish, and none is added.
            return self._tally.active if self._tally.succeeded else self._spec.parallelism
        return max(0, min(self._spec.completions - self._tally.succeeded, self._spec.parallelism))

    def _add(self, missing: int) -> _Change:
        number = min(missing, HELPING)
        names = tuple(pods.free_names(self.job, {entry.ref.name for entry in self.entries}, number))
        stage = Together(
            tuple(Create(POD, body) for body in pods.build(self.job, names)),
            then=_told("SuccessfulCreate", "Created", names),
            otherwise=Record("Warning", "FailedCreate", "Error creating: {error}"),
        )
        tally = replace(self._tally, active=self._tally.active + number)
        return _Change((stage,), tally, self.now if missing > number else None)

    def _remove(self, victims: Sequence[Object]) -> _Change:
        if not victims:
            return _Change((), self._tally)
        victims = victims[:HELPING]
        stage = Together(
            tuple(_deletion(pod) for pod in victims),
            then=_told("SuccessfulDelete", "Deleted", [pod["metadata"]["name"] for pod in victims]),
            otherwise=Record("Warning", "FailedDelete", "Error deleting: {error}"),
        )
        removed_ready = sum(conditions.holds(pod, "Ready") for pod in victims)
        tally = replace(
            self._tally,
            active=self._tally.active - len(victims),
            ready=self._tally.ready - removed_ready,
            terminating=self._tally.terminating + len(victims),
        )
        return _Change((stage,), tally, self.now + _LOOK_AGAIN)

    def _finish(self, over: Ending, change: _Change) -> Plan:
        if change.tally.quiet and self._spec.ttl is not None:
            # What the plan itself writes is no news for this key: nothing else would bring it back.
            change = replace(change, back=self.now + timedelta(seconds=self._spec.ttl))
        return self._assemble(change, status.ended(over, change.tally), self._started_at_last, None)

    def _assemble(
        self, change: _Change, settings: Sequence[Condition], started: datetime | None, limit: datetime | None
    ) -> Plan:
        steps = list(change.steps)
        new = status.render(self.job, change.tally, started, settings, self.now)
        if new != (self.job.get("status") or {}):
            steps += [PatchStatus(new), *self._events(settings, change.tally)]
        if back := min((at for at in (change.back, limit) if at), default=None):
            steps.append(ComeBack(back))
        tally = change.tally
        why = f"{tally.active} active, {tally.succeeded} succeeded, {tally.failed} failed"
        return Plan(tuple(steps), why)

    def _events(self, settings: Sequence[Condition], tally: Tally) -> Iterator[Record]:
        """What to tell about conditions that this decision changes."""
        for each in settings:
            if conditions.status_of(self.job, each.type) == each.status:
                continue
            match each.type:
                case "Suspended":
                    yield Record("Normal", each.reason.removeprefix("Job"), each.message)
                case "Failed":
                    yield Record("Warning", each.reason, each.message)
                case "Complete":
                    wanted = self._spec.completions
                    if wanted is not None and tally.succeeded > wanted:
                        yield Record("Warning", "TooManySucceededPods", f"{tally.succeeded} of {wanted} succeeded")
                    yield Record("Normal", "Completed", "Job completed")


def _deletion(pod: Object) -> Delete:
    """Only of the pod as it was observed: one that ended meanwhile must stay until it is counted."""
    metadata = pod["metadata"]
    return Delete(ref_of(POD, pod), metadata["uid"], resource_version=metadata.get("resourceVersion"))


def _told(reason: str, verb: str, names: Sequence[str]) -> Record:
    """One Event for all pods of a stage: a Job of a thousand pods must not write a thousand Events."""
    message = f"{verb} pod: {names[0]}" if len(names) == 1 else f"{verb} {{done}} pods"
    return Record("Normal", reason, message)


def controller(jobs: Literal["managed", "all"]) -> Controller:
    """The controller of batch/v1 Jobs.

    jobs: ``managed`` takes only Jobs whose `spec.managedBy` names us, ``all`` also those that name nobody or the
    cluster's built-in controller; a Job that names another manager is never ours.
    """
    ours = {MANAGER} if jobs == "managed" else {MANAGER, BUILT_IN, None}

    def accepts(body: Object) -> bool:
        return body["spec"].get("managedBy") in ours

    return Controller(kind=JOB, decide=decide, children=(POD,), accepts=accepts)
