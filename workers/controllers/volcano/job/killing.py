"""Deletion of a job's pods, and after a full kill of the plugins' objects and the PodGroup; claims stay."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.api.kinds import POD, POD_GROUP, Object, ref_of
from workers.controllers.volcano.job import phases, plugins, transitions
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod
from workers.controllers.volcano.job.transitions import JobProgress
from workers.decision.plan import Delete, Discard, RecordEvent, Step, Together

#: Pods created or deleted by one plan.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Removal:
    """A deletion. victims: all pods to delete, even beyond one plan. steps: the deletions of this plan."""

    victims: tuple[ObservedPod, ...]
    steps: tuple[Step, ...]

    @property
    def blind(self) -> bool:
        """True if the steps delete Secrets, which are not observed."""
        return any(
            isinstance(each, Discard) for step in self.steps if isinstance(step, Together) for each in step.steps
        )

    @property
    def uids(self) -> frozenset[str]:
        """The uids of the victims."""
        return frozenset(pod.uid for pod in self.victims)


def removal(view: ObservedJob, progress: JobProgress, site: Site) -> Removal:
    """Returns the deletions that the job's phase, or `killing` in its status, still requires."""
    if progress.killing:
        victims = tuple(
            pod
            for pod in view.pods
            if not pod.leaving and any(transitions.is_target(one, pod) for one in progress.killing)
        )
        full = progress.is_full_kill
    else:
        victims = tuple(pod for pod in view.pods if not pod.leaving and not pod.ended)
        full = progress.phase not in phases.AT_WORK
    rest = tuple(_rest(view, site)) if full else ()
    return Removal(victims, (*deletion(victims), *rest))


def resources(view: ObservedJob) -> Mapping[str, str]:
    """Returns `status.controlledResources` with the plugins that may have created objects.

    In Restarting nothing but the status says that there may be Secrets.
    """
    known = view.memory.controlled_resources or {}
    return {**known, **plugins.resources(view.job)} if _may_have_secrets(view) else known


def is_plugin(resource: str) -> bool:
    """Returns True for an entry of `status.controlledResources` that belongs to a plugin."""
    return resource.startswith("plugin-")


def deletion(victims: Sequence[ObservedPod]) -> tuple[Step, ...]:
    """Returns the deletion of the pods, at most BATCH of them."""
    if not victims:
        return ()
    steps = tuple(Delete(ref_of(POD, pod.body), pod.uid) for pod in victims[:BATCH])
    return (Together(steps, otherwise=RecordEvent("Warning", "FailedDelete", "Error deleting pods: {error}")),)


def _rest(view: ObservedJob, site: Site) -> Iterator[Step]:
    """Yields the deletion of the plugins' objects and of the PodGroup.

    A refused deletion is tried again, except of the Secrets of a job that has ended or is aborted, which are deleted
    with the job: where a worker may not delete Secrets, no attempt succeeds.
    """
    otherwise = RecordEvent("Warning", "PluginError", "Error removing what plugins made: {error}")
    attached = plugins.removals(view.job, site, {ref: one for ref, one in view.attached.items() if one and _stays(one)})
    if seen := tuple(step for step in attached if isinstance(step, Delete)):
        yield Together(seen, otherwise=otherwise)
    groups = tuple(Delete(ref_of(POD_GROUP, group), group["metadata"]["uid"]) for group in view.groups if _stays(group))
    if groups:
        yield Together(
            groups, otherwise=RecordEvent("Warning", "PodGroupError", "Error deleting the PodGroup: {error}")
        )
    secrets = tuple(step for step in attached if isinstance(step, Discard))
    if secrets and _may_have_secrets(view):
        yield Together(secrets, otherwise=otherwise, vital=view.phase not in (*phases.FINAL, "Aborted"))


def _may_have_secrets(view: ObservedJob) -> bool:
    """Returns True if plugins may have created Secrets, which are not observed.

    The status says it. A job at work may have created some in a plan that was cut short before that status was written.
    """
    return view.phase in ("Pending", "Running") or any(map(is_plugin, view.memory.controlled_resources or ()))


def _stays(body: Object) -> bool:
    return not body["metadata"].get("deletionTimestamp")
