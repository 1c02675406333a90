"""The decision about a ScaledJob: which steps, in which order, and what status."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, child, gone, micros, pod, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import back, condition, created, deleted, events, shape, statuses, verdict
from workers.api.kinds import JOB, POD, Ref
from workers.controllers.keda.scaledjob import CONTROLLER, decide, names
from workers.controllers.keda.scaledjob.demand import MAX_READING_AGE
from workers.controllers.keda.scaledjob.jobs import MAX_CREATES
from workers.decision.plan import NOTHING, ComeBack, Delete, Figure, Patch, PatchStatus, Plan, RecordEvent, Together
from workers.decision.snapshot import Snapshot


def settled(body, *children, **more):
    """The same object after its decision's status was written."""
    (status,) = statuses(decide(snapshot(body, *children, **more), NOW))
    return {**body, "status": status}


def test_without_a_reading_it_asks_for_one_and_creates_nothing():
    plan = decide(snapshot(scaled_job(minReplicaCount=2)), NOW)
    assert shape(plan) == ["PollNow", "PatchStatus"]
    assert statuses(plan)[0]["conditions"] == [
        {"type": "Ready", "status": "Unknown"},
        {"type": "Active", "status": "Unknown"},
        {"type": "Fallback", "status": "Unknown"},
        {"type": "Paused", "status": "False"},
    ]
    assert statuses(plan)[0]["triggersTypes"] == "redis"


def test_a_plan_tells_all_that_it_does():
    plan = decide(snapshot(scaled_job(minReplicaCount=1), child("work-a"), reading=reading(sample(3))), NOW)
    together, written, *told = plan.steps
    assert (together.then, together.otherwise, len(together.steps)) == (
        RecordEvent("Normal", "KEDAJobsCreated", "Created {done} jobs"),
        RecordEvent("Warning", "KEDAJobCreateFailed", "Creating a job failed: {error}"),
        3,
    )
    active = "scaling is done because the triggers are active"
    stated = (("Ready", "ScaledJobReady", "defined correctly and ready to scale"), ("Active", "ScalerActive", active))
    assert written.status == {
        "triggersTypes": "redis",
        "triggersActivity": {"s0-redis-work": {"isActive": True}},
        "lastActiveTime": at(0),
        "conditions": [
            *({"type": each, "status": "True", "reason": reason, "message": text} for each, reason, text in stated),
            {"type": "Fallback", "status": "Unknown"},
            {"type": "Paused", "status": "False"},
        ],
    }
    assert told == [
        RecordEvent("Normal", "KEDAScalersStarted", "Triggers are being measured"),
        RecordEvent("Normal", "ScaledJobReady", "The ScaledJob is ready to scale"),
        RecordEvent("Normal", "ScaledJobActive", "Scaling is done because the triggers are active"),
    ]
    assert plan.why == "3 waiting, 1 running, 0 ended since the reading: 3 to create"
    assert plan.levels == (("scaledjob_running", 1),)
    assert plan.figures == (
        Figure("s0-redis-work waiting (1 per Job)", 3),
        Figure("minimum", 1),
        Figure("maximum beyond it", 100),
        Figure("queue", 3),
        Figure("Jobs the queue asks for", 3),
        Figure("of these within the maximum (maxScale)", 3),
        Figure("Jobs not finished", 1),
        Figure("of these pending", 1),
        Figure("ended since the reading began", 0),
        Figure("of these failed or may have", 0),
        Figure("made by this reading", 0),
        Figure("Jobs that have room in the minimum", 1, "1 + min(0, 0 + 0)"),
        Figure("strategy default", 3, "3 - 0"),
        Figure("not above the queue", 3, "max(0, min(3, 3))"),
        Figure("events certainly without a Job", 3, "3 - (1 + 0 - 1)"),
        Figure("to create", 3, "max(0, min(3, 3))"),
    )


def test_a_reading_of_another_generation_is_none():
    body = settled(scaled_job(), reading=reading(sample(5)))
    changed = {**body, "metadata": {**body["metadata"], "generation": 2}}
    plan = decide(snapshot(changed, reading=reading(sample(5), generation=1)), NOW)
    assert shape(plan) == ["PollNow"]


