"""ScalePolicies: whom they cover, what an object asks of them, and what it does with the answer."""

from datetime import timedelta

import pytest

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, child, entry, reading, sample, scaled_job, snapshot
from tests.unit.controllers.keda.scaledjob.claims_cluster import ANNOTATION, OF, bound, claim
from tests.unit.controllers.plans import condition, created, status_of
from workers.api.kinds import JOB, SCALE_POLICY
from workers.controllers.keda.scaledjob import CONTROLLER, controller, decide, policy
from workers.decision.claims import LEDGER, ClaimLedger
from workers.decision.plan import ComeBack, PatchStatus, PollNow
from workers.errors import UserError


def scale_policy(name="quota", *, most=5, **spec):
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    return {"metadata": metadata, "spec": {"maxJobs": most, **spec}}


def body(**labels):
    return scaled_job(metadata={"labels": labels})


@cases(
    ("everything", {}, {}, [None]),
    ("by label", {"selector": {"matchLabels": {"team": "a"}}}, {"team": "a"}, [None]),
    ("another label", {"selector": {"matchLabels": {"team": "a"}}}, {"team": "b"}, []),
    (
        "by expression",
        {"selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
        {"team": "b"},
        [None],
    ),
    ("in its namespace", {"namespaces": ["default", "other"]}, {}, [None]),
    ("in another namespace", {"namespaces": ["other"]}, {}, []),
    ("by group", {"groupBy": "team"}, {"team": "a"}, ["a"]),
    ("in the group of those without the label", {"groupBy": "team"}, {}, [""]),
)
def test_whom_a_policy_covers(spec, labels, groups):
    assert [cap.group for cap in policy.caps_of([scale_policy(**spec)], body(**labels))] == groups


def test_groups_and_changed_policies_are_limits_of_their_own():
    grouped = scale_policy(groupBy="team")
    changed = {**grouped, "metadata": {**grouped["metadata"], "generation": 2}}
    caps = [policy.caps_of([of], body(**labels))[0] for of in (grouped, changed) for labels in ({"team": "a"}, {})]
    assert len({cap.id for cap in caps}) == 4
    assert caps[0].covers(body(team="a"))
    assert not caps[0].covers(body(team="b"))
    assert str(caps[0]) == "ScalePolicy quota, team=a"


def test_a_policy_that_is_wrong_is_an_error_not_no_limit():
    with pytest.raises(UserError, match="maxJobs"):
        policy.caps_of([{"metadata": {"name": "x", "uid": "u"}, "spec": {}}], body())


QUOTA = scale_policy()


def decided(*jobs, policies=(QUOTA,), allowance=None, status=None, queue: float | None = 4, **spec):
    of = snapshot(
        scaled_job(**spec, **({"status": status} if status else {})),
        *jobs,
        reading=None if queue is None else reading(sample(queue)),
        cluster_wide={SCALE_POLICY.id: tuple(entry(SCALE_POLICY, each["metadata"]["name"], each) for each in policies)},
        allowance=allowance,
    )
    return decide(of, NOW)


def test_first_it_asks_and_does_nothing():
    plan = decided(child("work-z-0"))
    assert plan.steps == ()
    assert (plan.reservation.alive, plan.reservation.wanted) == (1, 4)
    assert [str(cap) for cap in plan.reservation.limits] == ["ScalePolicy quota"]


def test_without_a_reading_it_asks_for_what_it_has():
    asked = decided(child("work-z-0"), queue=None).reservation
    assert (asked.alive, asked.wanted) == (1, 1)


@cases(
    ("all it wants", 4, 3, False),
    ("some of it", 2, 1, True),
    ("what it has", 1, 0, True),
    ("less than it has", 0, 0, True),
    ("more than it wants", 9, 3, False),
)
def test_then_it_keeps_to_the_answer(allowance, made, held):
    plan = decided(child("work-z-0"), allowance=allowance)
    assert plan.reservation is None
    assert len(created(plan)) == made
    assert condition(plan, "Capped")["status"] == str(held)
    assert (ComeBack(NOW + timedelta(seconds=5)) in plan.steps) is held
    assert plan.figures[-1].value == made
    if held:
        assert condition(plan, "Capped")["message"] == f"4 Jobs are wanted and {allowance} allowed by ScalePolicy quota"


def test_the_minimum_is_under_the_limit_too():
    assert len(created(decided(allowance=1, minReplicaCount=3))) == 1


def test_without_a_policy_there_is_no_question_and_no_condition():
    plan = decided(policies=())
    assert len(created(plan)) == 4
    assert condition(plan, "Capped") == {}


def test_the_condition_goes_with_the_policy():
    status = status_of(decided(allowance=2))
    assert condition(decided(status=status, policies=()), "Capped") == {}


def claiming(*held, limit=4, jobs=(), waiting=3, policies=(QUOTA,), paused=False, **more):
    """The decision on an object that claims; without claims it has no ledger yet."""
    annotations = {LEDGER: ANNOTATION} if held else {}
    annotations |= {"autoscaling.keda.sh/paused": "true"} if paused else {}
    claims = tuple(map(claim, held))
    spec = {"scalingStrategy": {"strategy": "claim", "claim": {"retries": 1}}, "maxReplicaCount": 6}
    of = snapshot(
        scaled_job(metadata={"annotations": annotations}, **spec),
        *jobs,
        reading=reading(sample(waiting, claimable=True), ledger=ClaimLedger(OF, limit, claims) if held else None),
        cluster_wide={SCALE_POLICY.id: tuple(entry(SCALE_POLICY, each["metadata"]["name"], each) for each in policies)},
        **more,
    )
    return decide(of, NOW)


@cases(
    ("what waits, before there is a ledger", (), (child("other"),), {}, (1, 4, 1)),
    ("no more than its own limit", (), (), {"waiting": 300}, (0, 6, 0)),
    ("claims whose Jobs are still to be made", ("1", "2", "3"), (), {"waiting": 0}, (0, 3, 3)),
    ("claims with and without Jobs, and what waits", ("1", "2", "3"), (bound("1"),), {"waiting": 2}, (1, 5, 3)),
    ("no claim that is done", ("1", "2"), (bound("1", "Complete"), bound("2")), {"waiting": 0}, (1, 1, 1)),
    ("one that is tried again", ("1",), (bound("1", "Failed"),), {"waiting": 0}, (0, 1, 1)),
    ("nothing new while it is paused", ("1", "2"), (bound("1"),), {"paused": True}, (1, 1, 2)),
)
def test_an_object_that_claims_asks_for_its_claims_too(held, jobs, more, asked):
    plan = claiming(*held, jobs=jobs, **more)
    assert plan.steps == ()
    assert (plan.reservation.alive, plan.reservation.wanted, plan.reservation.held) == asked


@cases(
    ("all claims get theirs", 6, (), 4, 6, False),
    ("more than it may have by itself", 7, (), 4, 6, False),
    ("some claims wait", 3, (), 3, 3, True),
    ("a Job counts", 2, (bound("1"),), 1, 2, True),
    ("none may be made", 1, (bound("1"),), 0, 1, True),
    ("nothing may run at all", 0, (), 0, 0, True),
    ("Jobs of no claim count too", 3, (bound("1"), bound("2"), child("stray")), 0, 3, True),
)
def test_a_claim_gets_its_job_when_there_is_room(allowance, jobs, made, limit, held_back):
    plan = claiming("1", "2", "3", "4", jobs=jobs, allowance=allowance, waiting=9)
    assert len(created(plan)) == made
    orders = [step.order.limit for step in plan.steps if isinstance(step, PollNow)]
    assert orders == ([limit] if limit != 4 else [])
    assert (
        held_back
        == (condition(plan, "Capped")["status"] == "True")
        == (ComeBack(NOW + timedelta(seconds=5)) in plan.steps)
    )
    # It does not turn in circles over what must wait.
    assert ComeBack(NOW) not in plan.steps


def test_what_keeps_an_object_that_claims_from_working_is_said():
    plan = claiming("1", allowance=0, waiting=2, policies=(scale_policy(most=0),))
    assert condition(plan, "Capped") == {
        "type": "Capped",
        "status": "True",
        "reason": "ScalePolicy",
        "message": "3 Jobs are wanted and 0 allowed by ScalePolicy quota",
    }
    assert "waiting for room" in plan.why
    before_there_is_a_ledger = claiming(allowance=0, waiting=2)
    assert condition(before_there_is_a_ledger, "Capped")["status"] == "True"
    assert condition(claiming("1", allowance=3, waiting=2), "Capped")["reason"] == "WithinLimits"
    assert condition(claiming("1", policies=()), "Capped") == {}


def test_an_object_that_claims_is_active_while_its_jobs_are_refused():
    plan = claiming("1", policies=(), waiting=0, failures=1, last_error="422: no such restartPolicy")
    bad = next(step.status for step in plan.steps if isinstance(step, PatchStatus))
    said = {each["type"]: (each["status"], each.get("message", "")) for each in bad["conditions"]}
    assert said["Ready"] == ("False", "the last attempt failed: 422: no such restartPolicy")
    assert said["Active"][0] == "True"


def test_a_maximum_that_was_lowered_holds_for_items_that_were_taken_before():
    plan = claiming(*map(str, range(9)), limit=9, policies=(), waiting=0)
    assert len(created(plan)) == 6
    assert ComeBack(NOW) not in plan.steps


def test_policies_are_looked_at_where_they_are_obeyed():
    assert controller(policies=True).cluster_wide == (SCALE_POLICY,)
    assert controller(policies=False) == CONTROLLER


def test_finished_and_deleted_jobs_count_no_more():
    jobs = [child("a"), child("b", "Complete"), child("c", "Failed"), entry(JOB, "d", None)]
    assert policy.unfinished(jobs) == 1
