"""The observed view of a PodGroup: its demand, its pods, and the resources it still needs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice
from weakref import WeakValueDictionary

import orjson

from scheduler.cron.durations import duration
from scheduler.cron.errors import CronError
from workers.api import conditions, times
from workers.api.kinds import POD_GROUP, VC_JOB, Object, Ref, by_manifest, controller_of, ref_of
from workers.api.references import DEFAULT_QUEUE
from workers.api.volcano.job import LARGEST
from workers.controllers.volcano.podgroup import places, vectors
from workers.controllers.volcano.podgroup.members import ONE_POD, Member, ordered
from workers.controllers.volcano.podgroup.places import ANYWHERE, Places, PodShape
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


@dataclass(frozen=True, slots=True)
class GangRules:
    """The settings of gang admission.

    overcommit: times the nodes' resources that may be promised; 1 for a scheduler without gangs. patience: time for an
    admitted group to get its nodes. overtaking: time after which no group overtakes a waiting one. 0 is for ever.
    topology: node labels by tier, the nearest first. reclaim: gangs of queues above their share make room for others.
    """

    overcommit: Fraction = Fraction(1)
    patience: timedelta = timedelta(minutes=5)
    overtaking: timedelta = timedelta(minutes=10)
    topology: tuple[str, ...] = ()
    reclaim: bool = False


DEFAULT_RULES = GangRules()


def gang_tasks(spec: Object) -> Mapping[str, int]:
    """Returns the number of pods in the gang by task; they have the lowest indexes."""
    return spec.get("minTaskPods") or spec.get("minTaskMember") or {}


def unmade_shapes(
    spec: Object, minimum: Vector | None, made: Iterable[Member], number: int
) -> tuple[PodShape, ...] | None:
    """Returns the shapes of pods still to be created; None where the PodGroup does not tell."""
    counts = gang_tasks(spec)
    sizes = spec.get("minTaskResources") or {}
    least = int(spec.get("minMember") or 0)
    if sizes and sum(counts.values()) == least and counts.keys() <= sizes.keys():
        there = Counter(each.task for each in made)
        missing = {task: max(0, wanted - there[task]) for task, wanted in sorted(counts.items())}
        if sum(missing.values()) < number:
            return None
        shapes = ((_shape_of(sizes[task], _placement(spec, task)),) * each for task, each in missing.items() if each)
        return tuple(islice(chain.from_iterable(shapes), number))
    if minimum is None or len(counts) > 1:
        return None
    where = _placement(spec, next(iter(counts), ""))
    return equal_shapes(minimum, least, where)[:number]


def equal_shapes(whole: Vector, number: int, where: Places = ANYWHERE) -> tuple[PodShape, ...]:
    """Returns equal parts of the pods' total, rounded up."""
    return places.pieces(vectors.plain(whole), number, where)


def _placement(spec: Object, task: str) -> Places:
    given = (spec.get("minTaskPlacement") or {}).get(task)
    return places.read(given) if given else ANYWHERE


def _shape_of(sizes: Mapping[str, object] | None, where: Places) -> PodShape:
    """Returns the shape of a pod of this size, including one of a node's pods."""
    return places.shape({**vectors.readable(sizes or EMPTY), "pods": ONE_POD}, where)


#: Wait after the first back-out; it doubles each time.
FIRST_BACK_OFF = timedelta(seconds=10)
LONGEST_BACK_OFF = timedelta(minutes=10)

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
#: Condition of a group that waits, with the reason.
UNSCHEDULABLE = "Unschedulable"
#: Condition of a group that is, or was, whole.
SCHEDULED = "Scheduled"

#: Annotation (Volcano's): the wait after which no group overtakes this one.
SLA = "sla-waiting-time"
#: Annotation: the wait after which the group is given up.
WAITING_LIMIT = "penstock.dev/waiting-limit"
#: Annotation: time for an admitted group to get its nodes; ``0`` is for ever.
PATIENCE = "penstock.dev/gang-timeout"