def test_jobs_are_created_before_anything_that_can_wait():
    plan = decide(snapshot(scaled_job(), reading=reading(sample(2))), NOW)
    assert created(plan) == ["work-10-0", "work-10-1"]
    assert shape(plan)[:2] == ["Creates", "PatchStatus"]
    stage = plan.steps[0]
    assert stage.then == RecordEvent("Normal", "KEDAJobsCreated", "Created {done} jobs")
    assert stage.otherwise.reason == "KEDAJobCreateFailed"
    assert "{error}" in stage.otherwise.message
    assert plan.why == "2 waiting, 0 running, 0 ended since the reading: 2 to create"


def test_the_same_reading_creates_only_what_is_missing():
    taken = [child("work-10-0"), gone("work-10-2", seen=0)]
    assert created(decide(snapshot(scaled_job(), *taken, reading=reading(sample(4))), NOW)) == [
        "work-10-1",
        "work-10-3",
    ]


def test_a_decision_that_changes_nothing_has_no_steps():
    seen = {"reading": reading(sample(0))}
    body = settled(scaled_job(), **seen)
    assert decide(snapshot(body, **seen), NOW).steps == ()


def test_a_job_that_ended_since_the_reading_calls_for_a_fresh_one():
    plan = decide(snapshot(scaled_job(), child("work-z-0", "Complete", seen=0), reading=reading(sample(3))), NOW)
    assert created(plan) == ["work-10-0", "work-10-1"]
    assert shape(plan)[:2] == ["Creates", "PollNow"]


FAILED, GONE = child("work-10-0", "Failed", seen=0), gone("work-10-1", seen=0)


@cases(
    ("a failed one", {}, [FAILED, child("work-10-1", "Failed", seen=0)], False),
    ("a failed one and a completed one", {}, [FAILED, child("work-10-1", "Complete", seen=0)], True),
    ("a failed one and a deleted one", {}, [FAILED, GONE], False),
    ("a deleted one", {}, [GONE], True),
    ("a deleted one, and failed ones stay for a poll", {"ttl": 30}, [GONE], True),
    ("a deleted one that may have failed", {"ttl": 29}, [GONE], False),
    ("failed ones stay for a poll of milliseconds", {"ttl": 1, "pollingIntervalMilliseconds": 900}, [GONE], True),
    ("and for no poll of minutes", {"ttl": 30, "pollingIntervalMilliseconds": 60_000}, [GONE], False),
    ("nor for one as rare by default", {"ttl": 30, "every": 60.0}, [GONE], False),
    ("a deleted one that may have failed: no history", {"failedJobsHistoryLimit": 0}, [GONE], False),
)
def test_jobs_that_failed_are_replaced_with_the_next_poll(spec, ended, polls):
    """ttl: of the Jobs. every: the interval of an object that names none."""
    body = scaled_job(
        maxReplicaCount=2, **{name: value for name, value in spec.items() if name not in ("ttl", "every")}
    )
    body["spec"]["jobTargetRef"]["ttlSecondsAfterFinished"] = spec.get("ttl")
    found = reading(sample(len(ended)), interval=spec.get("every", 0.0))
    plan = decide(snapshot(body, *ended, reading=found), NOW)
    assert created(plan) == []
    assert ("PollNow" in shape(plan)) is polls


@cases(
    ("the history keeps one", 1, [FAILED, GONE], []),
    ("both", 2, [FAILED, GONE], ["work-10-2"]),
    ("one that completed", 1, [child("work-10-0", "Complete", seen=0), GONE], ["work-10-2", "work-10-3"]),
)
def test_failed_jobs_beyond_the_history_keep_their_room_too(limit, ended, made):
    body = scaled_job(maxReplicaCount=2, failedJobsHistoryLimit=limit)
    assert created(decide(snapshot(body, *ended, reading=reading(sample(50))), NOW)) == made


