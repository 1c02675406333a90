"""apps/v1 StatefulSet: pods with numbers that are made in order, and replaced in the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api.kinds import CONTROLLER_REVISION, POD, STATEFUL_SET, Object
from workers.controllers import pod_stages
from workers.controllers.apps import history, ordinals, ownership, pods
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, ComeBack, PatchStatus, Plan, RecordEvent, Step, Together
from workers.reconcile.snapshot import Snapshot

#: A pod that goes at once when it is deleted sends no further news: look again.
LOOK_AGAIN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class _Set:
    """A StatefulSet at one moment. current, update: the revisions that it comes from and goes to."""

    body: Object
    pods: tuple[Object, ...]
    revisions: tuple[Object, ...]
    current: str
    update: str
    now: datetime

    @property
    def first(self) -> int:
        return int((self.body["spec"].get("ordinals") or {}).get("start") or 0)

    @property
    def replicas(self) -> int:
        return int(self.body["spec"].get("replicas", 1))

    @property
    def in_order(self) -> bool:
        """Whether each pod waits for the one before it."""
        return bool(self.body["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def rolls(self) -> bool:
        """Whether pods of an old revision are replaced without being asked to."""
        return bool((self.body["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def partition(self) -> int:
        """Pods below this number stay at the current revision."""
        rolling = (self.body["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return int(rolling.get("partition") or 0)

    @property
    def least(self) -> int:
        return int(self.body["spec"].get("minReadySeconds") or 0)

    def is_outdated(self, number: int, pod: Object) -> bool:
        """Whether the pod of this number has to be replaced by one of the update revision."""
        old = ordinals.revision_of(pod) != self.update
        return old and self.rolls and number >= self.first + self.partition and not pods.is_leaving(pod)

    def serves(self, pod: Object) -> bool:
        """Whether the pod is there to stay and has been ready for long enough."""
        return not pods.is_leaving(pod) and pods.is_available(pod, self.least, self.now)


@dataclass(frozen=True, slots=True)
class _Work:
    """Pods to make and to delete now."""

    made: tuple[Object, ...] = ()
    deleted: tuple[Object, ...] = ()


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """One step: adopt and release, else make or delete pods, and say what there is."""
    body = snapshot.body
    if body is None:
        return NOTHING
    claims = ownership.claims(snapshot, POD, mine=lambda pod: ordinals.ordinal_of(body, pod) is not None)
    # One after the other: each is fenced by the version of the set that was observed.
    if claims := claims or ownership.claims(snapshot, CONTROLLER_REVISION):
        return Plan((*claims, ComeBack(now)), "pods or revisions change hands")
    revisions = pods.existing(snapshot.children.get(CONTROLLER_REVISION.id, ()))
    past = history.of(body, revisions)
    status = body.get("status") or {}
    current = status.get("currentRevision") or past.update
    if history.template_of(current, revisions) is None:
        current = past.update
    mine = pods.existing(snapshot.children.get(POD.id, ()))
    run = _Set(body, mine, revisions, current, past.update, now)
    if pods.is_leaving(body):
        return Plan((PatchStatus(_status(run, _Work())),), "on its way out")
    if body["spec"].get("volumeClaimTemplates"):
        return _refusal(run)
    work = _work(run)
    live = {run.current, run.update, *map(ordinals.revision_of, mine)}
    forgotten = history.forgotten(revisions, live, body["spec"].get("revisionHistoryLimit"))
    steps: tuple[Step, ...] = (*past.steps, *pod_stages.create(work.made), *pod_stages.delete(work.deleted))
    if forgotten:
        steps = (*steps, Together(forgotten))
    return Plan((*steps, PatchStatus(_status(run, work)), *_back(run, work)), f"{run.replicas} wanted")


def _refusal(run: _Set) -> Plan:
    """Pods that wait for volumes which nobody provides are not made; that is said once for each change of the spec."""
    status = PatchStatus(_status(run, _Work()))
    if (run.body.get("status") or {}).get("observedGeneration") == run.body["metadata"].get("generation"):
        return Plan((status,), "needs volume claims")
    said = "volumeClaimTemplates: they are not carried out here; pods are not made"
    return Plan((RecordEvent("Warning", "FailedCreate", said), status), "needs volume claims")


# --- what is to be done


def _work(run: _Set) -> _Work:
    """The next pods to make or delete: one at a time in order, or all at once."""
    numbered = {number: pod for pod in run.pods if (number := ordinals.ordinal_of(run.body, pod)) is not None}
    wanted = range(run.first, run.first + run.replicas)
    made: list[Object] = []
    deleted: list[Object] = []
    for number in wanted:
        pod = numbered.get(number)
        if pod is None:
            made.append(_pod(run, number))
        elif pods.has_ended(pod) and not pods.is_leaving(pod):
            deleted.append(pod)
        elif run.serves(pod) or not run.in_order:
            continue
        elif run.is_outdated(number, pod):
            # It would keep those behind it waiting for ever, should its template be the fault.
            deleted.append(pod)
        if run.in_order:
            return _Work(tuple(made), tuple(deleted))
    surplus = sorted((number for number in numbered if number not in wanted), reverse=True)
    waits = _condemned(run, [numbered[number] for number in surplus], deleted)
    if made or deleted or waits:
        return _Work(tuple(made), tuple(deleted))
    return _Work(deleted=_outdated(run, [(number, numbered[number]) for number in reversed(wanted)]))


def _pod(run: _Set, number: int) -> Object:
    """The pod of this number; below the partition it is of the current revision."""
    kept = history.template_of(run.current, run.revisions)
    if number < run.first + run.partition and kept is not None:
        return ordinals.made(run.body, number, run.current, kept)
    return ordinals.made(run.body, number, run.update, run.body["spec"]["template"])


def _condemned(run: _Set, surplus: Sequence[Object], deleted: list[Object]) -> bool:
    """Note which pods above the wanted ones go now, the highest first; whether some are still there."""
    for pod in surplus:
        if not pods.is_leaving(pod):
            deleted.append(pod)
        if run.in_order:
            break
    return bool(surplus)


def _outdated(run: _Set, highest_first: Sequence[tuple[int, Object]]) -> tuple[Object, ...]:
    """The next pod to be replaced: each only when those above it serve."""
    for number, pod in highest_first:
        if run.is_outdated(number, pod):
            return (pod,)
        if not run.serves(pod):
            break
    return ()


def _back(run: _Set, work: _Work) -> tuple[Step, ...]:
    """When to look again: for pods that went at once, and for pods that become available."""
    if work.deleted:
        return (ComeBack(run.now + LOOK_AGAIN),)
    instants = [pods.available_at(pod, run.least) for pod in run.pods] if run.least else []
    waiting = [at for at in instants if at is not None and at > run.now]
    return (ComeBack(min(waiting)),) if waiting else ()


# --- the status


def _status(run: _Set, work: _Work) -> Object:
    """What there is once the plan is carried out."""
    gone = {pod["metadata"]["uid"] for pod in work.deleted}
    kept = [pod for pod in run.pods if not pods.is_leaving(pod) and pod["metadata"]["uid"] not in gone]
    there = [*kept, *work.made]
    ready = sum(map(pods.is_ready, kept))
    of_current = sum(ordinals.revision_of(pod) == run.current for pod in there)
    of_update = sum(ordinals.revision_of(pod) == run.update for pod in there)
    current = run.current
    whole = len(there) == run.replicas == ready == of_update
    if run.rolls and whole and current != run.update:
        current, of_current = run.update, of_update
    status: Object = {
        "observedGeneration": run.body["metadata"].get("generation", 0),
        "replicas": len(run.pods) + len(work.made),
        "readyReplicas": ready,
        "availableReplicas": sum(map(run.serves, kept)),
        "currentReplicas": of_current,
        "updatedReplicas": of_update,
        "currentRevision": current,
        "updateRevision": run.update,
        "collisionCount": (run.body.get("status") or {}).get("collisionCount"),
    }
    kept_zero = ("replicas", "availableReplicas", "collisionCount")
    return {name: value for name, value in status.items() if value or (value == 0 and name in kept_zero)}


CONTROLLER = Controller(
    kind=STATEFUL_SET, decide=decide, children=(POD, CONTROLLER_REVISION), adopts=(POD, CONTROLLER_REVISION)
)
