"""Counts of an object's Jobs, as of now and relative to the reading that the decision acts on.

Relative counts make creation exact. A reading counts work that was waiting at some instant after it began: work taken
from the source before it began is not in it, work taken later may be. So a Job that ended or vanished after the reading
began may have taken an event that the reading still counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workers.api import conditions
from workers.api.kinds import Object
from workers.controllers.keda.scaledjob import names
from workers.decision.plan import Figure
from workers.decision.snapshot import CachedObject, Reading

#: The label by which KEDA finds a Job's pods.
JOB_NAME = "job-name"


@dataclass(frozen=True, slots=True)
class JobCounts:
    """running: Jobs that have not finished. pending: those of them without a working pod (KEDA's definition).

    late: Jobs that ended since the reading began. made: Jobs that this reading made; each of them counts in `running`
    or in `late` too. unstarted: Jobs whose start the reading cannot have seen: pending ones, those that changed since
    it began, and the late ones. failed, completed: those of the late ones that did so; the others vanished. brief:
    those of the late ones that did not fail, and ended within a polling interval of the poll that made them.
    """

    running: int
    pending: int
    late: int
    made: int
    unstarted: int
    failed: int = 0
    completed: int = 0
    brief: int = 0

    @property
    def in_minimum(self) -> int:
        """Jobs that have room in the minimum: failed and brief ones keep it until the next reading."""
        return self.running + min(self.late, self.failed + self.brief)

    def minimum_figure(self) -> Figure:
        """Returns the arithmetic of `in_minimum`."""
        how = f"{self.running} + min({self.late}, {self.failed} + {self.brief})"
        return Figure("Jobs that have room in the minimum", self.in_minimum, how)


def count(
    jobs: Iterable[CachedObject],
    pods: Sequence[CachedObject],
    conditions_: Sequence[str],
    reading: Reading,
    owner: str,
    interval: float,
) -> JobCounts:
    """Returns the counts of these Jobs, tombstones included.

    conditions_: the strategy's `pendingPodConditions`. owner: the object's name. interval: seconds between two polls.
    """
    by_job, own = _by_job(pods), names.of(owner, reading.id)
    running = pending = late = made = unstarted = failed = completed = brief = 0
    for entry in jobs:
        mine = own.index(entry.ref.name) is not None
        recent = mine or entry.seen >= reading.started
        made += mine
        outcome = conditions.finished(entry.body) if entry.body is not None else None
        if entry.body is None or outcome:
            late += recent
            unstarted += recent
            failed += recent and outcome == "Failed"
            completed += recent and outcome == "Complete"
            brief += recent and outcome != "Failed" and _is_brief(entry, owner, interval)
            continue
        waiting = is_pending(by_job.get(entry.ref.name, ()), conditions_)
        running += 1
        pending += waiting
        unstarted += waiting or recent
    return JobCounts(running, pending, late, made, unstarted, failed, completed, brief)


def _is_brief(entry: CachedObject, owner: str, interval: float) -> bool:
    """Returns True for an ended Job whose poll, which its name tells, began less than an interval before its end."""
    asked = names.reading(owner, entry.ref.name)
    return asked is not None and entry.seen - asked < interval * 1e6


def is_pending(pods: Sequence[Object], conditions_: Sequence[str]) -> bool:
    """Returns True if an unfinished Job with these pods is still pending.

    KEDA's rule: no pod is running or has succeeded; with `pendingPodConditions`, no single pod has all of them.
    """
    if conditions_:
        return not any(all(conditions.holds(pod, type_) for type_ in conditions_) for pod in pods)
    return not any((pod.get("status") or {}).get("phase") in ("Running", "Succeeded") for pod in pods)


def _by_job(pods: Iterable[CachedObject]) -> Mapping[str, list[Object]]:
    found: dict[str, list[Object]] = defaultdict(list)
    for entry in pods:
        if entry.body is not None:
            found[(entry.body["metadata"].get("labels") or {}).get(JOB_NAME, "")].append(entry.body)
    return found