@cases(
    ("seconds", {"pollingInterval": 20}, 21),
    ("milliseconds", {"pollingInterval": 20, "pollingIntervalMilliseconds": 500}, 1.5),
)
def test_a_minimum_of_failed_jobs_is_decided_on_after_the_next_poll(interval, seconds):
    body = scaled_job(minReplicaCount=1, **interval)
    plan = decide(snapshot(body, child("work-10-0", "Failed", seen=0), reading=reading(sample(0))), NOW)
    assert created(plan) == []
    assert back(plan) == seconds
    plan = decide(
        snapshot(body, child("work-10-0", "Failed", seen=0), reading=reading(sample(0), id=37, started=1)), NOW
    )
    assert created(plan) == ["work-11-0"]


def test_a_minimum_that_is_filled_in_part_is_decided_on_after_the_next_poll():
    body = scaled_job(minReplicaCount=2, pollingInterval=20)
    plan = decide(snapshot(body, child("work-10-0", "Failed", seen=0), reading=reading(sample(0))), NOW)
    assert created(plan) == ["work-10-1"]
    assert back(plan) == 21


def test_a_minimum_of_jobs_that_end_at_once_comes_once_per_poll():
    brief = child(names.of("work", micros(-2)).name(0), "Complete", seen=0)
    body = scaled_job(minReplicaCount=1, pollingInterval=20)
    plan = decide(snapshot(body, brief, reading=reading(sample(0), id=micros(-2), started=-2)), NOW)
    assert created(plan) == []
    assert "PollNow" not in shape(plan)
    assert back(plan) == 21
    plan = decide(snapshot(body, brief, reading=reading(sample(0), id=micros(18), started=18)), NOW)
    assert len(created(plan)) == 1


@cases(
    ("a schedule, and Jobs that ended at once", ("cron",), -2, False),
    ("a schedule, and Jobs that lived", ("cron",), -60, True),
    ("a queue", ("redis",), -2, True),
    ("a queue beside a schedule", ("cron", "redis"), -2, True),
)
def test_jobs_that_end_at_once_ask_for_no_poll_of_a_schedule(types, asked_at, polls):
    """A schedule asks for as many Jobs however many have ended."""
    ended = child(names.of("work", micros(asked_at)).name(0), "Complete", seen=0)
    samples = [sample(1, name=f"s{index}", type=type_) for index, type_ in enumerate(types)]
    plan = decide(snapshot(scaled_job(), ended, reading=reading(*samples, id=micros(-3), started=-3)), NOW)
    assert created(plan) == []
    assert ("PollNow" in shape(plan)) is polls


def test_a_reading_that_outlived_its_time_is_replaced_and_makes_no_jobs():
    old = reading(sample(3), started=-MAX_READING_AGE / 1_000_000 - 1)
    plan = decide(snapshot(scaled_job(), reading=old), NOW)
    assert created(plan) == []
    assert shape(plan)[0] == "PollNow"
    young = reading(sample(3), started=-MAX_READING_AGE / 1_000_000 + 1)
    assert len(created(decide(snapshot(scaled_job(), reading=young), NOW))) == 3


def test_more_jobs_than_one_plan_may_create_come_in_several_plans():
    body = scaled_job(maxReplicaCount=5000)
    plan = decide(snapshot(body, reading=reading(sample(MAX_CREATES + 7))), NOW)
    assert len(created(plan)) == MAX_CREATES
    assert plan.steps[-1] == ComeBack(NOW)


@cases(
    ("work waits", [sample(3)], {}, ("True", "ScaledJobReady"), ("True", "ScalerActive")),
    ("nothing waits", [sample(0)], {}, ("True", "ScaledJobReady"), ("False", "ScalerNotActive")),
    ("a minimum", [sample(0)], {"minReplicaCount": 1}, ("True", "ScaledJobReady"), ("True", "ScalerActive")),
    ("the trigger fails", [sample(error="x")], {}, ("False", "TriggerError"), ("False", "ScalerNotActive")),
    (
        "one of two fails, the other has work",
        [sample(error="x"), sample(1)],
        {},
        ("Unknown", "PartialTriggerError"),
        ("True", "ScalerActive"),
    ),
    (
        "one of two fails, the other has none",
        [sample(error="x"), sample(0)],
        {},
        ("False", "TriggerError"),
        ("False", "ScalerNotActive"),
    ),
    (
        "all fail, but there is a minimum",
        [sample(error="x")],
        {"minReplicaCount": 1},
        ("Unknown", "PartialTriggerError"),
        ("True", "ScalerActive"),
    ),
)
def test_conditions_after_a_poll(samples, spec, ready, active):
    plan = decide(snapshot(scaled_job(**spec), reading=reading(*samples)), NOW)
    assert verdict(plan, "Ready") == ready
    assert verdict(plan, "Active") == active


