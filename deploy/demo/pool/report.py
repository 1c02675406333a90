"""The pool's report: the tasks that ran, and the number of workers over time. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deploy.demo.pool.work import outcome


@dataclass(frozen=True, slots=True)
class PoolSample:
    """One sample. at: seconds since the first push. wanted, ready: workers. done: finished tasks."""

    at: float
    wanted: int
    ready: int
    done: int


@dataclass
class PoolRun:
    """The observations of one run.

    pushed: the tasks' numbers. least, most: required and allowed number of concurrent workers.
    results, begun, ended: by task.
    """

    pushed: Sequence[int] = ()
    least: int = 1
    most: int = 1
    samples: list[PoolSample] = field(default_factory=list)
    results: Mapping[int, str] = field(default_factory=dict)
    begun: Mapping[int, int] = field(default_factory=dict)
    ended: Mapping[int, int] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """True if every task has a result."""
        return all(number in self.results for number in self.pushed)


def faults(run: PoolRun) -> list[str]:
    """Returns the run's faults as text; empty for a correct run."""
    checks = [
        ("were missed", [number for number in run.pushed if number not in run.results]),
        ("ran twice", [number for number, times in run.ended.items() if times > 1]),
        ("were cut short", [number for number, times in run.begun.items() if times > run.ended.get(number, 0)]),
        ("were never pushed", [number for number in run.results if number not in set(run.pushed)]),
        ("have a wrong result", [number for number, text in run.results.items() if text != outcome(number)]),
    ]
    found = [f"{len(bad)} tasks {what}, for example {bad[0]}" for what, bad in checks if bad]
    sizes = [sample.wanted for sample in run.samples]
    if not sizes or max(sizes) < run.least:
        found.append(f"the pool never grew to {run.least} workers")
    elif max(sizes) > run.most:
        found.append(f"the pool grew to {max(sizes)} workers, more than {run.most}")
    if sizes and (sizes[-1], run.samples[-1].ready) != (0, 0):
        found.append("the pool did not return to zero")
    return found


def rows(run: PoolRun) -> list[tuple[str, str]]:
    """Returns the report's lines, a name and a figure each."""
    lines = [
        ("tasks", str(len(run.pushed))),
        ("ran exactly once", str(sum(times == 1 for times in run.ended.values()))),
        ("workers at most", str(max((sample.ready for sample in run.samples), default=0))),
    ]
    moments = [
        ("first worker wanted after", next((one.at for one in run.samples if one.wanted), None)),
        ("first worker ready after", next((one.at for one in run.samples if one.ready), None)),
        ("all done after", next((one.at for one in run.samples if one.done >= len(run.pushed)), None)),
        ("back at zero after", run.samples[-1].at if run.samples else None),
    ]
    return [*lines, *((name, f"{at:.1f} s") for name, at in moments if at is not None)]


def chart(run: PoolRun, lines: int = 20) -> list[str]:
    """Returns a text chart of workers and finished tasks over time. lines: limit; lines with changes come first."""
    changes = [
        one
        for before, one in zip([None, *run.samples], run.samples, strict=False)
        if before is None or (one.wanted, one.ready) != (before.wanted, before.ready)
    ]
    step = -(-len(changes) // lines) if changes else 1
    shown = changes[::step]
    if changes and shown[-1] is not changes[-1]:
        shown.append(changes[-1])
    return [
        f"{one.at:6.1f} s  wanted {one.wanted:2}  ready {'#' * one.ready:<{run.most}}  done {one.done}" for one in shown
    ]
