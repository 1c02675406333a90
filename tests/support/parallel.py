"""Which tests a parallel run keeps together on one worker process, and in which order it begins them."""

from xdist.scheduler import LoadScopeScheduling

#: Folders whose tests share servers that take seconds to start: one worker process has them all.
TOGETHER = ("tests/acceptance", "tests/integration/apiserver", "tests/integration/kubelet")
#: Modules whose tests share nothing: each test goes to the next worker process that is free.
APART = ("tests/chaos/test_house.py", "tests/chaos/test_claims.py", "tests/acceptance/test_left_behind.py")
#: What takes long, the longest first; all else comes after it.
FIRST = (*TOGETHER, "tests/chaos", "tests/integration/controllers", "tests/integration")


def unit(nodeid: str) -> str:
    """The tests that go to one worker process together have this in common."""
    module = nodeid.partition("::")[0]
    if module in APART:
        return nodeid
    return next((folder for folder in TOGETHER if module.startswith(f"{folder}/")), module)


def rank(nodeid: str) -> int:
    """The place of a test in the order of a run."""
    return next((place for place, folder in enumerate(FIRST) if nodeid.startswith(f"{folder}/")), len(FIRST))


class Units(LoadScopeScheduling):
    """Hands units out in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