def test_a_failing_trigger_is_unknown_and_not_zero():
    """Its activity stays, no Job is created for it, and the condition names it."""
    before = settled(scaled_job(), reading=reading(sample(3)))
    plan = decide(snapshot(before, reading=reading(sample(9, error="connection refused"))), NOW)
    assert created(plan) == []
    assert "s0-redis-work: connection refused" in condition(plan, "Ready")["message"]
    assert statuses(plan)[0]["triggersActivity"] == {"s0-redis-work": {"isActive": True}}
    assert RecordEvent("Warning", "KEDAScalerFailed", "s0-redis-work: connection refused") in plan.steps


def test_a_problem_with_the_triggers_fails_the_check_and_is_told():
    problem = "triggers[0] (redis): listName is required"
    plan = decide(snapshot(scaled_job(minReplicaCount=1), reading=reading(problem=problem)), NOW)
    assert created(plan) == []
    assert verdict(plan, "Ready") == ("False", "ScaledJobCheckFailed")
    assert verdict(plan, "Active") == ("Unknown", "UnknownState")
    assert condition(plan, "Ready")["message"] == problem
    assert RecordEvent("Warning", "ScaledJobCheckFailed", problem) in plan.steps


def test_a_wrong_manifest_fails_the_check_and_names_object_and_field():
    plan = decide(snapshot(scaled_job(triggers=[]), reading=reading(sample(3))), NOW)
    assert created(plan) == []
    assert verdict(plan, "Ready") == ("False", "ScaledJobCheckFailed")
    assert condition(plan, "Ready")["message"].startswith("ScaledJob default/work: spec.triggers:")
    assert events(plan) == ["ScaledJobCheckFailed"]


def test_a_wrong_trigger_is_named_beside_a_wrong_manifest():
    problem = "trigger 0 (ibmmq): is not supported"
    told = {}
    for generation in (0, 1):
        seen = snapshot(scaled_job(maxReplicaCount=0), reading=reading(problem=problem, generation=generation))
        told[generation] = condition(decide(seen, NOW), "Ready")["message"]
    assert all("spec.maxReplicaCount" in message for message in told.values())
    assert problem in told[1]
    assert problem not in told[0], "that was another spec"


def test_an_event_is_told_once_per_change():
    seen = {"reading": reading(sample(0, error="x"))}
    body = settled(scaled_job(), **seen)
    assert decide(snapshot(body, **seen), NOW).steps == ()


def test_activity_is_told_when_it_flips():
    idle = settled(scaled_job(), reading=reading(sample(0)))
    busy = decide(snapshot(idle, reading=reading(sample(1))), NOW)
    assert [e for e in events(busy) if "ctive" in e] == ["ScaledJobActive"]
    body = {**idle, "status": statuses(busy)[0]}
    assert events(decide(snapshot(body, child("work-10-0"), reading=reading(sample(0), id=37)), NOW)) == [
        "ScaledJobInactive"
    ]


