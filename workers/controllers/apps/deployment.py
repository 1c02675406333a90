"""apps/v1 Deployment: rolls pods from one template to the next by sizing ReplicaSets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api.kinds import DEPLOYMENT, REPLICA_SET, Object, ref_of
from workers.controllers import adoption
from workers.controllers.apps import deployment_status, revisions, rolling
from workers.controllers.apps.revisions import Sets, counted, name_of, size
from workers.controllers.apps.rolling import Part, RolloutLimits
from workers.controllers.batch.job.pods import existing, is_deleting
from workers.decision.controller import Controller
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    Create,
    Delete,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _Rollout:
    """A Deployment with its ReplicaSets at one moment."""

    snapshot: Snapshot
    deployment: Object
    sets: Sets
    limits: RolloutLimits
    now: datetime

    @property
    def wanted(self) -> int:
        return size(self.deployment)

    @property
    def most(self) -> int:
        """The largest number of pods at once."""
        return self.wanted + self.limits.surge

    @property
    def recreates(self) -> bool:
        """True if all old pods end before the first new one is created."""
        return (self.deployment["spec"].get("strategy") or {}).get("type") == "Recreate"

    @property
    def conditions(self) -> Sequence[Object]:
        return (self.deployment.get("status") or {}).get("conditions") or ()


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Returns the next step of the rollout, and the status."""
    deployment = snapshot.body
    if deployment is None:
        return NOTHING
    if steps := adoption.claim(snapshot, REPLICA_SET):
        return Plan((*steps, ComeBack(now)), "ReplicaSets are adopted or released")
    sets = Sets.of(deployment, existing(snapshot.children.get(REPLICA_SET.id, ())))
    run = _Rollout(snapshot, deployment, sets, _limits(deployment), now)
    if is_deleting(deployment):
        return Plan((PatchStatus(_status(run, run.conditions)),), "being deleted")
    observed = deployment_status.pausing(deployment, run.conditions, now)
    if renewed := _numbered(run):
        return _plan(run, (*renewed, ComeBack(now)), _found(run, observed), "the ReplicaSet of its template is found")
    if deployment["spec"].get("paused"):
        return _plan(run, _sized(run, _shares(run)) or _cleaned(run), observed, "paused")
    if not run.recreates and _is_scaled(run):
        return _plan(run, _sized(run, _shares(run)), observed, "the sets share what was added or taken away")
    return _rolled(run, observed)


def _limits(deployment: Object) -> RolloutLimits:
    replicas, strategy = size(deployment), deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate" or replicas == 0:
        return RolloutLimits(0, 0)
    rolling_update = strategy.get("rollingUpdate") or {}
    return RolloutLimits.of(
        replicas, rolling_update.get("maxSurge", "25%"), rolling_update.get("maxUnavailable", "25%")
    )


def _rolled(run: _Rollout, observed: Sequence[Object]) -> Plan:
    """Returns the next step of the rollout to the current template."""
    recreate = run.recreates
    if recreate and (steps := _sized(run, {name_of(body): 0 for body in run.sets.old})):
        return _finish(run, steps, observed, "the old pods go first")
    if recreate and not all(map(_is_empty, run.sets.old)):
        return _finish(run, (), observed, "waits for the old pods to end")
    total = sum(map(size, run.sets.all))
    new = run.sets.new
    goal = run.wanted if recreate else rolling.new_size(run.wanted, run.limits, size(new) if new else 0, total)
    if new is None and revisions.collides(
        run.deployment, run.snapshot.relatives.get(revisions.next_ref(run.deployment))
    ):
        return _renamed(run, observed)
    if new is None:
        made = revisions.replica_set(run.deployment, goal, run.most, run.sets.next_revision)
        begun = observed
        if deployment_status.deadline_of(run.deployment) is not None:
            begun = deployment_status.started(observed, deployment_status.CREATED, name_of(made), run.now)
        return _plan(run, (*_created(made), ComeBack(run.now)), begun, "a new template")
    if steps := _sized(run, {name_of(new): goal}):
        return _finish(run, steps, observed, f"the new pods become {goal}")
    if not recreate and (steps := _sized(run, _old_sizes(run, new))):
        return _finish(run, steps, observed, "the old pods become fewer")
    return _finish(run, _cleaned(run), observed, "as wanted")


