"""Counting a Job's pods: what is written down, when the finalizers go, what a plan that was cut short leaves behind."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.job import status_rules
from tests.unit.controllers.batch.job.jobs import COUNTED, DELETING, STARTED, run
from tests.unit.controllers.factories import NOW, at, condition, entry, job, pod
from tests.unit.controllers.plans import (
    back,
    conditions_of,
    counted,
    created,
    deleted,
    events,
    measured,
    shape,
    staged,
    status_of,
    statuses,
)
from workers.api.kinds import JOB, POD, Ref
from workers.controllers.batch.job import decide
from workers.controllers.batch.job.accounting import MAX_COUNTED
from workers.controllers.batch.job.pods import TRACKING
from workers.decision.plan import NOTHING, CountMetric, Delete, PatchStatus, Unfinalize
from workers.decision.snapshot import Snapshot


def uncounted(status, kind):
    return status.get("uncountedTerminatedPods", {}).get(kind, [])


def test_an_end_is_recorded_before_its_finalizer_goes_and_counted_after():
    body = job(status=STARTED, completions=3, parallelism=3)
    plan = run(body, pod("s", "Succeeded"), pod("f", "Failed", metadata={"creationTimestamp": at(-900)}), pod("a"))
    assert shape(plan) == ["PatchStatus", "Unfinalizes", "Creates", "PatchStatus"]
    early, late = statuses(plan)
    assert early["uncountedTerminatedPods"] == {"succeeded": ["uid-s"], "failed": ["uid-f"]}
    assert (early.get("succeeded", 0), early.get("failed", 0), early["active"]) == (0, 0, 1)
    assert staged(plan, Unfinalize) == [
        Unfinalize(Ref(POD, "default", name), f"uid-{name}", TRACKING) for name in ("s", "f")
    ]
    assert late["uncountedTerminatedPods"] == {}
    assert (late["succeeded"], late["failed"], late["active"]) == (1, 1, 2)


@cases(
    ("no finalizer went", [pod("s", "Succeeded"), pod("f", "Failed")], ["s", "f"], 4, 3),
    ("one did", [pod("s", "Succeeded", metadata=COUNTED), pod("f", "Failed")], ["f"], 4, 3),
    ("both did", [pod("s", "Succeeded", metadata=COUNTED), pod("f", "Failed", metadata=COUNTED)], [], 4, 3),
    ("the pods are gone", [entry(POD, "s", None), entry(POD, "f", None)], [], 4, 3),
    ("and forgotten", [], [], 4, 3),
    ("written down as failed it stays failed", [pod("s", "Succeeded"), pod("f", "Succeeded")], ["s", "f"], 4, 3),
    ("a third ended", [pod("s", "Succeeded"), pod("f", "Failed"), pod("t", "Succeeded")], ["s", "f", "t"], 5, 3),
)
def test_a_plan_cut_short_is_taken_up_where_it_stopped(pods, released, succeeded, failed):
    waiting = {"succeeded": ["uid-s"], "failed": ["uid-f"]}
    status = {**STARTED, "succeeded": 3, "failed": 2, "uncountedTerminatedPods": waiting}
    plan = run(job(status=status, completions=9, parallelism=0, backoffLimit=9), *pods)
    assert counted(plan) == released
    new = status_of(plan)
    assert (new["succeeded"], new["failed"], new["uncountedTerminatedPods"]) == (succeeded, failed, {})


def test_an_end_that_is_all_that_was_missing_ends_the_job_in_the_same_plan():
    plan = run(job(status=STARTED, completions=1), pod("s", "Succeeded"))
    assert shape(plan) == ["PatchStatus", "Unfinalizes", "PatchStatus", "RecordEvent"]
    early, late = statuses(plan)
    assert [each["type"] for each in early["conditions"]] == ["SuccessCriteriaMet"]
    assert "completionTime" not in early
    assert [each["type"] for each in late["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert late["completionTime"] == at(0)


def test_a_job_is_not_completed_before_it_started_by_a_clock_that_is_ahead():
    plan = run(job(status={**STARTED, "startTime": at(9)}, completions=1), pod("s", "Succeeded"))
    assert status_of(plan)["completionTime"] == at(9)


def test_every_status_of_a_plan_keeps_the_rules():
    body = job(status=STARTED, completions=2, parallelism=2, backoffLimit=0)
    plan = run(body, pod("s", "Succeeded"), pod("f", "Failed"))
    old = STARTED
    for new in statuses(plan):
        status_rules.check(old, new, body["spec"])
        old = new
    assert conditions_of(plan)[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_pods_are_counted_in_helpings():
    pods = [pod(str(number), "Succeeded") for number in range(MAX_COUNTED + 7)]
    plan = run(job(status=STARTED, completions=MAX_COUNTED + 7, parallelism=9), *pods)
    assert len(counted(plan)) == MAX_COUNTED
    assert back(plan) == 0
    assert conditions_of(plan) == [("SuccessCriteriaMet", "True", "CompletionsReached")]
    assert status_of(plan)["succeeded"] == MAX_COUNTED
    rest = [pod(str(number), "Succeeded", metadata=COUNTED) for number in range(MAX_COUNTED)] + pods[MAX_COUNTED:]
    last = run({**job(completions=MAX_COUNTED + 7, parallelism=9), "status": status_of(plan)}, *rest)
    assert len(counted(last)) == 7
    assert conditions_of(last)[-1][0] == "Complete"


def test_a_counted_pod_is_not_looked_at_again():
    body = job(status={**STARTED, "succeeded": 1}, completions=2)
    plan = run(body, pod("s", "Succeeded", metadata=COUNTED), pod("a"))
    assert counted(plan) == []
    assert status_of(plan)["succeeded"] == 1


def test_what_cannot_be_made_does_not_hold_up_what_has_ended():
    """The first steps count; only then pods are made, which a quota may refuse for ever."""
    body = job(status=STARTED, completions=3, parallelism=2)
    assert shape(run(body, pod("s", "Succeeded")))[:2] == ["PatchStatus", "Unfinalizes"]
    written = {**STARTED, "uncountedTerminatedPods": {"succeeded": ["uid-s"]}}
    again = run({**body, "status": written}, pod("s", "Succeeded", metadata=COUNTED), failures=1)
    assert shape(again) == ["PatchStatus", "Creates", "PatchStatus"]
    assert statuses(again)[0]["succeeded"] == 1


def test_a_job_whose_pods_are_refused_starts_all_the_same():
    """Its deadline counts from the start, which must not begin anew with every attempt."""
    assert shape(run(job(activeDeadlineSeconds=60))) == ["Creates", "PatchStatus", "ComeBack"]
    again = run(job(activeDeadlineSeconds=60), failures=1)
    assert shape(again) == ["PatchStatus", "Creates", "PatchStatus", "ComeBack"]
    first, last = statuses(again)
    assert (first["startTime"], first.get("active", 0), last["active"]) == (at(0), 0, 1)


def test_what_a_plan_counts_is_measured():
    body = job(status=STARTED, completions=3, parallelism=3, backoffLimit=0)
    plan = run(body, pod("s", "Succeeded"), pod("f", "Failed"))
    assert measured(plan) == {
        ("job_pods_finished", "NonIndexed", "succeeded"): 1,
        ("job_pods_finished", "NonIndexed", "failed"): 1,
        ("jobs_finished", "NonIndexed", "failed", "BackoffLimitExceeded"): 1,
    }
    (early, late), kinds = statuses(plan), [type(step) for step in plan.steps]
    assert kinds.index(CountMetric) > max(place for place, step in enumerate(plan.steps) if step == PatchStatus(late))
    assert measured(run({**body, "status": early}, pod("s", "Succeeded"), pod("f", "Failed"))) == measured(plan)


# API servers that do not know the field, and Jobs of a version that did not use it


def test_where_uids_cannot_be_recorded_what_is_seen_counts():
    old = {"startTime": at(-60), "active": 1, "succeeded": 1}
    body = job(status=old, completions=9, parallelism=3, backoffLimit=9)
    ended = [pod(name, "Succeeded", metadata=COUNTED) for name in "st"] + [pod("f", "Failed", metadata=COUNTED)]
    stopped = [pod("c", metadata={**COUNTED, **DELETING}), pod("d", "Failed", metadata={**COUNTED, **DELETING})]
    plan = run(body, *ended, pod("a"), pod("b"), *stopped)
    new = status_of(plan)
    assert (new["succeeded"], new["failed"]) == (2, 1)
    assert not {"ready", "terminating", "uncountedTerminatedPods"} & set(new)


def test_a_server_that_drops_new_fields_is_not_written_to_for_ever():
    """All that such a server keeps of the status is what the next decision finds; that must be enough."""
    body = job(completions=2, parallelism=2, backoffLimit=3)
    running = [pod(name, conditions=[condition("Ready")]) for name in "ab"]

    def kept(plan):
        dropped = {"ready", "terminating", "uncountedTerminatedPods"}
        return {field: value for field, value in status_of(plan).items() if field not in dropped}

    body["status"] = kept(run(body, *running))
    assert run(body, *running).steps == ()
    plan = run(body, pod("a", "Succeeded"), running[1])
    assert counted(plan) == ["a"]
    body["status"] = kept(plan)
    assert body["status"]["succeeded"] == 1
    left = [pod("a", "Succeeded", metadata=COUNTED), running[1]]
    assert run(body, *left).steps == ()
    body["status"] = kept(run(body, left[0], pod("b", "Succeeded")))
    assert body["status"]["succeeded"] == 2
    assert [each["type"] for each in body["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]


@for_each(
    ("FailureTarget", "TerminatingOrFailed", 1),
    ("FailureTarget", "Failed", 1),
    ("SuccessCriteriaMet", "TerminatingOrFailed", 0),
    ("SuccessCriteriaMet", "Failed", 0),
)
def test_pods_stopped_at_the_end_are_let_go_at_once(target, policy, failed):
    """Nothing depends any more on how they end; those of a failed Job count as failed."""
    decided = {**STARTED, "conditions": [condition(target, reason="Because")]}
    plan = run(job(status=decided, completions=2, podReplacementPolicy=policy), pod("a", metadata=DELETING))
    assert counted(plan) == ["a"]
    assert (status_of(plan).get("failed", 0), status_of(plan)["terminating"]) == (failed, 1)
    assert back(plan) == 1


# Jobs on their way out


def test_a_job_being_deleted_counts_and_lets_go_and_does_nothing_else():
    status = {**STARTED, "active": 2}
    body = job(status=status, completions=4, parallelism=4, metadata=DELETING, suspend=True)
    plan = run(body, pod("s", "Succeeded"), pod("f", "Failed"), pod("a"), pod("b", metadata=DELETING))
    assert (created(plan), deleted(plan)) == ([], [])
    assert set(counted(plan)) == {"s", "f", "a", "b"}
    assert shape(plan) == ["PatchStatus", "Unfinalizes", "ComeBack"]
    assert uncounted(status_of(plan), "succeeded") == ["uid-s"]
    assert uncounted(status_of(plan), "failed") == ["uid-f", "uid-b"]
    assert conditions_of(plan) == []
    left = [pod("s", "Succeeded", metadata=COUNTED), pod("a", metadata=COUNTED), entry(POD, "b", None)]
    new = status_of(run({**body, "status": status_of(plan)}, *left))
    assert (new["succeeded"], new["failed"], new["active"], new["terminating"]) == (1, 2, 1, 0)
    assert new["startTime"] == at(-60)


def test_a_job_being_deleted_is_still_finished_if_its_end_was_decided():
    decided = {**STARTED, "conditions": [condition("FailureTarget", reason="DeadlineExceeded", message="m")]}
    body = job(status=decided, metadata=DELETING)
    plan = run({**body, "status": status_of(run(body, pod("f", "Failed")))}, pod("f", "Failed", metadata=COUNTED))
    assert [each[0] for each in conditions_of(plan)] == ["FailureTarget", "Failed"]
    assert conditions_of(run(job(status=STARTED, metadata=DELETING), pod("s", "Succeeded"))) == []


def test_a_job_that_is_gone_holds_no_pod():
    snapshot = Snapshot(
        Ref(JOB, "default", "crunch"),
        None,
        {POD.id: (pod("a"), pod("s", "Succeeded", metadata=COUNTED), pod("f", "Failed"), entry(POD, "g", None))},
    )
    plan = decide(snapshot, NOW)
    assert shape(plan) == ["Unfinalizes"]
    assert counted(plan) == ["a", "f"]
    assert decide(Snapshot(snapshot.ref, None), NOW).steps == ()


def test_a_finished_job_holds_no_pod_and_stops_unobserved_pods():
    body = job(status={**STARTED, "conditions": [condition("Complete", at_=-20)]}, ttlSecondsAfterFinished=50)
    plan = run(body, pod("late"), pod("end", "Failed"), pod("going", metadata=DELETING))
    assert deleted(plan) == ["late"]
    assert counted(plan) == ["late", "end", "going"]
    assert statuses(plan) == []
    assert back(plan) == 30


def test_a_finished_job_that_is_being_deleted_is_not_deleted_again():
    body = job(status={"conditions": [condition("Complete", at_=-20)]}, ttlSecondsAfterFinished=1, metadata=DELETING)
    assert run(body) == NOTHING
    assert deleted(run(body, pod("x", "Failed"))) == []
    steps = run({**body, "metadata": {**body["metadata"], "deletionTimestamp": None}}).steps
    assert steps[0] == Delete(Ref(JOB, "default", "crunch"), body["metadata"]["uid"], "Foreground")


@for_each("Failed", "Complete")
def test_every_end_is_reported_once(type_):
    target = {"Failed": "FailureTarget", "Complete": "SuccessCriteriaMet"}[type_]
    decided = {**STARTED, "conditions": [condition(target, reason="Because", message="so")]}
    plan = run(job(status=decided, completions=5), entry(POD, "a", None))
    assert events(plan) == ["Because" if type_ == "Failed" else "Completed"]
    assert [(each["reason"], each["message"]) for each in status_of(plan)["conditions"]] == [("Because", "so")] * 2