@dataclass(frozen=True, slots=True)
class GroupBackOff:
    """The last back-out. count: how often in a row. until: the end of the wait. reclaimed: for another queue's gang."""

    count: int
    since: datetime
    until: datetime
    reclaimed: bool = False

    @classmethod
    def parse(cls, body: Object) -> "GroupBackOff | None":
        """Returns the back-off of a status; None for a malformed one."""
        since, until = times.instant(body.get("since")), times.instant(body.get("until"))
        if since is None or until is None:
            return None
        return cls(int(body.get("count") or 1), since, until, bool(body.get("reclaimed")))

    def render(self) -> Object:
        """Returns the back-off for a status."""
        found = {"count": self.count, "since": times.render(self.since), "until": times.render(self.until)}
        return {**found, "reclaimed": True} if self.reclaimed else found


@dataclass(frozen=True, slots=True)
class GroupGrant:
    """The demand that was admitted. The spec may ask for more since then; that part is not admitted."""

    least: int
    minimum: Vector | None

    @classmethod
    def parse(cls, body: Object) -> "GroupGrant | None":
        """Returns the grant of a status; None for a malformed one."""
        least, resources = body.get("minMember"), body.get("minResources")
        if not isinstance(least, int):
            return None
        return cls(least, None if resources is None else vectors.readable(resources))

    def of(self, least: int, minimum: Vector | None) -> tuple[int, Vector | None]:
        """Returns the admitted part of the present demand."""
        if minimum is None or self.minimum is None:
            return min(least, self.least), None
        known = self.minimum
        return min(least, self.least), {name: min(value, known.get(name, 0)) for name, value in minimum.items()}


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class GangDemand:
    """All that the checks of room and quotas read of a gang: gangs with the same object get the same answer.

    loose: the part of the need that counts already (`Group.loose`). runs: as `Group.runs`. short_of_pods: the message
    of a gang whose pods show its demand and do not exist yet.
    """

    queue: str
    namespace: str
    need: tuple[tuple[str, int], ...]
    quota: tuple[tuple[str, int], ...]
    loose: tuple[tuple[str, int], ...]
    runs: bool
    shaped_by: object
    short_of_pods: str | None


#: The fields of a PodGroup's spec that say which pods it has.
_SHAPING = ("minMember", "minTaskPods", "minTaskMember", "minTaskResources", "minTaskPlacement", "minResources")
#: One object for equal demands, as long as a group has it: a round compares them by identity.
_DEMANDS: WeakValueDictionary[tuple[object, ...], GangDemand] = WeakValueDictionary()


