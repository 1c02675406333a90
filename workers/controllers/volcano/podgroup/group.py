"""A PodGroup with its pods: what it asks for, what it has, and what it still needs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property

from scheduler.cron.durations import duration
from scheduler.cron.errors import CronError
from workers.api import times
from workers.api.kinds import POD_GROUP, VC_JOB, Object, Ref, by_manifest, controller_of, ref_of
from workers.api.references import DEFAULT_QUEUE
from workers.controllers.volcano.podgroup import places, vectors
from workers.controllers.volcano.podgroup.members import ONE_POD, Member, ordered
from workers.controllers.volcano.podgroup.places import ANYWHERE, Places, PodShape
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


@dataclass(frozen=True, slots=True)
class GangRules:
    """overcommit: how many times what the nodes have may be promised; 1 on clusters whose scheduler knows no gangs.

    patience: how long an admitted group may stay without enough pods that have a node; 0 is for ever. overtaking: how
    long others may go past a group that waits for more room than they need; 0 is for ever.
    """

    overcommit: Fraction = Fraction(1)
    patience: timedelta = timedelta(minutes=5)
    overtaking: timedelta = timedelta(minutes=10)


DEFAULT_RULES = GangRules()


def gang_tasks(spec: Object) -> Mapping[str, int]:
    """By task, how many of its pods belong to the gang: those of the lowest indexes."""
    return spec.get("minTaskPods") or spec.get("minTaskMember") or {}


def unmade_shapes(
    spec: Object, minimum: Vector | None, made: Iterable[Member], number: int
) -> tuple[PodShape, ...] | None:
    """So many pods that are to be made besides those that are there; None where the PodGroup does not tell."""
    counts = gang_tasks(spec)
    sizes = spec.get("minTaskResources") or {}
    least = int(spec.get("minMember") or 0)
    if sizes and sum(counts.values()) == least and counts.keys() <= sizes.keys():
        there = Counter(each.task for each in made)
        found = [
            _shape_of(sizes[task], _placement(spec, task))
            for task, wanted in sorted(counts.items())
            for _ in range(wanted - there[task])
        ]
        return tuple(found[:number]) if len(found) >= number else None
    if minimum is None or len(counts) > 1:
        return None
    where = _placement(spec, next(iter(counts), ""))
    return equal_shapes(minimum, least, where)[:number]


def equal_shapes(whole: Vector, number: int, where: Places = ANYWHERE) -> tuple[PodShape, ...]:
    """So many equal parts of what pods ask for together, rounded up."""
    return places.pieces(vectors.plain(whole), number, where)


def _placement(spec: Object, task: str) -> Places:
    given = (spec.get("minTaskPlacement") or {}).get(task)
    return places.read(given) if given else ANYWHERE


def _shape_of(sizes: Mapping[str, object] | None, where: Places) -> PodShape:
    """A pod of this size, which takes one of a node's places for pods, too."""
    return places.shape({**vectors.readable(sizes or EMPTY), "pods": ONE_POD}, where)


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
class GroupBackOff:
    """A group that was let through and was not placed. count: how often so far. since, until: of the last time."""

    count: int
    since: datetime
    until: datetime

    @classmethod
    def parse(cls, body: Object) -> "GroupBackOff | None":
        """From a status; None for what nobody of ours wrote."""
        since, until = instant(body.get("since")), instant(body.get("until"))
        return cls(int(body.get("count") or 1), since, until) if since and until else None

    def render(self) -> Object:
        """For a status."""
        return {"count": self.count, "since": times.render(self.since), "until": times.render(self.until)}


@dataclass(frozen=True, slots=True)
class GroupGrant:
    """What a group was let through for. Its spec may ask for more since then: nobody has looked for room for that."""

    least: int
    minimum: Vector | None

    @classmethod
    def parse(cls, body: Object) -> "GroupGrant | None":
        """From a status; None for what nobody of ours wrote."""
        least, resources = body.get("minMember"), body.get("minResources")
        if not isinstance(least, int):
            return None
        return cls(least, None if resources is None else vectors.readable(resources))

    def of(self, least: int, minimum: Vector | None) -> tuple[int, Vector | None]:
        """The part of what is asked for now that was granted."""
        if minimum is None or self.minimum is None:
            return min(least, self.least), None
        known = self.minimum
        return min(least, self.least), {name: min(value, known.get(name, 0)) for name, value in minimum.items()}


