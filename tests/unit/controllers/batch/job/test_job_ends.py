"""The ends of a batch/v1 Job: by limits, deadline and completion, and the cleanup afterwards."""

from datetime import timedelta

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.job.jobs import NEVER, failed, leaving, run, settled, started, succeeded
from tests.unit.controllers.factories import NOW, UID, at, condition, entry, job, pod
from tests.unit.controllers.plans import (
    back,
    conditions_of,
    counted,
    created,
    deleted,
    events,
    measured,
    shape,
    status_of,
    statuses,
    untracked,
)
from workers.api.kinds import JOB, POD, Ref
from workers.decision.plan import NOTHING, Delete

COMPLETE = ["SuccessCriteriaMet", "Complete"]
ON_FAILURE = {"spec": {"containers": [{"name": "main"}], "restartPolicy": "OnFailure"}}


@cases(
    ("six failures are allowed", 6, [failed(str(i)) for i in range(6)], False),
    ("the seventh is not", 6, [failed(str(i)) for i in range(7)], True),
    ("none is allowed", 0, [failed("a")], True),
    ("none has failed", 0, [], False),
)
def test_the_backoff_limit_counts_failed_pods(limit, pods, over):
    plan = run(job(status=started(), backoffLimit=limit), *pods)
    expected = [("FailureTarget", "True", "BackoffLimitExceeded"), ("Failed", "True", "BackoffLimitExceeded")]
    assert conditions_of(plan) == (expected if over else [])
    assert ("BackoffLimitExceeded" in events(plan)) is over


@cases(
    ("below the limit", ON_FAILURE, 6, (3, 2), "Running", False),
    ("restarts of all pods add up", ON_FAILURE, 6, (3, 3), "Running", True),
    ("pending pods restart too", ON_FAILURE, 6, (6, 0), "Pending", True),
    ("none with limit 0", ON_FAILURE, 0, (0, 0), "Running", False),
    ("any with limit 0", ON_FAILURE, 0, (1, 0), "Running", True),
    ("restartPolicy Never does not count them", {"spec": NEVER}, 6, (9, 9), "Running", False),
)
def test_the_backoff_limit_counts_restarts(template, limit, restarts, phase, over):
    pods = [pod(str(i), phase, containerStatuses=[{"restartCount": n}]) for i, n in enumerate(restarts)]
    plan = run(job(status=started(), template=template, backoffLimit=limit, parallelism=2, completions=2), *pods)
    assert [each[0] for each in conditions_of(plan)] == (["FailureTarget"] if over else [])
    assert len(deleted(plan)) == (2 if over else 0)


def test_restarts_of_a_pod_on_its_way_out_count_as_well():
    body = job(status=started(), template=ON_FAILURE, backoffLimit=2)
    restarted = leaving("a")
    restarted.body["status"]["containerStatuses"] = [{"restartCount": 2}]
    assert conditions_of(run(body, restarted)) == [("FailureTarget", "True", "BackoffLimitExceeded")]


def test_restarts_in_init_containers_count_as_well():
    body = job(status=started(), template=ON_FAILURE, backoffLimit=2)
    restarted = pod("a", "Pending", initContainerStatuses=[{"restartCount": 2}])
    assert deleted(run(body, restarted)) == ["a"]


def test_a_failed_job_deletes_its_pods_and_counts_them_and_waits_for_their_end():
    body = job(status=started(active=2), backoffLimit=0, parallelism=3, completions=3)
    plan = run(body, failed("f"), pod("a", conditions=[condition("Ready")]), pod("b"))
    assert shape(plan) == ["PatchStatus", "Unfinalizes", "Deletes", "PatchStatus", "ComeBack"]
    assert set(deleted(plan)) == {"a", "b"}
    assert untracked(plan) == []
    assert conditions_of(plan) == [("FailureTarget", "True", "BackoffLimitExceeded")]
    new = status_of(plan)
    assert (new["failed"], new["terminating"], new["ready"]) == (1, 2, 0)
    assert "active" not in new
    assert back(plan) == 0

    killed = run({**body, "status": new}, settled("f", "Failed"), leaving("a"), leaving("b"))
    assert counted(killed) == ["a", "b"]
    assert (status_of(killed)["failed"], status_of(killed)["terminating"]) == (3, 2)
    assert back(killed) == 1
    new = status_of(killed)

    released = [leaving("a", finalizers=[]), leaving("b", finalizers=[])]
    assert run({**body, "status": new}, settled("f", "Failed"), *released).steps == ()

    over = run({**body, "status": new}, settled("f", "Failed"), entry(POD, "a", None), entry(POD, "b", None))
    assert conditions_of(over)[-1] == ("Failed", "True", "BackoffLimitExceeded")
    assert status_of(over)["failed"] == 3
    assert events(over) == ["BackoffLimitExceeded"]
    assert created(over) == []


def test_pods_that_a_success_makes_needless_do_not_count_as_failed():
    body = job(status=started(), completions=1, parallelism=1)
    plan = run(body, succeeded("s"), pod("a"))
    assert (deleted(plan), conditions_of(plan)) == (["a"], [("SuccessCriteriaMet", "True", "CompletionsReached")])
    met = {**body, "status": status_of(plan)}
    needless = run(met, settled("s"), leaving("a"))
    assert counted(needless) == ["a"]
    assert statuses(needless) == []
    assert "failed" not in status_of(run(met, settled("s"), leaving("a", "Failed")))
    done = run(met, settled("s"), entry(POD, "a", None))
    assert conditions_of(done)[-1] == ("Complete", "True", "CompletionsReached")
    late = run(met, settled("s"), leaving("a", "Succeeded"))
    assert status_of(late)["succeeded"] == 2
    assert events(late) == ["TooManySucceededPods", "Completed"]