def _renamed(run: _Rollout, observed: Sequence[Object]) -> Plan:
    """Counts the collision, which gives the ReplicaSet another name; it is created when the count is stored."""
    status = _status(run, observed)
    again = {**status, "collisionCount": counted(run.deployment, "collisionCount") + 1}
    return Plan((PatchStatus(again), ComeBack(run.now)), "another ReplicaSet has the name of the new one")


def _old_sizes(run: _Rollout, new: Object) -> Mapping[str, int]:
    old = [Part(size(body), counted(body, "availableReplicas")) for body in run.sets.old]
    current = Part(size(new), counted(new, "availableReplicas"))
    sizes = rolling.old_sizes(run.wanted, run.limits, current, old)
    return {name_of(body): goal for body, goal in zip(run.sets.old, sizes, strict=True)}


def _is_empty(body: Object) -> bool:
    """True if the set is observed to have no pods, terminating ones included."""
    status, metadata = body.get("status") or {}, body["metadata"]
    known = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return known and not any(counted(body, field) for field in ("replicas", "terminatingReplicas"))


# --- the sizes


def _is_scaled(run: _Rollout) -> bool:
    """True if spec.replicas was changed since the sets with pods were sized."""
    desired = (revisions.annotations_of(body).get(revisions.DESIRED) for body in run.sets.all if size(body) > 0)
    return any(number is not None and number != str(run.wanted) for number in desired)


def _shares(run: _Rollout) -> Mapping[str, int]:
    """Returns the sizes after the Deployment was scaled: a single set with pods gets all, several share."""
    active = [body for body in run.sets.all if size(body) > 0]
    new = run.sets.new
    only = active[0] if len(active) == 1 else None
    if not active:
        # Without pods the newest set grows.
        only = new or (run.sets.old[-1] if run.sets.old else None)
    if only is not None:
        return {name_of(only): run.wanted}
    if new is not None and _is_saturated(run, new):
        return {name_of(body): 0 for body in active if body is not new} | {name_of(new): run.wanted}
    if run.recreates:
        return {}
    active.reverse()
    most = [_most_of(body) for body in active]
    goal = run.most if run.wanted else 0
    sizes = rolling.share([size(body) for body in active], most, goal)
    return {name_of(body): each for body, each in zip(active, sizes, strict=True)}


def _is_saturated(run: _Rollout, new: Object) -> bool:
    """True if the current set alone has all wanted pods available."""
    desired = revisions.annotations_of(new).get(revisions.DESIRED)
    whole = size(new) == run.wanted and counted(new, "availableReplicas") == run.wanted
    return whole and desired == str(run.wanted)


