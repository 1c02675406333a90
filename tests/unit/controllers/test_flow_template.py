"""What is decided about a JobTemplate."""

import pytest

from tests.unit.controllers.factories import NOW
from workers.api.kinds import JOB_TEMPLATE, VC_JOB, Object, Ref
from workers.controllers.volcano.template import decide
from workers.plan import PatchStatus
from workers.snapshot import Entry, Snapshot


@pytest.mark.parametrize(
    ("listed", "jobs", "expected"),
    [
        pytest.param(None, [], None, id="no Jobs"),
        pytest.param(None, ["b", "a"], ["a", "b"], id="its Jobs by name"),
        pytest.param(["a", "b"], ["a", "b"], None, id="nothing new"),
        pytest.param(["a", "b"], ["b"], ["b"], id="one is gone"),
        pytest.param(["a"], [], None, id="the last list stays"),
    ],
)
def test_it_lists_the_jobs_that_were_made_from_it(
    listed: list[str] | None, jobs: list[str], expected: list[str] | None
) -> None:
    body: Object = {"metadata": {"name": "t", "namespace": "default", "uid": "t"}}
    body["status"] = {"jobDependsOnList": listed} if listed else {}
    tied = {VC_JOB.id: tuple(Entry(Ref(VC_JOB, "default", name), {}, 0) for name in jobs)}
    plan = decide(Snapshot(Ref(JOB_TEMPLATE, "default", "t"), body, tied=tied), NOW)
    assert plan.steps == ((PatchStatus({"jobDependsOnList": expected}),) if expected else ())
