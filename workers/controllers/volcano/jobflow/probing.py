"""Whether the probes of an entry succeed. Unknown is not ready: without an answer nothing starts."""

from collections.abc import Iterator, Mapping, Sequence

from workers.api.kinds import Object
from workers.api.volcano import jobflow
from workers.api.volcano.jobflow import FlowProbe, TaskPhase
from workers.controllers.volcano.jobflow.observed import ObservedFlow
from workers.controllers.volcano.jobflow.tracks import Track
from workers.reconcile.snapshot import Reading, TriggerSample


def answers(probe: FlowProbe, jobs: Sequence[Object], reading: Reading | None) -> bool:
    """Whether everything holds that a probe asks of the Jobs of one target.

    A target without any of the probe's tasks is not asked: it has to complete.
    """
    verdicts = [holds for _, holds in _all(probe, jobs, reading)]
    return bool(verdicts) and all(verdicts)


def unmet(probe: FlowProbe, jobs: Sequence[Object], reading: Reading | None) -> list[str]:
    """What a probe asks of the Jobs of one target and does not hold, for people."""
    return [name for name, holds in _all(probe, jobs, reading) if not holds]


def questions(sight: ObservedFlow, known: Mapping[str, Track]) -> Iterator[str]:
    """The samples that entries wait for. known: how far each node is."""
    for entry in sight.graph.probing:
        if entry.probe is None or all(known[node.id].phase for node in sight.members[entry.name]):
            continue
        targets = (node for target in entry.targets for node in sight.members[target])
        for job in filter(None, (sight.live(known[node.id]) for node in targets)):
            tasks = {task.get("name") for task in job["spec"].get("tasks") or ()}
            asked = (each for each in entry.probe.asked if each.task_name in tasks)
            yield from (jobflow.probed(each, job["metadata"]["name"]) for each in asked)


def _all(probe: FlowProbe, jobs: Sequence[Object], reading: Reading | None) -> Iterator[tuple[str, bool]]:
    samples = {sample.name: sample for sample in reading.samples} if reading else {}
    for job in jobs:
        yield from _verdicts(probe, job, samples)


def _verdicts(probe: FlowProbe, job: Object, samples: Mapping[str, TriggerSample]) -> Iterator[tuple[str, bool]]:
    """What is asked of a Job, and whether it holds."""
    tasks = {task.get("name"): task for task in job["spec"].get("tasks") or ()}
    for asked in probe.asked:
        if asked.task_name in tasks:
            name = jobflow.probed(asked, job["metadata"]["name"])
            sample = samples.get(name)
            yield name, sample is not None and sample.error is None and sample.active
    for wanted in probe.task_status_list:
        if wanted.task_name in tasks:
            name = f"task {wanted.task_name} of {job['metadata']['name']} to be {wanted.phase}"
            yield name, _has_come_to(wanted, tasks[wanted.task_name], job)


def _has_come_to(wanted: TaskPhase, task: Object, job: Object) -> bool:
    """Whether so many pods of the task are in the phase as its gang has."""
    counted = ((job.get("status") or {}).get("taskStatusCount") or {}).get(wanted.task_name) or {}
    needed = task.get("minAvailable")
    needed = task.get("replicas") or 0 if needed is None else needed
    return bool(((counted.get("phase") or {}).get(wanted.phase) or 0) >= max(1, needed))
