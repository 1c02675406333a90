"""apps/v1 StatefulSet: numbered pods, created in order and replaced in reverse order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api import conditions
from workers.api.kinds import CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, Object, Ref
from workers.api.references import REVISION_HASH
from workers.api.statuses import is_finished
from workers.controllers import adoption, pod_stages
from workers.controllers.apps import claim_templates, controller_revisions, pods
from workers.controllers.batch.job.pods import existing, is_deleting
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, ComeBack, PatchStatus, Plan, Step, Together
from workers.decision.snapshot import Snapshot

#: Labels of a pod: its name, its number.
NAME = "statefulset.kubernetes.io/pod-name"
INDEX = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class _Set:
    """A StatefulSet at one moment. current, update: the revisions before and after the rollout.

    claims: the observed volume claims of its pods; None for one that does not exist.
    """

    body: Object
    pods: tuple[Object, ...]
    revisions: tuple[Object, ...]
    current: str
    update: str
    now: datetime
    claims: Mapping[Ref, Object | None]

    @property
    def wanted(self) -> range:
        """The numbers of the pods that the set is to have."""
        return range(self.first, self.first + self.replicas)

    @property
    def numbered(self) -> dict[int, Object]:
        """Its pods by their numbers."""
        return {number: pod for pod in self.pods if (number := ordinal_of(self.body, pod)) is not None}

    @property
    def first(self) -> int:
        return int((self.body["spec"].get("ordinals") or {}).get("start") or 0)

    @property
    def replicas(self) -> int:
        return int(self.body["spec"].get("replicas", 1))

    @property
    def in_order(self) -> bool:
        """True if each pod waits for the one before it."""
        return bool(self.body["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def rolls(self) -> bool:
        """True for the RollingUpdate strategy."""
        return bool((self.body["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def partition(self) -> int:
        """Pods with lower numbers keep the current revision."""
        rolling = (self.body["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return int(rolling.get("partition") or 0)

    @property
    def least(self) -> int:
        return int(self.body["spec"].get("minReadySeconds") or 0)

    def is_outdated(self, number: int, pod: Object) -> bool:
        """True if the pod of this number has to be replaced by one of the update revision."""
        old = revision_of(pod) != self.update
        return old and self.rolls and number >= self.first + self.partition and not is_deleting(pod)

    def is_available(self, pod: Object) -> bool:
        """True if the pod is available and not being deleted."""
        return not is_deleting(pod) and pods.is_available(pod, self.least, self.now)


@dataclass(frozen=True, slots=True)
class _Work:
    """Pods to create and to delete now. blocked: a pod waits until the claims of the one before it are gone."""

    made: tuple[Object, ...] = ()
    deleted: tuple[Object, ...] = ()
    blocked: bool = False


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Adopts and releases; else creates or deletes the next pods and reports the counts."""
    body = snapshot.body
    if body is None:
        return NOTHING
    claims = adoption.claim(snapshot, POD, mine=lambda pod: ordinal_of(body, pod) is not None)
    # Pods before revisions: both are fenced by the same observed version of the set.
    if claims := claims or controller_revisions.claim(snapshot):
        return Plan((*claims, ComeBack(now)), "pods or revisions are adopted or released")
    revisions = existing(snapshot.children.get(CONTROLLER_REVISION.id, ()))
    past = controller_revisions.of(body, revisions)
    status = body.get("status") or {}
    current = status.get("currentRevision") or past.update
    if controller_revisions.template_of(current, revisions) is None:
        current = past.update
    mine = existing(snapshot.children.get(POD.id, ()))
    run = _Set(body, mine, revisions, current, past.update, now, snapshot.relatives)
    if is_deleting(body):
        return Plan((PatchStatus(_status(run, _Work())),), "being deleted")
    work = _work(run)
    live = {run.current, run.update, *map(revision_of, mine)}
    obsolete = controller_revisions.delete_oldest(revisions, live, body["spec"].get("revisionHistoryLimit"))
    # Claims before pods: a new pod mounts its claim, and the claim of a deleted one may be told to go with it.
    numbers = [number for pod in work.made if (number := ordinal_of(body, pod)) is not None]
    claims_first = (
        *claim_templates.own(body, run.wanted, run.claims, run.numbered),
        *claim_templates.create(body, numbers),
    )
    stages = (*pod_stages.create(work.made), *pod_stages.delete(work.deleted))
    steps: tuple[Step, ...] = (*past.steps, *claims_first, *stages)
    if obsolete:
        steps = (*steps, Together(obsolete))
    return Plan((*steps, PatchStatus(_status(run, work)), *_requeue(run, work)), f"{run.replicas} wanted")


# --- creations and deletions