def test_a_failed_attempt_is_shown_before_the_next_and_taken_back_after_it():
    refused = 'Job.batch "work-10-0" is invalid: spec.template: Required value'
    body = settled(scaled_job(), reading=reading(sample(1)))
    failing = snapshot(body, reading=reading(sample(1)), failures=1, last_error=refused)
    plan = decide(failing, NOW)
    assert [each for each in shape(plan) if each != "RecordEvent"] == ["PatchStatus", "Creates", "PatchStatus"]
    bad, good = statuses(plan)
    assert refused in bad["conditions"][0]["message"]
    assert bad["conditions"][0]["status"] == "False"
    assert bad["conditions"][1]["status"] == "True"
    assert good["conditions"][0]["status"] == "True"
    again = decide(snapshot({**body, "status": bad}, reading=reading(sample(1)), failures=2, last_error=refused), NOW)
    assert shape(again)[:2] == ["Creates", "PatchStatus"]


def test_triggers_whose_jobs_are_refused_are_active_all_the_same():
    """The plan ends where the API server refuses: what was said of activity before that stays."""
    idle = settled(scaled_job(), reading=reading(sample(0)))
    plan = decide(snapshot(idle, reading=reading(sample(1)), failures=1, last_error="422: no such restartPolicy"), NOW)
    refused = plan.steps[: shape(plan).index("Creates")]
    (bad,) = (step.status for step in refused if isinstance(step, PatchStatus))
    assert [each["status"] for each in bad["conditions"][:2]] == ["False", "True"]
    assert bad["conditions"][1]["reason"] == "ScalerActive"
    assert bad["triggersActivity"] == {"s0-redis-work": {"isActive": True}}
    assert events(plan).count("ScaledJobActive") == 1


def test_an_error_with_nothing_to_create_is_not_shown():
    body = settled(scaled_job(), reading=reading(sample(0)))
    assert decide(snapshot(body, reading=reading(sample(0)), failures=1, last_error="time-out"), NOW).steps == ()


@cases(
    ("never set", None, None, 0),
    ("younger than a poll", None, 29, -29),
    ("a poll old", None, 30, 0),
    ("at least 5 s", 1, 4, -4),
    ("5 s old", 1, 5, 0),
    ("a long interval", 60, 59, -59),
)
def test_when_last_active_time_is_rewritten(interval, age, expected):
    status = {} if age is None else {"lastActiveTime": at(-age)}
    body = scaled_job(status=status, **({} if interval is None else {"pollingInterval": interval}))
    plan = decide(snapshot(body, child("work-10-0"), reading=reading(sample(1))), NOW)
    assert statuses(plan)[0]["lastActiveTime"] == at(expected)


def test_last_active_time_stays_when_nothing_is_active():
    body = scaled_job(status={"lastActiveTime": at(-500)})
    assert statuses(decide(snapshot(body, reading=reading(sample(0))), NOW))[0]["lastActiveTime"] == at(-500)


def test_status_tells_types_and_activity_and_keeps_what_others_wrote():
    triggers = [
        {"type": "redis", "metadata": {}, "authenticationRef": {"name": "secret"}},
        {"type": "cron", "metadata": {}},
        {"type": "redis", "metadata": {}, "authenticationRef": {"name": "secret"}},
    ]
    body = scaled_job(triggers=triggers, status={"externalMetricNames": ["x"]})
    samples = [sample(1, name="s0"), sample(0, name="s1"), sample(name="s2", error="x")]
    status = statuses(decide(snapshot(body, reading=reading(*samples)), NOW))[0]
    assert status["triggersTypes"] == "redis,cron"
    assert status["authenticationsTypes"] == "secret"
    assert status["triggersActivity"] == {"s0": {"isActive": True}, "s1": {"isActive": False}}
    assert status["externalMetricNames"] == ["x"]


@for_each(("true", True), ("1", True), ("", True), ("yes", True), ("false", False), ("0", False), ("F", False))
def test_paused_by_annotation(annotation, paused):
    body = scaled_job(metadata={"annotations": {"autoscaling.keda.sh/paused": annotation}})
    plan = decide(snapshot(body, reading=reading(sample(3))), NOW)
    assert bool(created(plan)) is not paused
    assert verdict(plan, "Paused")[0] == str(paused)