@cases(
    ("before", 100, -60, False, False, 40),
    ("in the instant", 60, -60, False, True, 0),
    ("after", 30, -60, False, True, 0),
    ("a suspended Job has no deadline", 30, -60, True, False, 1),
)
def test_the_deadline(limit, started_at, suspended, over, comes_back):
    body = job(status={"startTime": at(started_at)}, activeDeadlineSeconds=limit, suspend=suspended)
    plan = run(body, pod("a"))
    assert (("FailureTarget", "True", "DeadlineExceeded") in conditions_of(plan)) is over
    assert back(plan) == comes_back


@for_each(999_999_999_999, 2**63 - 1)
def test_a_deadline_that_no_instant_has_is_never_reached(limit):
    body = job(status={"startTime": at(-60)}, activeDeadlineSeconds=limit)
    plan = run(body, now=NOW + timedelta(days=365 * 900))
    assert (conditions_of(plan), len(created(plan))) == ([], 1)


def test_a_job_comes_back_at_the_first_of_all_instants():
    status = {"startTime": at(0)}
    soon = run(job(status=status, activeDeadlineSeconds=5, completions=1), failed("a", -3))
    assert back(soon) == 5
    late = run(job(status=status, activeDeadlineSeconds=50, completions=1), failed("a", -3))
    assert back(late) == 7


def test_failure_goes_before_success_in_one_decision():
    body = job(status={"startTime": at(-60)}, activeDeadlineSeconds=30)
    assert [each[0] for each in conditions_of(run(body, succeeded("a")))] == ["FailureTarget", "Failed"]


@cases(
    ("its one pod succeeded", {}, [succeeded("a")], COMPLETE),
    ("one is missing", {"completions": 2}, [succeeded("a")], []),
    ("all have succeeded", {"completions": 2, "parallelism": 2}, [succeeded("a"), succeeded("b")], COMPLETE),
    ("nothing to do", {"completions": 0}, [], COMPLETE),
    ("a work queue is done when its last pod is", {"parallelism": 2}, [succeeded("a"), pod("b")], []),
    ("a work queue with a success, all at rest", {"parallelism": 2}, [succeeded("a"), failed("b")], COMPLETE),
    ("a work queue without any success", {"parallelism": 2}, [failed("b")], []),
    (
        "a pod too many is removed first",
        {"completions": 1, "parallelism": 1},
        [succeeded("a"), pod("b")],
        ["SuccessCriteriaMet"],
    ),
    ("a pod is still on its way out", {}, [succeeded("a"), leaving("b")], ["SuccessCriteriaMet"]),
)
def test_completion(spec, pods, ends):
    plan = run(job(status=started(), **spec), *pods)
    assert [each[0] for each in conditions_of(plan)] == ends
    assert ("completionTime" in status_of(plan)) is ("Complete" in ends)
    assert ("Completed" in events(plan)) is ("Complete" in ends)


def test_a_pod_too_many_that_succeeded_is_reported():
    plan = run(job(status=started(), completions=1), succeeded("a"), succeeded("b"))
    assert events(plan) == ["TooManySucceededPods", "Completed"]
    (told,) = [step for step in plan.steps if getattr(step, "reason", "") == "TooManySucceededPods"]
    assert told.message == "Too many succeeded pods running after completion count reached"


def test_a_finished_job_has_started():
    assert status_of(run(job(completions=0)))["startTime"] == at(0)
    assert "startTime" not in status_of(run(job(completions=0, suspend=True)))
    ended = run(job(suspend=True, status={"succeeded": 1, "startTime": at(-9)}))
    assert status_of(ended)["startTime"] == at(-9)


def test_the_deadline_starts_over_with_a_job_that_is_resumed():
    resumed = job(status={"startTime": at(-60), "conditions": [condition("Suspended")]}, activeDeadlineSeconds=30)
    plan = run(resumed)
    assert status_of(plan)["startTime"] == at(0)
    assert back(plan) == 30


def test_without_parallelism_and_completions_one_success_is_enough():
    assert deleted(run(job(status=started()), succeeded("a"), pod("b"))) == ["b"]


@for_each("Complete", "Failed")
def test_a_finished_job_is_left_alone_until_its_time_is_up(type_):
    ended = {"conditions": [condition(type_, at_=-20)]}
    assert run(job(status=ended)) == NOTHING
    assert back(run(job(status=ended, ttlSecondsAfterFinished=50))) == 30
    for ttl in (20, 0):
        plan = run(job(status=ended, ttlSecondsAfterFinished=ttl))
        assert plan.steps[0] == Delete(Ref(JOB, "default", "crunch"), UID, "Foreground")
        assert measured(plan) == {("job_deletion_delay",): 20 - ttl}


@cases(
    ("when its time will be up", {"ttlSecondsAfterFinished": 50}, 50),
    ("at once", {"ttlSecondsAfterFinished": 0}, 0),
    ("never, without a time to live", {}, None),
)
def test_the_plan_that_finishes_a_job_comes_back_to_remove_it(changes, seconds):
    plan = run(job(completions=1, **changes), pod("a", "Succeeded"))
    assert "Complete" in str(plan.steps)
    assert back(plan) == seconds
