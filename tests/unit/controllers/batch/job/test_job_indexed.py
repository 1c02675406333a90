"""Indexed Jobs: which index gets a pod, what a pod carries, retries of each index, policies, growing and shrinking."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.job.jobs import COUNTED, DELETING, STARTED, run
from tests.unit.controllers.factories import at, job, pod
from tests.unit.controllers.plans import (
    back,
    conditions_of,
    counted,
    created,
    deleted,
    measured,
    staged,
    status_of,
    statuses,
    untracked,
)
from workers.controllers.batch.job.indexes import FAILURE_COUNT, IGNORED_FAILURE_COUNT, INDEX
from workers.controllers.batch.job.pods import TRACKING
from workers.decision.plan import Create

ONLY_FAILED = {"podReplacementPolicy": "Failed"}
EACH = {**STARTED, "failedIndexes": ""}


def indexed(status=STARTED, completions=4, parallelism=4, **spec):
    return job(status=status, completionMode="Indexed", completions=completions, parallelism=parallelism, **spec)


def of(index, phase="Running", name=None, failures=None, ended=-300, code=1, **metadata):
    """A pod of this index; failures: counted before it, of a Job that retries each index."""
    annotations = {INDEX: str(index), **({} if failures is None else {FAILURE_COUNT: str(failures)})}
    terminated = {"finishedAt": at(ended), "exitCode": code if phase == "Failed" else 0}
    ends = {"containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]} if phase != "Running" else {}
    return pod(name or f"p-{index}", phase, metadata={"annotations": annotations, **metadata}, **ends)


def lost(index):
    """The first failed pod of this index."""
    return of(index, "Failed", failures=0)


def waiting(index):
    """A failed pod whose index waits for seven more seconds."""
    return of(index, "Failed", failures=0, ended=-3)


def indexes(plan):
    return [int(step.body["metadata"]["annotations"][INDEX]) for step in staged(plan, Create)]


def test_a_pod_carries_its_index():
    containers = [{"name": "main"}, {"name": "told", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]
    body = {"containers": containers, "initContainers": [{"name": "init", "env": [{"name": "A"}]}], "hostname": "h"}
    first = staged(run(indexed(template={"metadata": {"annotations": {"a": "b"}}, "spec": body})), Create)[2].body
    metadata, spec = first["metadata"], first["spec"]
    assert metadata["labels"][INDEX] == "2"
    assert metadata["annotations"] == {"a": "b", INDEX: "2"}
    assert metadata["name"].startswith("crunch-2-")
    assert metadata["finalizers"] == [TRACKING]
    assert spec["hostname"] == "crunch-2"
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    assert [each.get("env") for each in spec["containers"]] == [[variable], containers[1]["env"]]
    assert spec["initContainers"][0]["env"] == [{"name": "A"}, variable]


@cases(
    ("all", {}, {}, [], [0, 1, 2, 3]),
    ("the lowest first", {}, {"parallelism": 2}, [], [0, 1]),
    ("completed ones need none", {"completedIndexes": "0,2"}, {}, [], [1, 3]),
    ("neither do those at work, nor those that just succeeded", {}, {}, [of(1), of(2, "Succeeded")], [0, 3]),
    ("a failed one is tried again", {}, {}, [of(1, "Failed")], [0, 1, 2, 3]),
    ("one whose pod is being deleted is tried again at once", {}, {}, [of(1, **DELETING)], [0, 1, 2, 3]),
    ("unless only failed pods are replaced", {}, ONLY_FAILED, [of(1, **DELETING)], [0, 2, 3]),
    ("which it is once it has failed", {}, ONLY_FAILED, [of(1, "Failed", **DELETING)], [0, 1, 2, 3]),
    ("completions are left", {"completedIndexes": "0-9"}, {"completions": 12, "parallelism": 9}, [], [10, 11]),
)
def test_which_indexes_get_a_pod(status, spec, pods, expected):
    assert indexes(run(indexed({**STARTED, **status}, **spec), *pods)) == expected


@cases(
    ("a second pod of an index, the younger", [of(0), of(0, name="twin", creationTimestamp=at(-5))], ["twin"]),
    ("an index beyond the last", [of(7)], ["p-7"]),
    ("no number", [of("seven")], ["p-seven"]),
    ("a negative one", [of(-1)], ["p--1"]),
    ("no index at all", [pod("bare")], ["bare"]),
    ("those that are needed stay", [of(2), of(3)], []),
    ("one whose index is completed", [of(1), of(2)], ["p-1"]),
)
def test_pods_that_no_index_needs_are_removed(pods, victims):
    plan = run(indexed({**STARTED, "completedIndexes": "1", "succeeded": 1}), *pods)
    assert deleted(plan) == victims
    assert untracked(plan) == victims
    assert bool(created(plan)) is not bool(victims)


def test_beyond_those_that_are_useless_the_usual_ones_go():
    young = {"creationTimestamp": at(-5)}
    pods = [of(0), of(1, **young), of(2), of(2, name="twin", **young)]
    assert sorted(deleted(run(indexed(parallelism=2), *pods))) == ["p-1", "twin"]


def test_one_success_of_an_index_counts():
    pods = [of(0, "Succeeded"), of(0, "Succeeded", name="twin"), of(9, "Succeeded"), of("x", "Failed")]
    plan = run(indexed({**STARTED, "completedIndexes": "2", "succeeded": 1}, completions=4), *pods)
    first = statuses(plan)[0]
    assert (first["completedIndexes"], first["succeeded"], first.get("failed", 0)) == ("0,2", 2, 0)
    assert first["uncountedTerminatedPods"] == {}
    assert sorted(counted(plan)) == ["p-0", "p-9", "p-x", "twin"]


def test_a_pod_that_was_recorded_as_failed_completes_no_index():
    status = {**STARTED, "uncountedTerminatedPods": {"failed": ["uid-p-0"]}}
    plan = run(indexed(status), of(0, "Succeeded"))
    assert (status_of(plan).get("completedIndexes"), status_of(plan)["failed"]) == (None, 1)
    assert 0 in indexes(plan)


@for_each({}, {"backoffLimitPerIndex": 0})
def test_all_indexes_completed_end_the_job(limit):
    done = [of(index, "Succeeded") for index in range(4)]
    plan = run(indexed(**limit), *done)
    assert [each[0] for each in conditions_of(plan)] == ["SuccessCriteriaMet", "Complete"]
    assert (status_of(plan)["completedIndexes"], status_of(plan)["succeeded"]) == ("0-3", 4)
    assert [each[0] for each in conditions_of(run(indexed(completions=0, **limit)))] == [
        "SuccessCriteriaMet",
        "Complete",
    ]


def test_a_job_grows_and_shrinks():
    status = {**STARTED, "completedIndexes": "0-2,5", "succeeded": 4}
    assert indexes(run(indexed(status, completions=8, parallelism=8))) == [3, 4, 6, 7]
    shrunk = run(indexed(status, completions=4, parallelism=4), of(5, name="old"))
    assert deleted(shrunk) == ["old"]
    assert (status_of(shrunk)["completedIndexes"], status_of(shrunk)["succeeded"]) == ("0-2", 3)


def test_all_indexes_wait_after_a_failure_unless_each_has_a_limit():
    body = indexed(parallelism=2, backoffLimit=9)
    plan = run(body, of(0, "Failed", ended=-3))
    assert (indexes(plan), back(plan)) == ([], 7)


# Retries of each index


def each(status=EACH, limit=2, **spec):
    return indexed(status, backoffLimitPerIndex=limit, **spec)


def test_every_index_waits_on_its_own():
    failed = [of(0, "Failed", failures=0, ended=-3), of(1, "Failed", failures=1, ended=-3)]
    plan = run(each(), *failed)
    assert (indexes(plan), back(plan)) == ([2, 3], 7)
    assert counted(plan) == []
    alone = run(each(completions=2, parallelism=2), *failed)
    assert (indexes(alone), back(alone)) == ([], 7)


@cases(
    ("a new one starts beside it", [waiting(0)], [1], 7),
    ("and no second one", [waiting(0), of(1)], [], 7),
    ("two that wait keep both places", [waiting(0), waiting(1)], [], 7),
    ("it is retried in its place", [of(0, "Failed", failures=0), of(1)], [0], 0),
    ("a lower one goes first", [waiting(3)], [0, 1], None),
)
def test_an_index_that_waits_for_its_retry_keeps_its_place(pods, expected, again):
    plan = run(each(parallelism=2), *pods)
    assert (indexes(plan), back(plan)) == (expected, again)


@cases(
    ("the first failure", {}, 1, {FAILURE_COUNT: "1"}),
    ("the second", {FAILURE_COUNT: "1"}, 1, {FAILURE_COUNT: "2"}),
    ("one that is ignored", {FAILURE_COUNT: "1"}, 7, {FAILURE_COUNT: "1", IGNORED_FAILURE_COUNT: "1"}),
    (
        "after ignored ones",
        {FAILURE_COUNT: "1", IGNORED_FAILURE_COUNT: "4"},
        1,
        {FAILURE_COUNT: "2", IGNORED_FAILURE_COUNT: "4"},
    ),
    ("an unreadable count", {FAILURE_COUNT: "many"}, 1, {FAILURE_COUNT: "1"}),
)
def test_a_new_pod_goes_on_counting(before, code, expected):
    policy = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}]}
    body = each(completions=1, parallelism=1, limit=9, podFailurePolicy=policy)
    lost = of(0, "Failed", code=code, ended=-900, annotations={INDEX: "0", **before})
    plan = run(body, lost)
    (step,) = staged(plan, Create)
    found = step.body["metadata"]["annotations"]
    assert {name: found[name] for name in found if name != INDEX} == expected
    assert (counted(plan), back(plan)) == ([], 0)
    replaced = run({**body, "status": status_of(plan)}, lost, of(0, name="new"))
    assert counted(replaced) == ["p-0"]
    assert [each.get("failed", 0) for each in statuses(replaced)[1:]] == ([] if code == 7 else [1])


def test_the_first_pod_of_an_index_counts_from_nothing():
    for step in staged(run(each()), Create):
        annotations = step.body["metadata"]["annotations"]
        assert (annotations[FAILURE_COUNT], IGNORED_FAILURE_COUNT in annotations) == ("0", False)


def test_only_the_newest_failure_of_an_index_is_kept():
    plan = run(
        each(),
        of(0, "Failed", failures=0),
        of(0, "Failed", name="newer", failures=1, ended=-2),
        lost(1),
        of(1, name="again", failures=1),
    )
    assert sorted(counted(plan)) == ["p-0", "p-1"]


def test_a_failure_that_was_recorded_is_not_kept_even_if_its_replacement_is_gone():
    status = {**EACH, "uncountedTerminatedPods": {"failed": ["uid-p-0"]}}
    plan = run(each(status), of(0, "Failed", failures=0))
    assert counted(plan) == ["p-0"]
    assert status_of(plan)["failed"] == 1


@cases(
    ("below the limit it is tried again", 1, {}, [lost(1)], "", None, None),
    ("at the limit it has failed", 1, {}, [of(1, "Failed", failures=1)], "1", 1, None),
    ("others go on", 0, {}, [lost(1), lost(2)], "1,2", 2, None),
    ("as many may fail", 0, {"maxFailedIndexes": 1}, [lost(1)], "1", 1, None),
    ("one too many", 0, {"maxFailedIndexes": 0}, [lost(1)], "1", 1, "MaxFailedIndexesExceeded"),
    ("the limit of all still holds", 1, {"backoffLimit": 1}, [lost(1), lost(2)], "", 2, "BackoffLimitExceeded"),
    ("the end, when no index is left", 0, {"completions": 2}, [of(0, "Succeeded"), lost(1)], "1", 1, "FailedIndexes"),
)
def test_indexes_fail(limit, spec, pods, failed_indexes, failed, reason):
    plan = run(each(limit=limit, **spec), *pods)
    new = status_of(plan)
    assert (new["failedIndexes"], new.get("failed")) == (failed_indexes, failed)
    assert conditions_of(plan)[:1] == ([("FailureTarget", "True", reason)] if reason else [])


def test_an_index_that_failed_stays_failed_and_one_that_succeeded_stays_completed():
    status = {**EACH, "failedIndexes": "1", "failed": 1, "completedIndexes": "0", "succeeded": 1}
    plan = run(each(status, limit=0), of(1, "Succeeded", name="late"), of(0, "Failed", name="twin", failures=0))
    new = status_of(plan)
    assert (new["failedIndexes"], new["completedIndexes"], new["failed"]) == ("1", "0", 2)
    assert indexes(plan) == [2, 3]


def test_pods_that_the_end_stopped_fail_no_index():
    decided = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "m"}
    status = {**EACH, "conditions": [decided], "completedIndexes": "0", "succeeded": 1, "terminating": 1}
    plan = run(each(status, limit=0), of(1, "Failed", failures=0, **DELETING))
    assert (status_of(plan)["failedIndexes"], status_of(plan).get("failed", 0)) == ("", 0)


# Policies


@for_each(
    ("Count", None, "", None),
    ("Ignore", None, "", None),
    ("FailIndex", 1, "0", None),
    ("FailJob", 1, "", "PodFailurePolicy"),
)
def test_what_the_failure_policy_does(action, failed, failed_indexes, reason):
    policy = {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]}
    plan = run(each(podFailurePolicy=policy), of(0, "Failed", failures=0, code=42))
    new = status_of(plan)
    assert (new.get("failed"), new["failedIndexes"]) == (failed, failed_indexes)
    assert conditions_of(plan)[:1] == ([("FailureTarget", "True", reason)] if reason else [])
    if reason:
        assert new["conditions"][0]["message"] == (
            "Container main for pod default/p-0 failed with exit code 42 matching FailJob rule at index 0"
        )


def test_indexes_and_what_the_policy_did_are_measured():
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]
    pods = [of(0, "Succeeded"), of(1, "Failed", failures=0, code=42), of(2, "Failed", failures=2)]
    assert measured(run(each(podFailurePolicy={"rules": rules}), *pods)) == {
        ("job_pods_finished", "Indexed", "succeeded"): 1,
        ("job_pods_finished", "Indexed", "failed"): 2,
        ("job_finished_indexes", "succeeded", "perIndex"): 1,
        ("job_finished_indexes", "failed", "perIndex"): 2,
        ("pod_failures_handled", "FailIndex"): 1,
    }


def test_an_ignored_failure_is_not_counted_and_still_waited_for():
    policy = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}
    body = job(status=STARTED, backoffLimit=0, podFailurePolicy=policy)
    plan = run(body, of(0, "Failed", code=42, ended=-3))
    assert (counted(plan), back(plan), statuses(plan)) == (["p-0"], 7, [])


def test_the_exit_code_of_a_pod_that_was_stopped_on_purpose_is_not_judged():
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}]}
    stopped = of(0, "Failed", code=143, ended=0, **DELETING, **COUNTED)
    assert conditions_of(run(job(status=STARTED, podFailurePolicy=policy), stopped)) == []
    failed = of(0, "Failed", code=143)
    assert conditions_of(run(job(status=STARTED, podFailurePolicy=policy), failed))[0][2] == "PodFailurePolicy"


def test_with_a_failure_policy_a_pod_is_judged_once_it_has_failed():
    policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    body = job(status=STARTED, podFailurePolicy=policy)
    disrupted = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    waiting = run(body, pod("a", metadata=DELETING, **disrupted))
    assert (counted(waiting), created(waiting), status_of(waiting)["terminating"]) == ([], [], 1)
    failed = run(body, pod("a", "Failed", metadata=DELETING, **disrupted))
    assert conditions_of(failed)[0] == ("FailureTarget", "True", "PodFailurePolicy")


@cases(
    ("these indexes", [{"succeededIndexes": "0,1"}], 0),
    ("not all of them", [{"succeededIndexes": "0,2"}], None),
    ("not so many", [{"succeededCount": 3}], None),
    ("the second rule", [{"succeededCount": 3}, {"succeededIndexes": "1-3", "succeededCount": 1}], 1),
)
def test_the_success_policy_ends_the_job(rules, rule):
    plan = run(indexed(successPolicy={"rules": rules}), of(0, "Succeeded"), of(1, "Succeeded"), of(2), of(3))
    assert deleted(plan) == ([] if rule is None else ["p-2", "p-3"])
    conditions = status_of(plan).get("conditions", [])
    assert [each["message"] for each in conditions] == ([] if rule is None else [f"Matched rules at index {rule}"])


def test_a_failure_goes_before_the_success_policy():
    body = indexed(backoffLimit=0, successPolicy={"rules": [{"succeededCount": 1}]})
    plan = run(body, of(0, "Succeeded"), of(1, "Failed"))
    assert conditions_of(plan)[0] == ("FailureTarget", "True", "BackoffLimitExceeded")