def test_pausing_stops_everything_and_says_so_once():
    old = [child(f"work-z-{i}", "Complete") for i in range(3)]
    paused = scaled_job(
        metadata={"annotations": {"autoscaling.keda.sh/paused": "true"}},
        successfulJobsHistoryLimit=0,
        minReplicaCount=1,
    )
    plan = decide(snapshot(paused, *old, reading=reading(sample(3))), NOW)
    assert created(plan) == deleted(plan) == []
    assert events(plan)[-2:] == ["ScaledJobPaused", "KEDAScalersStopped"]
    assert verdict(plan, "Ready") == ("True", "ScaledJobReady")
    assert "skipped" in condition(plan, "Ready")["message"]
    assert decide(snapshot({**paused, "status": statuses(plan)[0]}, *old), NOW).steps == ()


def test_resuming_polls_first_and_creates_on_what_that_finds():
    paused = scaled_job(metadata={"annotations": {"autoscaling.keda.sh/paused": "true"}})
    status = statuses(decide(snapshot(paused), NOW))[0]
    plan = decide(snapshot(scaled_job(status=status), reading=reading(sample(3))), NOW)
    assert shape(plan)[0] == "PollNow"
    assert created(plan) == []
    assert verdict(plan, "Paused") == ("False", "ScaledJobUnpaused")
    assert "ScaledJobUnpaused" in events(plan)
    after = snapshot({**scaled_job(), "status": statuses(plan)[0]}, reading=reading(sample(3), id=37))
    assert len(created(decide(after, NOW))) == 3


@cases(
    ("by default at once", {}, "Background"),
    ("in the foreground", {"rollout": {"strategy": "immediate", "propagationPolicy": "foreground"}}, "Foreground"),
    ("gradual", {"rollout": {"strategy": "gradual"}}, None),
    ("the old field", {"rolloutStrategy": "gradual"}, None),
    ("the old field wins", {"rollout": {"strategy": "gradual"}, "rolloutStrategy": "immediate"}, "Background"),
)
def test_rollout_of_a_changed_spec(rollout, expected):
    body = scaled_job(metadata={"generation": 2}, **rollout)
    jobs = [child("work-z-0"), child("work-z-1", "Complete"), child("work-z-2", generation=2)]
    plan = decide(snapshot(body, *jobs, reading=reading(sample(0), generation=2)), NOW)
    stage = next((step for step in plan.steps if isinstance(step, Together)), None)
    if expected is None:
        assert stage is None
        return
    assert stage.steps == tuple(
        Delete(Ref(JOB, "default", name), f"uid-{name}", expected) for name in ("work-z-0", "work-z-1")
    )
    assert events(plan)[0] == "ScaledJobRolloutCleanupStarted"
    assert stage.then.reason == "ScaledJobRolloutCleanupCompleted"
    assert stage.otherwise.reason == "ScaledJobRolloutCleanupFailed"
    assert plan.steps[-1] == ComeBack(NOW)


def test_a_rollout_goes_before_the_clean_up():
    body = scaled_job(metadata={"generation": 2}, successfulJobsHistoryLimit=0)
    jobs = [child("work-z-0", "Complete"), child("work-z-1", "Complete", generation=2)]
    assert deleted(decide(snapshot(body, *jobs, reading=reading(sample(0), generation=2)), NOW)) == ["work-z-0"]


def test_a_job_without_a_generation_belongs_to_an_earlier_one():
    bare = child("work-z-0")
    del bare.body["metadata"]["annotations"]
    assert deleted(decide(snapshot(scaled_job(), bare, reading=reading(sample(0))), NOW)) == ["work-z-0"]


def test_what_is_being_deleted_is_not_deleted_again():
    leaving = child("work-z-0", generation=0)
    leaving.body["metadata"]["deletionTimestamp"] = at(-1)
    ended = child("work-z-1", "Complete")
    ended.body["metadata"]["deletionTimestamp"] = at(-1)
    body = scaled_job(successfulJobsHistoryLimit=0)
    assert deleted(decide(snapshot(body, leaving, ended, reading=reading(sample(0))), NOW)) == []