@dataclass(frozen=True)
class Group:
    """One PodGroup. problem: the malformed part of its spec; the group waits then.

    While it is Inqueue `least` and `minimum` are the admitted demand; grows: the spec asks for more pods by now.
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
        """True from admission to completion."""
        return self.phase in (INQUEUE, RUNNING, UNKNOWN)

    @property
    def pods_first(self) -> bool:
        """True if the group was created for existing pods; Volcano's Jobs create pods after admission."""
        return controller_of(self.body) is not None and not self.of_a_job

    @property
    def of_a_job(self) -> bool:
        """True if a Volcano Job owns the group."""
        owner = controller_of(self.body)
        return owner is not None and by_manifest(owner["apiVersion"], owner["kind"]) == VC_JOB

    @property
    def status(self) -> Object:
        """The observed status."""
        return self.body.get("status") or {}

    @cached_property
    def age(self) -> tuple[str, str]:
        """The sort key by creation."""
        metadata = self.body["metadata"]
        return metadata.get("creationTimestamp") or "", metadata.get("uid") or ""

    @cached_property
    def created(self) -> datetime | None:
        """The time of its creation; None before the API server has it."""
        return times.parse(self.age[0]) if self.age[0] else None

    @cached_property
    def priority_class(self) -> str:
        """The name of its PriorityClass; empty without one."""
        return (self.body.get("spec") or {}).get("priorityClassName") or ""

    @cached_property
    def leaving(self) -> bool:
        """True while it is being deleted."""
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @cached_property
    def waits_for(self) -> str | None:
        """The reason of the condition Unschedulable; None if it is not true."""
        found = conditions.find(self.body, UNSCHEDULABLE)
        return str(found.get("reason") or "") if found and found.get("status") == "True" else None

    @property
    def was_whole(self) -> bool:
        """True if the gang was whole before: its pods may have done work."""
        return conditions.holds(self.body, SCHEDULED)

    @cached_property
    def runs(self) -> bool:
        """True if it counts for `maxRunningJobs`: while it is admitted, and while pods of a gang that was whole run.

        Of gangs that never were whole none count before their admission: two of those would keep each other waiting.
        """
        return self.admitted or (self.was_whole and any(each.occupies for each in self.members))

    @cached_property
    def holds_nothing(self) -> bool:
        """True for a waiting group without pods: it takes no room, and none is kept for it."""
        return self.phase == PENDING and not self.members

    @cached_property
    def demand(self) -> GangDemand:
        """Its demand; groups with equal demands share one object."""
        quota = vectors.minus(self.minimum or EMPTY, self.usage)
        parts = (
            self.queue,
            self.ref.namespace,
            tuple(self.need.items()),
            tuple(quota.items()),
            tuple(self.loose.items()),
            self.runs,
            self._shaped_by,
            self._short_of_pods,
        )
        found = _DEMANDS.get(parts)
        if found is None:
            found = _DEMANDS[parts] = GangDemand(*parts)
        return found

    @property
    def _shaped_by(self) -> object:
        """The fields and pods that `shapes` follow from, without a shape for each pod: a gang may have a million."""
        spec = self.body.get("spec") or {}
        there = tuple((each.task, each.placed, each.gated, each.shape) for each in self.members)
        return there, orjson.dumps([spec.get(name) for name in _SHAPING], option=orjson.OPT_SORT_KEYS)

    @property
    def _short_of_pods(self) -> str | None:
        """The message of a gang without minResources until its pods exist: they show its demand.

        Gated pods exist before admission, and all of them are awaited: a part must not start alone.
        """
        there = self.placed + len(self.waiting)
        shown = self.minimum is None or self.pods_first
        shown = shown or any(each.gated and not each.of_a_job for each in self.members)
        return f"{there} of {self.least} pods are there" if shown and there < self.least else None

    @cached_property
    def placed(self) -> int:
        """The number of pods that have, or had, a node."""
        return sum(each.placed for each in self.members)

    @cached_property
    def waiting(self) -> tuple[Member, ...]:
        """The pods without a node, the oldest first."""
        return tuple(each for each in self.members if each.state == "waiting")

    @cached_property
    def missing(self) -> tuple[Member, ...]:
        """The waiting pods that make the gang whole: ungated pods first, then the oldest."""
        number = max(0, self.least - self.placed)
        tasks = gang_tasks(self.body.get("spec") or {})
        able = [each for each in self.waiting if not each.gated or each.is_first(tasks)]
        return tuple(sorted(able, key=lambda each: each.gated)[:number])

    @property
    def incomplete(self) -> bool:
        """True if pods of the gang do not exist yet: none of the gated pods starts before."""
        return self.placed + len(self.missing) < self.least

    @cached_property
    def rest(self) -> tuple[Member, ...]:
        """The gated pods beyond the gang."""
        gang = {id(each) for each in self.missing}
        return tuple(each for each in self.waiting if each.gated and id(each) not in gang)

    @cached_property
    def allocated(self) -> Vector:
        """The resources that its pods take of nodes."""
        return vectors.total(each.requests for each in self.members if each.occupies)

    @cached_property
    def need(self) -> Vector:
        """The room that the gang still needs: `minResources` without placed pods, or its pods' requests if larger."""
        covered = vectors.total(each.requests for each in self.members if each.placed)
        return vectors.most(
            vectors.minus(vectors.plain(self.minimum or EMPTY), covered),
            vectors.total(each.requests for each in self.missing),
        )

    @cached_property
    def reserve(self) -> Vector:
        """The room that is taken although no pod is there: the plain scheduler may bind its pods at any time.

        Until an admitted gang is whole that is its need, and always the requests of its ungated pods without a node.
        """
        if self.phase == PENDING:
            return EMPTY
        free = vectors.total(each.requests for each in self._ungated)
        return vectors.most(self.need, free) if self.admitted and self.phase != RUNNING else free

    @cached_property
    def loose(self) -> Vector:
        """The requests of pods that the plain scheduler may bind at any time although the gang is not admitted.

        A gang that was whole has some when its owner replaced lost pods before the gang waited again. Only its queues
        count them: of nodes the scheduler takes no more than there is. Of gangs that never were whole, whose ungated
        pods are a user's, none are counted: two of those would keep each other from starting.
        """
        if self.phase != PENDING or not self.was_whole:
            return EMPTY
        return vectors.total(each.requests for each in self._ungated)

    @cached_property
    def usage(self) -> Vector:
        """The amounts of its pods by the names of quotas, with those that ended: no pod is made in their place."""
        return vectors.total(each.usage for each in self.members)

    @cached_property
    def shapes(self) -> tuple[PodShape, ...] | None:
        """The shapes of the pods missing for a whole gang; None where only their sum is known."""
        there = tuple(each.shape for each in self.missing)
        unmade = max(0, self.least - self.placed) - len(there)
        if not unmade:
            return there
        made = (*(each for each in self.members if each.placed), *self.missing)
        found = unmade_shapes(self.body.get("spec") or {}, self.minimum, made, unmade)
        return None if found is None else (*there, *found)

    @cached_property
    def coming(self) -> tuple[PodShape, ...]:
        """The pods of an admitted group that will take room on nodes; equal parts where sizes are unknown."""
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
        """The last back-out, None without one since the gang was whole."""
        body = self.status.get("backOff")
        return GroupBackOff.parse(body) if body else None

    def next_back_off(self, now: datetime, *, reclaimed: bool = False) -> GroupBackOff:
        """Returns the back-off that begins now."""
        count = (self.back_off.count if self.back_off else 0) + 1
        until = now + min(FIRST_BACK_OFF * 2 ** min(count - 1, 20), LONGEST_BACK_OFF)
        return GroupBackOff(count, now, until, reclaimed)

    @property
    def is_clearing(self) -> bool:
        """True while pods of a reclaimed gang still have their nodes."""
        if self.phase != PENDING or self.back_off is None or not self.back_off.reclaimed:
            return False
        return any(each.occupies for each in self.members)

    @property
    def admitted_at(self) -> datetime | None:
        """The time of the last admission."""
        return times.instant(self.status.get("admitted"))

    def elapsed(self, annotation: str, now: datetime) -> bool:
        """Returns True if the duration of an annotation has passed since the group's creation."""
        span = self.durations.get(annotation)
        return span is not None and self.created is not None and now >= self.created + span


def observe(body: Object, pods: Iterable[Member]) -> Group:
    """Returns the PodGroup with its pods."""
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
    if asked > LARGEST:
        # Each missing pod has a shape in every round.
        problem = f"spec.minMember: {asked} pods are more than the {LARGEST} that a gang may have"
        asked = LARGEST
    grant = GroupGrant.parse(status.get("admittedFor") or {}) if phase == INQUEUE else None
    least, minimum = grant.of(asked, minimum) if grant else (asked, minimum)
    return Group(
        body=body,
        ref=ref_of(POD_GROUP, body),
        queue=spec.get("queue") or DEFAULT_QUEUE,
        least=least,
        phase=phase,
        minimum=None if minimum is None else vectors.named_fully(minimum),
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
                span = duration(annotations[name])
            except CronError as error:
                return found, f"metadata.annotations[{name}]: {error}"
            if span < timedelta():
                return found, f"metadata.annotations[{name}]: must not be below 0, {annotations[name]}"
            found[name] = span
    return found, None
