"""A job's pods in numbers, as they will be once the plan at hand is carried out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.volcano.job.observed import ObservedPod
from workers.controllers.volcano.job.phases import JobPodCounts

#: A pod that is to be made: its task and its index.
Place = tuple[str, int]

_SUCCEEDED = "Succeeded"


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """counts: of all pods. tasks: by task and phase, the pods that stay. present: by task, what the status remembers.

    Pods that ended and stay are counted, of whatever version they are.
    """

    counts: JobPodCounts
    tasks: Mapping[str, Mapping[str, int]]
    present: Mapping[str, str]


def tally(
    pods: Iterable[ObservedPod],
    version: int,
    *,
    victims: Set[str] = frozenset(),
    made: Iterable[Place] = (),
    lost: int = 0,
) -> TaskCounts:
    """Count the pods.

    version: of the job. victims: uids of pods that are about to go. made: pods about to be made. lost: pods that never
    are.
    """
    tasks: dict[str, Counter[str]] = {}
    present: dict[str, list[int]] = {}
    terminating = 0
    for pod in pods:
        if pod.leaving or pod.uid in victims:
            terminating += 1
            continue
        tasks.setdefault(pod.task, Counter())[pod.phase] += 1
        if pod.version >= version and pod.index is not None:
            present.setdefault(pod.task, []).append(pod.index)
    for task, index in made:
        tasks.setdefault(task, Counter())["Pending"] += 1
        present.setdefault(task, []).append(index)
    total: Counter[str] = sum(tasks.values(), Counter())
    counts = JobPodCounts(
        pending=total["Pending"],
        running=total["Running"],
        succeeded=total[_SUCCEEDED],
        failed=total["Failed"],
        terminating=terminating,
        unknown=total["Unknown"],
        lost=lost,
        succeeded_of={name: phases[_SUCCEEDED] for name, phases in tasks.items()},
    )
    return TaskCounts(
        counts,
        {name: dict(sorted(phases.items())) for name, phases in sorted(tasks.items())},
        {name: Indexes.of(indexes).text for name, indexes in sorted(present.items())},
    )
