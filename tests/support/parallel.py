"""The order of a parallel run: tests that stay together on one worker process, and those that begin first."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from xdist.scheduler import LoadScopeScheduling

#: Folders whose tests share servers that take seconds to start: one worker process has them all.
TOGETHER = (
    "tests/acceptance",
    "tests/page",
    "tests/integration/apiserver",
    "tests/integration/kubelet",
    "tests/packaging/image",
)
#: Modules under tests/integration that use the same servers: those of `running` with equal settings, or of `cluster`.
ALIKE = (
    (
        *("controllers/test_apps.py", "controllers/test_flows.py", "controllers/test_podgroups.py"),
        *("controllers/test_queues.py", "controllers/test_vcjob_plugins.py", "controllers/test_vcjobs.py"),
        *("controllers/test_volcano_cronjobs.py", "controllers/test_volcano_work.py", "test_pool.py", "test_vcctl.py"),
    ),
    (
        *("controllers/test_claims.py", "controllers/test_scaledjobs.py", "controllers/test_scaledobjects.py"),
        "test_pushed_events.py",
    ),
    (
        *("workers/test_informers.py", "workers/test_stopped_informers.py", "workers/test_finalizers.py"),
        *("workers/test_rest.py", "scalers/sources/test_kubernetes.py", "api/test_crds.py"),
    ),
)
#: Modules whose tests share nothing: each test goes to the next worker process that is free.
APART = ("tests/chaos/test_house.py", "tests/chaos/test_claims.py", "tests/acceptance/test_left_behind.py")
#: What takes long and waits for the processes it starts, the longest first.
FIRST = (
    *(*TOGETHER, "tests/integration/test_standalone.py", *(alike[0] for alike in ALIKE)),
    *("tests/integration/test_backlog_memory.py", "tests/upgrade", "tests/chaos"),
    *("tests/integration/controllers", "tests/integration"),
)


def unit(nodeid: str) -> str:
    """The tests that go to one worker process together have this in common."""
    module = nodeid.partition("::")[0]
    if module in APART:
        return nodeid
    for alike in ALIKE:
        if module.removeprefix("tests/integration/") in alike:
            return alike[0]
    return next((folder for folder in TOGETHER if module.startswith(f"{folder}/")), module)


def order(nodeids: Iterable[str]) -> dict[str, Fraction]:
    """Returns the place of every unit: those that take long in their order, all others evenly between them.

    What takes long waits half of its time, and what is short does not: side by side they leave no core idle.
    """
    units = list(dict.fromkeys(map(unit, nodeids)))
    long = sorted((each for each in units if _rank(each) < len(FIRST)), key=_rank)
    short = [each for each in units if _rank(each) == len(FIRST)]
    return {each: place for those in (long, short) for each, place in _spread(those)}


def _rank(unit: str) -> int:
    return next((place for place, first in enumerate(FIRST) if f"{unit}/".startswith(f"{first}/")), len(FIRST))


def _spread(units: Sequence[str]) -> Iterable[tuple[str, Fraction]]:
    return ((each, Fraction(place, len(units))) for place, each in enumerate(units))


class Units(LoadScopeScheduling):
    """Hands units out in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
