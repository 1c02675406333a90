"""A PodGroup with its pods: what it asks for, what it has, and what it still needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from scheduler.cron.durations import duration
from scheduler.cron.errors import CronError
from workers.api import times
from workers.api.kinds import POD_GROUP, VC_JOB, Object, Ref, by_manifest, controller_of, ref_of
from workers.api.ties import DEFAULT_QUEUE
from workers.controllers.volcano import demand
from workers.controllers.volcano.gangs import vectors
from workers.controllers.volcano.gangs.members import ONE_POD, Member, ordered
from workers.controllers.volcano.gangs.vectors import EMPTY, Vector

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"

#: Annotations. How long a group waits before nobody may overtake it any more (Volcano's).
SLA = "sla-waiting-time"
#: How long a group waits before it is given up.
WAITING_LIMIT = "penstock.dev/waiting-limit"
#: How long an admitted group may stay without enough pods that have a node; ``0`` is for ever.
PATIENCE = "penstock.dev/gang-timeout"


def instant(text: str | None) -> datetime | None:
    """An instant of a status; None when there is none, or when nobody can read what was written into it."""
    try:
        return times.parse(text) if text else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class BackOff:
    """A group that was let through and was not placed. count: how often so far. since, until: of the last time."""

    count: int
    since: datetime
    until: datetime

    @classmethod
    def parse(cls, body: Object) -> "BackOff | None":
        """From a status; None for what nobody of ours wrote."""
        since, until = instant(body.get("since")), instant(body.get("until"))
        return cls(int(body.get("count") or 1), since, until) if since and until else None

    def render(self) -> Object:
        """For a status."""
        return {"count": self.count, "since": times.render(self.since), "until": times.render(self.until)}


@dataclass(frozen=True)
class Group:
    """One PodGroup. problem: what of it cannot be understood; it waits then, whatever there is room for."""

    body: Object
    ref: Ref
    queue: str
    least: int
    phase: str
    minimum: Vector | None
    members: tuple[Member, ...] = ()
    problem: str | None = None
    durations: Mapping[str, timedelta] = field(default_factory=dict)

    @property
    def admitted(self) -> bool:
        """Whether it has been let through, and is not done."""
        return self.phase in (INQUEUE, RUNNING, UNKNOWN)

    @property
    def gathered(self) -> bool:
        """Whether it was made for pods that were there first; those of Volcano's Jobs come when it is admitted."""
        owner = controller_of(self.body)
        return owner is not None and by_manifest(owner["apiVersion"], owner["kind"]) != VC_JOB

    @property
    def status(self) -> Object:
        """Its status as it was observed."""
        return self.body.get("status") or {}

    @property
    def age(self) -> tuple[str, str]:
        """What puts groups in the order in which they were made."""
        metadata = self.body["metadata"]
        return metadata.get("creationTimestamp") or "", metadata.get("uid") or ""

    @cached_property
    def placed(self) -> int:
        """How many pods have, or had, their place."""
        return sum(each.placed for each in self.members)

    @cached_property
    def waiting(self) -> tuple[Member, ...]:
        """The pods without a node, the oldest first."""
        return tuple(each for each in self.members if each.state == "waiting")

    @cached_property
    def allocated(self) -> Vector:
        """What its pods take of nodes now."""
        return vectors.total(each.requests for each in self.members if each.holds)

    @cached_property
    def need(self) -> Vector:
        """What must be free before the gang is whole: what `minResources` says and its pods do not have already.

        Where pods of the gang exist that ask for more than that, so much.
        """
        covered = vectors.total(each.requests for each in self.members if each.placed)
        missing = self.waiting[: max(0, self.least - self.placed)]
        return vectors.most(
            vectors.minus(vectors.plain(self.minimum or EMPTY), covered),
            vectors.total(each.requests for each in missing),
        )

    @cached_property
    def reserve(self) -> Vector:
        """What is not free because this admitted group will take it: nobody but a plain scheduler holds its pods back.

        Until the gang is whole that is what it needs, and always what its pods without a node ask for.
        """
        if not self.admitted:
            return EMPTY
        waiting = vectors.total(each.requests for each in self.waiting)
        return waiting if self.phase == RUNNING else vectors.most(self.need, waiting)

    @cached_property
    def counted(self) -> Vector:
        """What a quota counts of its pods that are there, by the quota's names."""
        alive = (each.pod["spec"] for each in self.members if each.state not in ("succeeded", "failed"))
        return vectors.total({name: one.value for name, one in demand.usage(spec).items()} for spec in alive)

    @cached_property
    def shapes(self) -> tuple[Vector, ...] | None:
        """What each pod asks for that is missing for a whole gang; None where only their sum is known.

        Of a gang whose pods are not made yet that is known if all of them are of one task, or if `minTaskResources`
        says so.
        """
        missing = max(0, self.least - self.placed)
        if len(self.waiting) >= missing:
            return tuple(each.requests for each in self.waiting[:missing])
        spec = self.body.get("spec") or {}
        tasks, sizes = spec.get("minTaskMember") or {}, spec.get("minTaskResources") or {}
        if not self.placed and sum(tasks.values()) == self.least and tasks.keys() <= sizes.keys():
            return tuple(_pod(sizes[task]) for task, number in tasks.items() for _ in range(number))
        if self.minimum is None or len(tasks) > 1 or any(value % self.least for value in self.minimum.values()):
            return None
        one = {name: value // self.least for name, value in vectors.plain(self.minimum).items()}
        return (one,) * missing

    @cached_property
    def back_off(self) -> BackOff | None:
        """Its last back-out, None when there was none, or it has been whole since."""
        body = self.status.get("backOff")
        return BackOff.parse(body) if body else None

    @property
    def admitted_at(self) -> datetime | None:
        """When it was let through the last time."""
        return instant(self.status.get("admitted"))

    def elapsed(self, annotation: str, now: datetime) -> bool:
        """Whether the time that an annotation gives is over since the group was made."""
        span, created = self.durations.get(annotation), self.body["metadata"].get("creationTimestamp")
        return span is not None and created is not None and now >= times.parse(created) + span


def observe(body: Object, pods: Iterable[Member]) -> Group:
    """The PodGroup with its pods."""
    spec = body.get("spec") or {}
    durations, problem = _durations(body["metadata"].get("annotations") or {})
    minimum: Vector | None = None
    try:
        if spec.get("minResources") is not None:
            minimum = vectors.read(spec["minResources"])
    except ValueError as error:
        problem = f"spec.minResources: {error}"
    return Group(
        body=body,
        ref=ref_of(POD_GROUP, body),
        queue=spec.get("queue") or DEFAULT_QUEUE,
        least=int(spec.get("minMember") or 0),
        phase=(body.get("status") or {}).get("phase") or PENDING,
        minimum=minimum,
        members=ordered(pods),
        problem=problem,
        durations=durations,
    )


def _pod(sizes: Mapping[str, object]) -> Vector:
    """What a pod of this size takes of a node, one of its places included."""
    return {**vectors.readable(sizes), "pods": ONE_POD}


def _durations(annotations: Mapping[str, str]) -> tuple[dict[str, timedelta], str | None]:
    found: dict[str, timedelta] = {}
    for name in (SLA, WAITING_LIMIT, PATIENCE):
        if name in annotations:
            try:
                found[name] = duration(annotations[name])
            except CronError as error:
                return found, f"metadata.annotations[{name}]: {error}"
    return found, None
