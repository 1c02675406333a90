"""ScalePolicies: whom they cover, what an object asks of them, and what it does with the answer."""

from datetime import timedelta

import pytest

from tests.unit.controllers.factories import NOW, child, entry, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import created, status_of
from workers.api.kinds import JOB, SCALE_POLICY
from workers.caps import Reservation
from workers.controllers.scaledjob import CONTROLLER, controller, decide, policy
from workers.errors import UserError
from workers.plan import ComeBack


def scale_policy(name="quota", *, most=5, **spec):
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    return {"metadata": metadata, "spec": {"maxJobs": most, **spec}}


def body(**labels):
    return scaled_job(metadata={"labels": labels})


@pytest.mark.parametrize(
    ("spec", "labels", "groups"),
    [
        ({}, {}, [None]),
        ({"selector": {"matchLabels": {"team": "a"}}}, {"team": "a"}, [None]),
        ({"selector": {"matchLabels": {"team": "a"}}}, {"team": "b"}, []),
        ({"selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}, {"team": "b"}, [None]),
        ({"namespaces": ["default", "other"]}, {}, [None]),
        ({"namespaces": ["other"]}, {}, []),
        ({"groupBy": "team"}, {"team": "a"}, ["a"]),
        ({"groupBy": "team"}, {}, [""]),
    ],
    ids=[
        "everything",
        "by label",
        "another label",
        "by expression",
        "in its namespace",
        "in another namespace",
        "by group",
        "in the group of those without the label",
    ],
)
def test_whom_a_policy_covers(spec, labels, groups):
    assert [cap.group for cap in policy.caps_of([scale_policy(**spec)], body(**labels))] == groups


def test_groups_and_changed_policies_are_limits_of_their_own():
    grouped = scale_policy(groupBy="team")
    changed = {**grouped, "metadata": {**grouped["metadata"], "generation": 2}}
    caps = [policy.caps_of([of], body(**labels))[0] for of in (grouped, changed) for labels in ({"team": "a"}, {})]
    assert len({cap.id for cap in caps}) == 4
    assert policy.covers(caps[0], body(team="a"))
    assert not policy.covers(caps[0], body(team="b"))
    assert str(caps[0]) == "ScalePolicy quota, team=a"


def test_a_policy_that_is_wrong_is_an_error_not_no_limit():
    with pytest.raises(UserError, match="maxJobs"):
        policy.caps_of([{"metadata": {"name": "x", "uid": "u"}, "spec": {}}], body())


QUOTA = scale_policy()


def decided(*jobs, policies=(QUOTA,), allowance=None, status=None, queue=4, **spec):
    of = snapshot(
        scaled_job(**spec, **({"status": status} if status else {})),
        *jobs,
        reading=reading(sample(queue)),
        everywhere={SCALE_POLICY.id: tuple(entry(SCALE_POLICY, each["metadata"]["name"], each) for each in policies)},
        allowance=allowance,
    )
    return decide(of, NOW)


def capped(plan):
    return next((each for each in status_of(plan)["conditions"] if each["type"] == "Capped"), None)


def test_first_it_asks_and_does_nothing():
    plan = decided(child("work-z-0"))
    assert plan.steps == ()
    assert (plan.reservation.alive, plan.reservation.wanted) == (1, 4)
    assert [str(cap) for cap in plan.reservation.caps] == ["ScalePolicy quota"]


@pytest.mark.parametrize(
    ("allowance", "made", "held"),
    [(4, 3, False), (2, 1, True), (1, 0, True), (0, 0, True), (9, 3, False)],
    ids=["all it wants", "some of it", "what it has", "less than it has", "more than it wants"],
)
def test_then_it_keeps_to_the_answer(allowance, made, held):
    plan = decided(child("work-z-0"), allowance=allowance)
    assert plan.reservation is None
    assert len(created(plan)) == made
    assert capped(plan)["status"] == str(held)
    assert (ComeBack(NOW + timedelta(seconds=5)) in plan.steps) is held
    assert plan.figures[-1].value == made
    if held:
        assert capped(plan)["message"] == f"4 Jobs are wanted and {allowance} allowed by ScalePolicy quota"


def test_the_minimum_is_under_the_limit_too():
    assert len(created(decided(allowance=1, minReplicaCount=3))) == 1


def test_without_a_policy_there_is_no_question_and_no_condition():
    plan = decided(policies=())
    assert len(created(plan)) == 4
    assert capped(plan) is None


def test_the_condition_goes_with_the_policy():
    status = status_of(decided(allowance=2))
    assert capped(decided(status=status, policies=())) is None


def test_an_object_that_claims_asks_for_what_waits_and_takes_no_more_than_it_may():
    asked = decided(child("work-z-0"), scalingStrategy={"strategy": "claim"}, queue=3).reservation
    assert asked == Reservation(asked.caps, 1, 4)
    most = decided(scalingStrategy={"strategy": "claim"}, queue=300, maxReplicaCount=7).reservation
    assert most.wanted == 7


def test_policies_are_looked_at_where_they_are_obeyed():
    assert controller(policies=True).everywhere == (SCALE_POLICY,)
    assert controller(policies=False) == CONTROLLER


def test_finished_and_deleted_jobs_count_no_more():
    jobs = [child("a"), child("b", "Complete"), child("c", "Failed"), entry(JOB, "d", None)]
    assert policy.unfinished(jobs) == 1