def _most_of(body: Object) -> int | None:
    text = revisions.annotations_of(body).get(revisions.MOST, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _sized(run: _Rollout, goals: Mapping[str, int]) -> tuple[Step, ...]:
    """Patches these sets to these sizes and annotates what they follow from; no step if nothing differs.

    The key comes back at once: a patch of annotations alone causes no event that enqueues it.
    """
    steps = [step for body in run.sets.all if name_of(body) in goals for step in _size(run, body, goals)]
    return (*steps, ComeBack(run.now)) if steps else ()


def _size(run: _Rollout, body: Object, goals: Mapping[str, int]) -> Iterator[Step]:
    name, before = name_of(body), size(body)
    goal = goals[name]
    annotations = revisions.sizes(run.wanted, run.most)
    known = revisions.annotations_of(body)
    stale = goal > 0 and any(known.get(key) != value for key, value in annotations.items())
    if goal == before and not stale:
        return
    change = {"metadata": {"annotations": annotations}, "spec": {"replicas": goal}}
    yield Patch(ref_of(REPLICA_SET, body), change, body["metadata"]["resourceVersion"])
    if goal != before:
        which = "up" if goal > before else "down"
        yield RecordEvent("Normal", "ScalingReplicaSet", f"Scaled {which} replica set {name} from {before} to {goal}")


def _created(made: Object) -> Iterator[Step]:
    name, goal = name_of(made), size(made)
    scaled = RecordEvent("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {goal}")
    # A stage, whose Event tells only of what this plan creates: an earlier one may have created the set.
    yield Together((Create(REPLICA_SET, made),), then=scaled if goal else None)


# --- revisions


def _numbered(run: _Rollout) -> tuple[Step, ...]:
    """Gives the current set the highest revision number, and the Deployment the same."""
    new = run.sets.new
    if new is None:
        return ()
    revision = max(run.sets.next_revision, revisions.revision_of(new))
    steps: list[Step] = []
    if change := revisions.renewed(run.deployment, new, revision):
        steps.append(Patch(ref_of(REPLICA_SET, new), change, new["metadata"]["resourceVersion"]))
    if revisions.annotations_of(run.deployment).get(revisions.REVISION) != str(revision):
        change = {"metadata": {"annotations": {revisions.REVISION: str(revision)}}}
        steps.append(Patch(run.snapshot.ref, change, run.deployment["metadata"]["resourceVersion"]))
    return tuple(steps)


def _found(run: _Rollout, observed: Sequence[Object]) -> Sequence[Object]:
    """Starts the Progressing condition for a set that exists before the Deployment has the condition."""
    reported = any(one.get("type") == "Progressing" for one in observed)
    if reported or run.sets.new is None or deployment_status.deadline_of(run.deployment) is None:
        return observed
    return deployment_status.started(observed, deployment_status.FOUND, name_of(run.sets.new), run.now)


def _cleaned(run: _Rollout) -> tuple[Step, ...]:
    """Deletes the oldest ReplicaSets above revisionHistoryLimit, once the rollout is complete or paused."""
    limit = run.deployment["spec"].get("revisionHistoryLimit")
    done = run.deployment["spec"].get("paused") or deployment_status.is_complete(
        run.deployment, deployment_status.counts(run.deployment, run.sets)
    )
    if limit is None or not done:
        return ()
    old = sorted((body for body in run.sets.old if not is_deleting(body)), key=revisions.revision_of)
    extra = old[: max(0, len(old) - limit)]
    steps = tuple(_deletion(body) for body in extra if size(body) == 0 and _is_empty(body))
    return (Together(steps),) if steps else ()


def _deletion(body: Object) -> Delete:
    metadata = body["metadata"]
    return Delete(ref_of(REPLICA_SET, body), metadata["uid"], resource_version=metadata["resourceVersion"])


# --- the status


def _finish(run: _Rollout, steps: Iterable[Step], observed: Sequence[Object], why: str) -> Plan:
    """Returns a plan with the progress of the rollout in its status."""
    numbers = deployment_status.counts(run.deployment, run.sets)
    return _plan(run, steps, deployment_status.rollout(run.deployment, observed, run.sets, numbers, run.now), why)


def _plan(run: _Rollout, steps: Iterable[Step], observed: Sequence[Object], why: str) -> Plan:
    status = PatchStatus(_status(run, observed))
    at = deployment_status.requeue_at(run.deployment, status.status.get("conditions") or ())
    back = (ComeBack(at),) if at else ()
    return Plan((*steps, status, *back), f"{run.wanted} wanted, {why}")


def _status(run: _Rollout, observed: Sequence[Object]) -> Object:
    numbers = deployment_status.counts(run.deployment, run.sets)
    least = run.wanted - run.limits.unavailable
    conditions = deployment_status.availability(observed, numbers.get("availableReplicas", 0), least, run.now)
    return {**numbers, "conditions": conditions}


CONTROLLER = Controller(
    kind=DEPLOYMENT,
    decide=decide,
    children=(REPLICA_SET,),
    adopts=(REPLICA_SET,),
    optional_relatives=lambda body: (revisions.next_ref(body),),
)