def _work(run: _Set) -> _Work:
    """Returns the next pods to create or delete: one at a time in order, or all at once."""
    numbered, wanted = run.numbered, run.wanted
    made: list[Object] = []
    deleted: list[Object] = []
    blocked = False
    for number in wanted:
        pod = numbered.get(number)
        if pod is None and claim_templates.are_stale(run.body, number, run.claims, numbered):
            blocked = True
        elif pod is None:
            made.append(_pod(run, number))
        elif is_finished(pod) and not is_deleting(pod):
            deleted.append(pod)
        elif run.is_available(pod) or not run.in_order:
            continue
        elif run.is_outdated(number, pod):
            # A pod whose old template is broken would block the pods behind it for ever.
            deleted.append(pod)
        if run.in_order:
            return _Work(tuple(made), tuple(deleted), blocked)
    surplus = sorted((number for number in numbered if number not in wanted), reverse=True)
    waits = _delete_surplus(run, [numbered[number] for number in surplus], deleted)
    if made or deleted or waits or blocked:
        return _Work(tuple(made), tuple(deleted), blocked)
    return _Work(deleted=_outdated(run, [(number, numbered[number]) for number in reversed(wanted)]))


def _pod(run: _Set, number: int) -> Object:
    """Builds the pod of this number; below the partition of the current revision."""
    kept = controller_revisions.template_of(run.current, run.revisions)
    if number < run.first + run.partition and kept is not None:
        return numbered_pod(run.body, number, run.current, kept)
    return numbered_pod(run.body, number, run.update, run.body["spec"]["template"])


def _delete_surplus(run: _Set, surplus: Sequence[Object], deleted: list[Object]) -> bool:
    """Adds the next surplus pods to `deleted`, the highest first; returns True if surplus pods exist."""
    for pod in surplus:
        if not is_deleting(pod):
            deleted.append(pod)
        if run.in_order:
            break
    return bool(surplus)


def _outdated(run: _Set, highest_first: Sequence[tuple[int, Object]]) -> tuple[Object, ...]:
    """Returns the next pod to replace: only once those above it are available."""
    for number, pod in highest_first:
        if run.is_outdated(number, pod):
            return (pod,)
        if not run.is_available(pod):
            break
    return ()


def _requeue(run: _Set, work: _Work) -> tuple[Step, ...]:
    """Comes back for deleted pods and claims, and for pods that become available."""
    if work.deleted or work.blocked:
        return (ComeBack(run.now + pod_stages.RECHECK),)
    instants = [pods.available_at(pod, run.least) for pod in run.pods] if run.least else []
    waiting = [at for at in instants if at is not None and at > run.now]
    return (ComeBack(min(waiting)),) if waiting else ()


# --- the status


def _status(run: _Set, work: _Work) -> Object:
    """Returns the status once the plan is carried out."""
    gone = {pod["metadata"]["uid"] for pod in work.deleted}
    kept = [pod for pod in run.pods if not is_deleting(pod) and pod["metadata"]["uid"] not in gone]
    existing_after = [*kept, *work.made]
    ready = sum(conditions.holds(pod, "Ready") for pod in kept)
    of_current = sum(revision_of(pod) == run.current for pod in existing_after)
    of_update = sum(revision_of(pod) == run.update for pod in existing_after)
    current = run.current
    whole = len(existing_after) == run.replicas == ready == of_update
    if run.rolls and whole and current != run.update:
        current, of_current = run.update, of_update
    status: Object = {
        "observedGeneration": run.body["metadata"].get("generation", 0),
        "replicas": len(run.pods) + len(work.made),
        "readyReplicas": ready,
        "availableReplicas": sum(map(run.is_available, kept)),
        "currentReplicas": of_current,
        "updatedReplicas": of_update,
        "currentRevision": current,
        "updateRevision": run.update,
        "collisionCount": (run.body.get("status") or {}).get("collisionCount"),
    }
    kept_zero = ("replicas", "availableReplicas", "collisionCount")
    return {name: value for name, value in status.items() if value or (value == 0 and name in kept_zero)}


# --- numbered pods


def ordinal_of(owner: Object, pod: Object) -> int | None:
    """Returns the number in the pod's name; None if the name is not of this owner."""
    stem, _, digits = pod["metadata"]["name"].rpartition("-")
    if stem != owner["metadata"]["name"] or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits) if digits == str(int(digits)) else None


def revision_of(pod: Object) -> str:
    """Returns the revision of the pod."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION_HASH, ""))


def numbered_pod(owner: Object, ordinal: int, revision: str, template: Object) -> Object:
    """Builds the pod of this number from the template of this revision."""
    name = f"{owner['metadata']['name']}-{ordinal}"
    body = pods.build(STATEFUL_SET, {**owner, "spec": {**owner["spec"], "template": template}}, name)
    labels = {**body["metadata"]["labels"], REVISION_HASH: revision, NAME: name, INDEX: str(ordinal)}
    spec = {**claim_templates.mounted(owner, body["spec"], ordinal), "hostname": name}
    if service := owner["spec"].get("serviceName"):
        spec["subdomain"] = service
    return {**body, "metadata": {**body["metadata"], "labels": labels}, "spec": spec}


CONTROLLER = Controller(
    kind=STATEFUL_SET,
    decide=decide,
    children=(POD, CONTROLLER_REVISION),
    adopts=(POD, CONTROLLER_REVISION),
    optional_relatives=claim_templates.refs,
    follows=(PERSISTENT_VOLUME_CLAIM,),
)
