"""The decision about a batch/v1 Job that is at work: its pods and its counts."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.job.jobs import (
    LEAVING,
    NEVER,
    failed,
    finished_pod,
    leaving,
    run,
    settled,
    started,
    succeeded,
)
from tests.unit.controllers.factories import UID, at, condition, entry, job, owned_by, pod
from tests.unit.controllers.plans import (
    back,
    conditions_of,
    counted,
    created,
    deleted,
    events,
    shape,
    staged,
    status_of,
    untracked,
)
from workers.api.kinds import POD, Ref
from workers.controllers.batch.job import controller
from workers.controllers.batch.job.parallelism import MAX_PODS
from workers.controllers.batch.job.pods import TRACKING
from workers.controllers.pod_names import pod_name
from workers.decision.plan import Create, Delete, Patch, RecordEvent


def test_a_new_job_gets_its_pod_then_its_status():
    plan = run(job())
    assert shape(plan) == ["Creates", "PatchStatus"]
    assert status_of(plan) == {
        "startTime": at(0),
        "active": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    assert plan.steps[0].then == RecordEvent("Normal", "SuccessfulCreate", f"Created pod: {pod_name(job(), '', 0)}")
    assert plan.steps[0].otherwise == RecordEvent("Warning", "FailedCreate", "Error creating: {error}")
    assert plan.why == "1 active, 0 succeeded, 0 failed"
    assert run(job(status=started(succeeded=4), parallelism=2, completions=5)).why == "1 active, 4 succeeded, 0 failed"


def test_a_pod_carries_the_template_its_labels_and_its_owner():
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": NEVER}
    (step,) = staged(run(job(template=template)), Create)
    assert step.kind == POD
    assert step.body["spec"] == NEVER
    assert step.body["metadata"] == {
        "name": pod_name(job(), "", 0),
        "namespace": "default",
        "labels": {
            "batch.kubernetes.io/job-name": "crunch",
            "job-name": "crunch",
            "batch.kubernetes.io/controller-uid": UID,
            "controller-uid": UID,
            "a": "b",
        },
        "annotations": {"c": "d"},
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "ownerReferences": owned_by("batch/v1", "Job", "crunch"),
    }


ONLY_FAILED = {"podReplacementPolicy": "Failed"}
#: A pod that was stopped on purpose lost its finalizer before it was deleted.
REMOVED = finished_pod("a", "Failed", 0, metadata={**LEAVING, "finalizers": []})


def wide(parallelism, completions):
    return {"parallelism": parallelism, "completions": completions}


@cases(
    ("one by default", {}, {}, [], 1),
    ("a work queue starts as many as may run", {"parallelism": 3}, {}, [], 3),
    ("never more than completions are left", wide(3, 2), {}, [], 2),
    ("one runs already", wide(2, 5), {}, [pod("a")], 1),
    ("the last one", wide(2, 5), {"succeeded": 4}, [], 1),
    ("successes count once, recorded or not", wide(4, 5), {"succeeded": 2}, [settled("a"), succeeded("b")], 2),
    ("parallelism 0 pauses", {"parallelism": 0}, {}, [], 0),
    ("a work queue with a success adds none", {"parallelism": 3}, {}, [succeeded("a"), pod("b")], 0),
    ("a failed pod is replaced", {}, {}, [failed("a")], 1),
    ("a pod being deleted is replaced at once", {}, {}, [leaving("a")], 1),
    ("unless only failed pods are to be replaced", ONLY_FAILED, {}, [leaving("a")], 0),
    ("which it is once it has failed", ONLY_FAILED, {}, [finished_pod("a", "Failed", 0, metadata=LEAVING)], 1),
    ("a pod that vanished is replaced", {}, {}, [entry(POD, "a", None)], 1),
    ("pending and unknown pods are active", wide(2, 2), {}, [pod("a", "Pending"), pod("b", "Unknown")], 0),
    ("many are made in turns", wide(1000, 1000), {}, [], MAX_PODS),
)
def test_how_many_pods_are_made(spec, status, pods, number):
    assert len(created(run(job(status=started(**status), **spec), *pods))) == number


def test_pods_beyond_one_helping_follow_at_once():
    assert back(run(job(parallelism=1000, completions=1000))) == 0


def test_a_plan_cut_short_asks_for_the_same_names_again():
    body = job(parallelism=4, completions=4)
    names = created(run(body))
    assert names == [pod_name(body, "", ordinal) for ordinal in range(4)]
    assert created(run(body, pod(names[2]))) == [names[0], names[1], names[3]]
    assert created(run(body, entry(POD, names[0], None), pod(names[1]))) == [*names[2:], pod_name(body, "", 4)]


def test_pod_names_are_short_fixed_and_apart():
    long = job(metadata={"name": "x" * 63})
    for slot in ("", "-7", "-99999"):
        names = {pod_name(long, slot, ordinal) for ordinal in range(1000)}
        assert len(names) > 990
        assert all(len(name) == 63 for name in names)
    assert pod_name(job(), "", 0) != pod_name(job(metadata={"uid": "another"}), "", 0)


@cases(
    ("the younger goes first", wide(1, 5), ["new", "old"], ["new"]),
    ("pending before running", wide(1, 5), ["old", "pending"], ["pending"]),
    ("without a node before all", wide(1, 5), ["old", "homeless"], ["homeless"]),
    ("not ready before ready", wide(1, 5), ["ready", "old"], ["old"]),
    ("ready for a shorter time first", wide(1, 5), ["ready", "ready lately"], ["ready lately"]),
    ("more restarts first", wide(1, 5), ["old", "restarted"], ["restarted"]),
    ("parallelism 0 removes all", {"parallelism": 0}, ["old", "new"], ["new", "old"]),
    ("suspending removes all", {"suspend": True}, ["old", "new"], ["new", "old"]),
)
def test_which_pods_are_removed(spec, pods, victims):
    node, old = {"spec": {"nodeName": "n"}}, {"metadata": {"creationTimestamp": at(-90)}}
    made = {
        "old": pod("old", **node),
        "new": pod("new", **node, metadata={"creationTimestamp": at(-5)}),
        "pending": pod("pending", "Pending", **node, **old),
        "homeless": pod("homeless", **old),
        "ready": pod("ready", **node, conditions=[condition("Ready", at_=-50)]),
        "ready lately": pod("ready lately", **node, conditions=[condition("Ready", at_=-5)]),
        "restarted": pod("restarted", **node, **old, containerStatuses=[{"restartCount": 2}]),
    }
    plan = run(job(status=started(), **spec), *(made[name] for name in pods))
    assert deleted(plan) == victims
    assert created(plan) == []
    assert back(plan) == 1


@cases(
    ("nothing failed", [], None),
    ("long ago", [failed("a", -300)], None),
    ("10 s after the first failure", [failed("a", -3)], 7),
    ("20 s after the second", [failed("a", -30), failed("b", -3)], 17),
    ("a success starts the count over", [failed("a", -30), succeeded("s", -20), failed("b", -3)], 7),
    ("a success after them forgets them", [failed("a", -30), failed("b", -20), succeeded("s", -3)], None),
    ("a success in the same second does", [failed("a", -3), succeeded("s", -3)], None),
    ("the last success", [succeeded("r", -40), failed("a", -30), succeeded("s", -9), failed("b", -5)], 5),
    ("a success before both", [succeeded("s", -60), failed("a", -30), failed("b", -5)], 15),
    ("in any order", [failed("a", -30), failed("b", -5), failed("c", -9)], 35),
    ("it failed before it was deleted", [failed("a", -4, metadata={**LEAVING, "finalizers": []})], 6),
    ("doubling", [failed(str(i), -3) for i in range(6)], 317),
    ("10 minutes at most", [failed(str(i), -3) for i in range(12)], 597),
)
def test_a_failed_pod_is_replaced_after_a_wait(pods, expected):
    plan = run(job(status=started(), completions=3, backoffLimit=100), *pods)
    assert back(plan) == expected
    assert bool(created(plan)) is (expected is None)


@cases(
    ("being deleted", leaving("a"), 1),
    ("failed because it was deleted", failed("a", -2, metadata=LEAVING), 1),
    ("failed in that second", failed("a", -3, metadata=LEAVING), 1),
    ("failed before", failed("a", -4, metadata=LEAVING), 0),
)
def test_a_pod_that_was_deleted_is_replaced_without_a_wait(lost, number):
    assert len(created(run(job(status=started()), lost))) == number


def test_counts_never_decrease_when_finished_pods_are_removed():
    body = job(status=started(succeeded=2, failed=3), completions=5, parallelism=5, backoffLimit=9)
    plan = run(body, settled("a"), settled("b", "Failed"), entry(POD, "c", None))
    assert (status_of(plan)["succeeded"], status_of(plan)["failed"]) == (2, 3)


@cases(
    ("a pod being deleted is as good as failed", "TerminatingOrFailed", leaving("a"), 1),
    ("as is one that failed then", "TerminatingOrFailed", leaving("a", "Failed"), 1),
    ("not if it was removed on purpose", "TerminatingOrFailed", leaving("a", finalizers=[]), None),
    ("whatever became of it then", "TerminatingOrFailed", REMOVED, None),
    ("with the other policy it is not yet", "Failed", leaving("a"), None),
    ("but once it has failed", "Failed", leaving("a", "Failed"), 1),
    ("not if it was removed on purpose either", "Failed", REMOVED, None),
)
def test_which_deleted_pods_count_as_failed(policy, lost, number):
    plan = run(job(status=started(), podReplacementPolicy=policy), lost)
    assert status_of(plan).get("failed") == number
    assert counted(plan) == (["a"] if number else [])


def test_ready_pods_are_counted():
    ready = pod("a", conditions=[condition("Ready")])
    plan = run(job(status=started(), parallelism=2, completions=2), ready, pod("b"))
    assert (status_of(plan)["active"], status_of(plan)["ready"]) == (2, 1)


def test_an_unchanged_job_needs_no_step():
    body = job(parallelism=2, completions=2)
    pods = [pod("a"), pod("b")]
    settled = {**body, "status": status_of(run(body, *pods))}
    assert run(settled, *pods).steps == ()


def test_suspending_and_resuming():
    body = job(status=started(active=1))
    plan = run({**body, "spec": {**body["spec"], "suspend": True}}, pod("a"))
    assert deleted(plan) == ["a"]
    assert conditions_of(plan) == [("Suspended", "True", "JobSuspended")]
    assert events(plan) == ["Suspended"]
    suspended = status_of(plan)
    assert "startTime" not in suspended
    assert "active" not in suspended

    resumed = run({**body, "status": suspended})
    assert len(created(resumed)) == 1
    assert conditions_of(resumed) == [("Suspended", "False", "JobResumed")]
    assert events(resumed) == ["Resumed"]
    assert status_of(resumed)["startTime"] == at(0)


def test_a_suspension_is_reported_once():
    body = job(suspend=True)
    suspended = {**body, "status": status_of(run(body))}
    plan = run(suspended, leaving("a"))
    assert status_of(plan)["terminating"] == 1
    assert events(plan) == []


def test_a_removed_pod_loses_its_finalizer_first_and_only_as_it_was_observed():
    observed = pod("a", metadata={"resourceVersion": "41", "finalizers": [TRACKING, "example.com/own"]})
    plan = run(job(status=started(), suspend=True), observed)
    (step,) = staged(plan, Patch)
    assert step == Patch(observed.ref, {"metadata": {"finalizers": ["example.com/own"]}}, "41")
    assert staged(plan, Delete) == [Delete(observed.ref, "uid-a")]
    assert shape(plan) == ["Patchs", "Deletes", "PatchStatus", "RecordEvent", "ComeBack"]


def test_a_removal_that_was_cut_short_goes_on():
    plan = run(job(status=started(), suspend=True), pod("a", metadata={"finalizers": []}), pod("b"))
    assert untracked(plan) == ["b"]
    assert set(deleted(plan)) == {"a", "b"}


def test_a_pod_that_is_wanted_again_after_all_is_tracked_again():
    plan = run(job(status=started(), parallelism=2), pod("a", metadata={"finalizers": []}), pod("b"))
    (step,) = staged(plan, Patch)
    assert step == Patch(Ref(POD, "default", "a"), {"metadata": {"finalizers": [TRACKING]}}, "5")
    assert deleted(plan) == []


def test_pods_are_removed_in_helpings_and_reported_as_they_are():
    pods = [pod(str(number)) for number in range(MAX_PODS + 7)]
    plan = run(job(status=started(), backoffLimit=0, parallelism=1000, completions=1000), failed("f"), *pods)
    assert len(deleted(plan)) == MAX_PODS
    new = status_of(plan)
    assert (new["active"], new["terminating"], new["failed"]) == (7, MAX_PODS, 1)
    assert back(plan) == 0


def test_a_job_made_suspended_gets_no_pods_and_no_start():
    plan = run(job(suspend=True))
    assert created(plan) == []
    assert status_of(plan) == {
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [
            {
                "type": "Suspended",
                "status": "True",
                "reason": "JobSuspended",
                "message": "Job suspended",
                "lastProbeTime": at(0),
                "lastTransitionTime": at(0),
            }
        ],
    }


def test_a_mode_of_a_later_version_is_reported_and_not_run():
    plan = run(job(completionMode="Sideways"), pod("a"))
    (record,) = plan.steps
    text = "Skipped Job sync because completion mode is unknown"
    assert record == RecordEvent("Warning", "UnknownCompletionMode", text)
    going = run(job(completionMode="Sideways", metadata={"deletionTimestamp": at(0)}), pod("a"))
    assert counted(going) == ["a"]


def test_non_indexed_is_the_mode_that_is_run():
    assert len(created(run(job(completionMode="NonIndexed")))) == 1


@for_each(
    (None, False, True),
    ("kubernetes.io/job-controller", False, True),
    ("penstock.dev/job-controller", True, True),
    ("kueue.x-k8s.io/multikueue", False, False),
)
def test_whose_jobs_are_ours(manager, managed, all_):
    body = job(**({} if manager is None else {"managedBy": manager}))
    assert controller("managed").accepts(body) is managed
    assert controller("all").accepts(body) is all_