@dataclass(frozen=True)
class Group:
    """One PodGroup. problem: what of it cannot be understood; it waits then, whatever there is room for.

    While it is Inqueue `least` and `minimum` are what it was let through for; grows: by now it asks for more pods.
    """

    body: Object
    ref: Ref
    queue: str
    least: int
    phase: str
    minimum: Vector | None
    members: tuple[Member, ...] = ()
    problem: str | None = None
    durations: Mapping[str, timedelta] = field(default_factory=dict)
    grows: bool = False

    @property
    def admitted(self) -> bool:
        """Whether it has been let through, and is not done."""
        return self.phase in (INQUEUE, RUNNING, UNKNOWN)

    @property
    def pods_first(self) -> bool:
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
    def missing(self) -> tuple[Member, ...]:
        """Of those the ones that make the gang whole: first those that nobody holds back, then the oldest."""
        number = max(0, self.least - self.placed)
        tasks = gang_tasks(self.body.get("spec") or {})
        able = [each for each in self.waiting if not each.gated or each.is_first(tasks)]
        return tuple(sorted(able, key=lambda each: each.gated)[:number])

    @property
    def incomplete(self) -> bool:
        """Whether pods of the gang are still to come: none that is held back goes alone."""
        return self.placed + len(self.missing) < self.least

    @cached_property
    def rest(self) -> tuple[Member, ...]:
        """The pods beyond those, which are still held back."""
        gang = {id(each) for each in self.missing}
        return tuple(each for each in self.waiting if each.gated and id(each) not in gang)

    @cached_property
    def allocated(self) -> Vector:
        """What its pods take of nodes now."""
        return vectors.total(each.requests for each in self.members if each.occupies)

    @cached_property
    def need(self) -> Vector:
        """What must be free before the gang is whole: what `minResources` says and its pods do not have already.

        Where pods of the gang exist that ask for more than that, so much.
        """
        covered = vectors.total(each.requests for each in self.members if each.placed)
        return vectors.most(
            vectors.minus(vectors.plain(self.minimum or EMPTY), covered),
            vectors.total(each.requests for each in self.missing),
        )

    @cached_property
    def reserve(self) -> Vector:
        """What is not free because this group will take it: nobody but a plain scheduler holds its pods back.

        Until an admitted gang is whole that is what it needs, and always what its pods ask for that were let go and
        have no node yet.
        """
        if self.phase == PENDING:
            return EMPTY
        free = vectors.total(each.requests for each in self._ungated)
        return vectors.most(self.need, free) if self.admitted and self.phase != RUNNING else free

    @cached_property
    def counted(self) -> Vector:
        """What a quota counts of its pods that are there, by the quota's names."""
        return vectors.total(each.counted for each in self.members)

    @cached_property
    def shapes(self) -> tuple[PodShape, ...] | None:
        """The pods that are missing for a whole gang, as nodes see them; None where only their sum is known."""
        there = tuple(each.shape for each in self.missing)
        unmade = max(0, self.least - self.placed) - len(there)
        if not unmade:
            return there
        made = (*(each for each in self.members if each.placed), *self.missing)
        found = unmade_shapes(self.body.get("spec") or {}, self.minimum, made, unmade)
        return None if found is None else (*there, *found)

    @cached_property
    def coming(self) -> tuple[PodShape, ...]:
        """Pods of an admitted group that will take room on nodes; of equal size where nobody knows better."""
        if self.phase == PENDING:
            return ()
        free = tuple(each.shape for each in self._ungated)
        if self.phase != INQUEUE or self.least <= self.placed + len(free):
            return free
        if self.shapes is not None:
            gated = tuple(each.shape for each in self.missing if each.gated)
            return (*free, *gated, *self.shapes[len(self.missing) :])
        return (*free, *equal_shapes(self.need, self.least - self.placed - len(free)))

    @property
    def _ungated(self) -> Iterator[Member]:
        return (each for each in self.waiting if not each.gated)

    @cached_property
    def back_off(self) -> GroupBackOff | None:
        """Its last back-out, None when there was none, or it has been whole since."""
        body = self.status.get("backOff")
        return GroupBackOff.parse(body) if body else None

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
    spec, status = body.get("spec") or {}, body.get("status") or {}
    durations, problem = _durations(body["metadata"].get("annotations") or {})
    minimum: Vector | None = None
    try:
        if spec.get("minResources") is not None:
            minimum = vectors.read(spec["minResources"])
            if below := sorted(name for name, value in minimum.items() if value < 0):
                problem = f"spec.minResources: {below[0]} is below 0"
    except ValueError as error:
        problem = f"spec.minResources: {error}"
    phase, asked = status.get("phase") or PENDING, int(spec.get("minMember") or 0)
    grant = GroupGrant.parse(status.get("admittedFor") or {}) if phase == INQUEUE else None
    least, minimum = grant.of(asked, minimum) if grant else (asked, minimum)
    return Group(
        body=body,
        ref=ref_of(POD_GROUP, body),
        queue=spec.get("queue") or DEFAULT_QUEUE,
        least=least,
        phase=phase,
        minimum=minimum,
        members=ordered(pods),
        problem=problem,
        durations=durations,
        grows=asked > least,
    )


def _durations(annotations: Mapping[str, str]) -> tuple[dict[str, timedelta], str | None]:
    found: dict[str, timedelta] = {}
    for name in (SLA, WAITING_LIMIT, PATIENCE):
        if name in annotations:
            try:
                found[name] = duration(annotations[name])
            except CronError as error:
                return found, f"metadata.annotations[{name}]: {error}"
    return found, None
