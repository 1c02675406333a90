"""Jobs at the edges of their rules: plans cut short, limits met exactly, more than one plan may do."""

from datetime import timedelta

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.job.jobs import DELETING, STARTED, run
from tests.unit.controllers.factories import NOW, at, condition, job, pod
from tests.unit.controllers.plans import back, conditions_of, counted, created, deleted, shape, staged, status_of
from workers.controllers.batch.job.accounting import MAX_COUNTED
from workers.controllers.batch.job.indexes import FAILURE_COUNT, INDEX
from workers.decision.plan import Unfinalize

INDEXED = {"completionMode": "Indexed"}


def written_down(**uids):
    return {**STARTED, "uncountedTerminatedPods": {name: [uid] for name, uid in uids.items()}}


def of_index(name, index, phase="Running", *, failures=None, ended=-5, **metadata):
    counts = {} if failures is None else {FAILURE_COUNT: str(failures)}
    status = {}
    if phase == "Failed":
        status["containerStatuses"] = [
            {"name": "main", "state": {"terminated": {"exitCode": 1, "finishedAt": at(ended)}}}
        ]
    return pod(name, phase, metadata={"annotations": {INDEX: str(index), **counts}, **metadata}, **status)


def test_a_failure_that_is_only_recorded_counts_against_the_limit():
    plan = run(job(status=written_down(failed="uid-f"), backoffLimit=0), pod("f", "Failed"))
    assert conditions_of(plan)[0] == ("FailureTarget", "True", "BackoffLimitExceeded")
    assert status_of(plan)["failed"] == 1


def test_a_success_that_is_only_recorded_counts_towards_the_completions():
    plan = run(job(status=written_down(succeeded="uid-s"), completions=1), pod("s", "Succeeded"))
    assert created(plan) == []
    assert [type_ for type_, _, _ in conditions_of(plan)] == ["SuccessCriteriaMet", "Complete"]


def test_a_failed_pod_of_no_index_is_not_held_against_the_job():
    body = job(status=STARTED, **INDEXED, completions=1, parallelism=1, backoffLimit=0)
    plan = run(body, of_index("f", "x", "Failed"), of_index("a", 0))
    assert conditions_of(plan) == []
    assert counted(plan) == ["f"]
    assert status_of(plan).get("failed", 0) == 0


@for_each("FailureTarget", "SuccessCriteriaMet")
def test_a_decided_end_waits_for_no_exit_code(target):
    """Not even where only pods that have failed are replaced: it waits for the pod to go, not for its finalizer."""
    status = {**STARTED, "conditions": [condition(target, reason="R", message="M")]}
    body = job(status=status, podReplacementPolicy="Failed", completions=1)
    plan = run(body, pod("a", metadata=DELETING))
    assert counted(plan) == ["a"]
    assert status_of(plan).get("failed", 0) == (1 if target == "FailureTarget" else 0)
    assert [type_ for type_, _, _ in conditions_of(plan)] == [target]


def test_a_pod_on_its_way_out_as_the_job_succeeds_has_not_failed_yet():
    """A pod is judged by its end alone, and no decision waits for this one's."""
    body = job(status=STARTED, podReplacementPolicy="Failed", completions=1)
    plan = run(body, pod("s", "Succeeded"), pod("a", metadata=DELETING))
    assert counted(plan) == ["s", "a"]
    assert (status_of(plan)["succeeded"], status_of(plan).get("failed", 0)) == (1, 0)


def test_of_too_many_pods_for_one_plan_the_lowest_indexes_are_counted_first():
    size = MAX_COUNTED + 7
    body = job(status=STARTED, **INDEXED, completions=size + 1, parallelism=1)
    plan = run(body, *(of_index(f"p-{index}", index, "Succeeded") for index in reversed(range(size))))
    assert sorted(len(step.ref.name) for step in staged(plan, Unfinalize))[-1] == len("p-499")
    assert status_of(plan)["completedIndexes"] == f"0-{MAX_COUNTED - 1}"
    assert back(plan) == 0


def test_no_plan_removes_more_pods_than_it_may():
    body = job(status=STARTED, parallelism=0, completions=MAX_COUNTED + 5)
    plan = run(body, *(pod(f"p-{number}") for number in range(MAX_COUNTED + 5)))
    assert len(deleted(plan)) == MAX_COUNTED
    assert status_of(plan)["active"] == 5
    assert back(plan) is not None


def test_an_old_server_counts_no_pod_that_was_stopped():
    """It drops what is written down, so all that can be seen counts, but for pods that are on their way out."""
    status = {"startTime": at(-60), "active": 1}
    plan = run(job(status=status, backoffLimit=0), pod("f", "Failed", metadata={**DELETING, "finalizers": ["a/b"]}))
    assert len(created(plan)) == 1


def test_the_wait_is_over_at_its_very_end():
    failed = of_index("f", 0, "Failed", ended=-5)
    body = job(status=STARTED, **INDEXED, completions=1, parallelism=1)
    assert created(run(body, failed, now=NOW + timedelta(seconds=4))) == []
    assert len(created(run(body, failed, now=NOW + timedelta(seconds=5)))) == 1


@cases(("the Job", {}), ("its index", {"backoffLimitPerIndex": 3}))
def test_a_pod_that_was_deleted_is_replaced_at_once(policy):
    body = job(status={**STARTED, "failedIndexes": ""} if policy else STARTED, **INDEXED, **policy, completions=1)
    plan = run(body, of_index("f", 0, "Failed", failures=1, ended=-1, deletionTimestamp=at(-2)))
    assert len(created(plan)) == 1


def test_the_end_is_written_before_pods_are_stopped_for_it():
    plan = run(job(status=STARTED, activeDeadlineSeconds=10), pod("a"))
    assert shape(plan)[:2] == ["PatchStatus", "Deletes"]
    assert conditions_of(plan)[0] == ("FailureTarget", "True", "DeadlineExceeded")
