"""The demo's report: results compared with the items pushed. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy.demo.measure import measured


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the nearest-rank percentile: the smallest value that at least this share (0..1] of values do not exceed.

    Raises ValueError if there are no values.
    """
    if not values:
        raise ValueError("no values, no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass
class DemoJob:
    """One Job as the watch observed it. Times are epoch seconds of this machine's clock."""

    created: float
    outcome: str | None = None


@dataclass
class DemoRun:
    """The observations of one run. Times are epoch seconds of this machine's clock.

    pushed: time of the push by path, in the queue's order. jobs: by UID. results: the pods' results by path.
    times: number of times that each path was measured. idle: Jobs that found an empty list.
    places: pods that run at once.
    """

    pushed: Mapping[str, float] = field(default_factory=dict)
    jobs: dict[str, DemoJob] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    idle: int = 0
    places: int = 0

    def count(self, outcome: str | None) -> int:
        """Returns the number of Jobs with this outcome: ``Complete``, ``Failed``, or None for active ones."""
        return sum(job.outcome == outcome for job in self.jobs.values())

    @property
    def over_created(self) -> int:
        """The number of Jobs beyond the number of items."""
        return max(0, len(self.jobs) - len(self.pushed))

    @property
    def push_to_job(self) -> list[float]:
        """Returns the seconds from the n-th push to the n-th Job."""
        created = sorted(job.created for job in self.jobs.values())
        return [job - push for push, job in zip(self.pushed.values(), created, strict=False)]

    @property
    def job_to_start(self) -> list[float]:
        """Returns the seconds from the n-th Job to the n-th start of a program."""
        created = sorted(job.created for job in self.jobs.values())
        began = sorted(result["began"] for result in self.results.values())
        return [start - job for job, start in zip(created, began, strict=False)]

    @property
    def start_to_done(self) -> list[float]:
        """Returns the seconds that each program worked."""
        return [result["done"] - result["began"] for result in self.results.values()]

    @property
    def push_to_done(self) -> list[float]:
        """Returns the seconds from each item's push to its stored result."""
        return [self.results[path]["done"] - push for path, push in self.pushed.items() if path in self.results]


def faults(run: DemoRun) -> list[str]:
    """Returns the run's faults as text; empty for a correct run.

    Measures every file again and compares.
    """
    found = []
    missed = [path for path in run.pushed if path not in run.results]
    if missed:
        found.append(f"{len(missed)} files were missed, for example {missed[0]}")
    twice = [path for path, times in run.times.items() if times > 1]
    if twice:
        found.append(f"{len(twice)} files were done twice, for example {twice[0]}")
    if run.over_created:
        found.append(f"{run.over_created} Jobs too many were created")
    if run.idle:
        found.append(f"{run.idle} Jobs found nothing to do")
    if failed := run.count("Failed"):
        found.append(f"{failed} Jobs failed")
    wrong = [path for path, result in run.results.items() if not _same(path, result)]
    if wrong:
        found.append(f"{len(wrong)} results are wrong, for example that of {wrong[0]}")
    return found


def _same(path: str, result: Mapping[str, Any]) -> bool:
    expected = measured(path)
    return all(result.get(name) == value for name, value in expected.items())


def rows(run: DemoRun) -> list[tuple[str, str]]:
    """Returns the report's lines, a name and a figure each."""
    lines = [
        ("items", str(len(run.pushed))),
        ("Jobs created", str(len(run.jobs))),
        ("Jobs succeeded", str(run.count("Complete"))),
        ("Jobs failed", str(run.count("Failed"))),
        ("Jobs over-created", str(run.over_created)),
    ]
    stages = (
        ("push to Job", run.push_to_job),
        (f"waiting for one of {run.places} places", run.job_to_start),
        ("start to done", run.start_to_done),
        ("push to done", run.push_to_done),
    )
    for name, values in stages:
        if values:
            lines.append((name, f"p50 {percentile(values, 0.5):.3f} s   p99 {percentile(values, 0.99):.3f} s"))
    return lines
