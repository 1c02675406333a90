"""Taking a job's pods away, and at a full kill everything that was made for them but their volumes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workers.api.kinds import POD, POD_GROUP, Object, ref_of
from workers.controllers.volcano.job import phases, plugins, transitions
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod
from workers.controllers.volcano.job.transitions import JobProgress
from workers.reconcile.plan import Delete, Discard, RecordEvent, Step, Together

#: Pods created or deleted by one plan.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to go. victims: pods, whether or not one plan is enough for all. steps: how they and the rest go."""

    victims: tuple[ObservedPod, ...]
    steps: tuple[Step, ...]

    @property
    def blind(self) -> bool:
        """Whether something goes of which nobody can see afterwards that it is gone."""
        return any(
            isinstance(each, Discard) for step in self.steps if isinstance(step, Together) for each in step.steps
        )

    @property
    def uids(self) -> frozenset[str]:
        """Of the pods."""
        return frozenset(pod.uid for pod in self.victims)


def removal(view: ObservedJob, progress: JobProgress, site: Site) -> Removal:
    """What is left to take away, by the job's phase or by what its status says is to be killed."""
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


def is_plugin(resource: str) -> bool:
    """Whether this name among `status.controlledResources` tells of a plugin."""
    return resource.startswith("plugin-")


def deletion(victims: Sequence[ObservedPod]) -> tuple[Step, ...]:
    """Delete pods, as many as one plan may."""
    if not victims:
        return ()
    steps = tuple(Delete(ref_of(POD, pod.body), pod.uid) for pod in victims[:BATCH])
    return (Together(steps, otherwise=RecordEvent("Warning", "FailedDelete", "Error deleting pods: {error}")),)


def _rest(view: ObservedJob, site: Site) -> Iterator[Step]:
    """What plugins made, and the PodGroup."""
    attached = tuple(_attached(view, site))
    if attached:
        yield Together(
            attached, otherwise=RecordEvent("Warning", "PluginError", "Error removing what plugins made: {error}")
        )
    groups = tuple(Delete(ref_of(POD_GROUP, group), group["metadata"]["uid"]) for group in _staying(view.groups))
    if groups:
        yield Together(
            groups, otherwise=RecordEvent("Warning", "PodGroupError", "Error deleting the PodGroup: {error}")
        )


def _attached(view: ObservedJob, site: Site) -> Iterator[Delete | Discard]:
    """Secrets are not observed: the status says whether plugins have made anything.

    A job at work may have made some in a plan that was cut short before it said so.
    """
    made = view.phase in ("Pending", "Running") or any(map(is_plugin, view.memory.controlled_resources or ()))
    seen = {ref: one for ref, one in view.attached.items() if one is not None and _stays(one)}
    for step in plugins.removals(view.job, site, seen):
        if isinstance(step, Delete) or made:
            yield step


def _staying(bodies: Iterable[Object]) -> Iterator[Object]:
    return (body for body in bodies if _stays(body))


def _stays(body: Object) -> bool:
    return not body["metadata"].get("deletionTimestamp")
