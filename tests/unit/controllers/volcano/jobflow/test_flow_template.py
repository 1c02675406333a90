"""The decision about a JobTemplate."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from workers.api.kinds import JOB_TEMPLATE, VC_JOB, Object, Ref
from workers.controllers.volcano.jobtemplate import decide
from workers.decision.plan import HoldKey, PatchStatus, Plan
from workers.decision.snapshot import CachedObject, Snapshot


@cases(
    ("no Jobs", None, [], None),
    ("its Jobs by name", None, ["b", "a"], ["a", "b"]),
    ("nothing new", ["a", "b"], ["a", "b"], None),
    ("one is gone", ["a", "b"], ["b"], ["b"]),
    ("the last list stays", ["a"], [], None),
)
def test_it_lists_the_jobs_that_were_made_from_it(
    listed: list[str] | None, jobs: list[str], expected: list[str] | None
) -> None:
    assert decided(listed, jobs).steps == ((PatchStatus({"jobDependsOnList": expected}),) if expected else ())


@for_each((20, None), (21, 0.021), (1000, 1.0), (5000, 2.0))
def test_a_look_at_many_jobs_is_followed_by_a_rest(number: int, pause: float | None) -> None:
    names = sorted(f"job-{each}" for each in range(number))
    for listed in (names, names[1:]):
        plan = decided(listed, names)
        written = () if listed == names else (PatchStatus({"jobDependsOnList": names}),)
        assert plan.steps == (*written, *((HoldKey(pause),) if pause else ()))


def decided(listed: list[str] | None, jobs: list[str]) -> Plan:
    """The decision on a template whose status lists these and that has those."""
    body: Object = {"metadata": {"name": "t", "namespace": "default", "uid": "t"}}
    body["status"] = {"jobDependsOnList": listed} if listed else {}
    referrers = {VC_JOB.id: tuple(CachedObject(Ref(VC_JOB, "default", name), {}, 0) for name in jobs)}
    return decide(Snapshot(Ref(JOB_TEMPLATE, "default", "t"), body, referrers=referrers), NOW)