def test_history_keeps_the_youngest_of_either_kind():
    jobs = [
        child("done-old", "Complete", ended_at=-50),
        child("done-new", "Complete", ended_at=-20),
        child("done-mid", "Complete", ended_at=-30),
        child("bad-new", "Failed", ended_at=-5),
        child("bad-old", "Failed", ended_at=-70),
        child("runs"),
    ]
    body = scaled_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    plan = decide(snapshot(body, *jobs, reading=reading(sample(0))), NOW)
    assert deleted(plan) == ["done-old", "done-mid", "bad-old"]


def test_the_oldest_are_those_that_completed_first_whenever_that_was_told():
    jobs = [child("a", "Complete", ended_at=-30), child("b", "Complete", ended_at=-60)]
    for job, told in zip(jobs, (-20, -10), strict=True):
        job.body["status"]["conditions"][0]["lastTransitionTime"] = at(told)
    plan = decide(snapshot(scaled_job(successfulJobsHistoryLimit=1), *jobs, reading=reading(sample(0))), NOW)
    assert deleted(plan) == ["b"]


def test_history_keeps_a_hundred_when_nothing_is_said_and_none_at_zero():
    jobs = [child(f"done-{i:03}", "Complete", ended_at=-500 + i) for i in range(102)]
    assert deleted(decide(snapshot(scaled_job(), *jobs, reading=reading(sample(0))), NOW)) == ["done-000", "done-001"]
    none = scaled_job(successfulJobsHistoryLimit=0)
    assert len(deleted(decide(snapshot(none, *jobs, reading=reading(sample(0))), NOW))) == 102


def test_a_fresh_reading_comes_after_the_clean_up_that_it_must_see():
    body = scaled_job(successfulJobsHistoryLimit=0)
    plan = decide(snapshot(body, child("work-z-0", "Complete", seen=0), reading=reading(sample(1))), NOW)
    assert shape(plan)[:2] == ["Deletes", "PollNow"]
    assert deleted(plan) == ["work-z-0"]


def test_the_finalizer_is_put_on_first():
    plan = decide(snapshot(scaled_job(metadata={"finalizers": ["other"]})), NOW)
    assert plan.steps[0] == Patch(
        snapshot(scaled_job()).ref, {"metadata": {"finalizers": ["other", "finalizer.keda.sh"]}}, "7"
    )


def test_deletion_takes_the_finalizer_off_and_touches_no_job():
    leaving = {"deletionTimestamp": at(0), "finalizers": ["other", "finalizer.keda.sh"]}
    plan = decide(snapshot(scaled_job(metadata=leaving), child("work-z-0"), reading=reading(sample(3))), NOW)
    assert plan.steps[0] == Patch(snapshot(scaled_job()).ref, {"metadata": {"finalizers": ["other"]}}, "7")
    assert plan.steps[1:] == (RecordEvent("Warning", "ScaledJobDeleted", "The ScaledJob was deleted"),)
    assert decide(snapshot(scaled_job(metadata={**leaving, "finalizers": ["other"]})), NOW) == NOTHING


def test_what_is_known_not_to_exist_needs_nothing():
    assert decide(Snapshot(snapshot(scaled_job()).ref, None), NOW) == NOTHING


@for_each((None, ()), ("default", ()), ("custom", ()), ("accurate", (POD,)), ("eager", (POD,)))
def test_pods_are_read_only_where_pending_jobs_matter(strategy, kinds):
    spec = {} if strategy is None else {"scalingStrategy": {"strategy": strategy}}
    assert CONTROLLER.grandchildren(scaled_job(**spec)) == kinds


def test_accurate_counts_pending_jobs_by_their_pods():
    body = scaled_job(scalingStrategy={"strategy": "accurate"})
    jobs = [child("work-z-0"), child("work-z-1")]
    working = pod("a", "Running", job="work-z-0")
    assert len(created(decide(snapshot(body, *jobs, working, reading=reading(sample(3))), NOW))) == 2


def test_a_decision_changes_nothing_it_was_given():
    body = scaled_job(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}})
    seen = snapshot(body, child("work-z-0", "Complete", seen=0), reading=reading(sample(3)))
    before = repr(seen)
    assert isinstance(decide(seen, NOW), Plan)
    assert repr(seen) == before
