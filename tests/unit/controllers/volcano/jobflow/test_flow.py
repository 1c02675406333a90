"""The decision about a JobFlow, rule by rule."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, micros
from tests.unit.controllers.volcano.jobflow.flow_cluster import TASK, Cluster
from workers.api import times
from workers.api.kinds import VC_JOB, Object
from workers.api.volcano.jobflow import CREATED_BY_FLOW, RETRY, FlowEntry
from workers.controllers.volcano.jobflow import status
from workers.controllers.volcano.jobflow.decide import CONTROLLER, decide
from workers.controllers.volcano.jobflow.dependencies import DependencyState, verdict
from workers.controllers.volcano.jobflow.jobs import patched
from workers.controllers.volcano.jobflow.phases import FlowCounts, following
from workers.decision.plan import NOTHING, ComeBack, PatchStatus, Plan, RecordEvent, Step, Together
from workers.decision.snapshot import Reading, TriggerSample


def entry(name: str, *targets: str, **more: Any) -> Object:
    return {"name": name, **({"dependsOn": {"targets": [*targets]}} if targets else {}), **more}


def settled(cluster: Cluster) -> Cluster:
    cluster.settle()
    return cluster


def run(cluster: Cluster, **ends: str) -> Cluster:
    """Jobs end like this (``a="Completed"``), one after the other."""
    for name, how in ends.items():
        cluster.settle()
        cluster.end(f"f-{name.replace('_', '-')}", how)
        cluster.settle()
    return cluster


def events(plan: Plan) -> list[tuple[str, str, str]]:
    steps = (*plan.steps, *_meanwhile(plan))
    return [(step.type, step.reason, step.message) for step in steps if isinstance(step, RecordEvent)]


def test_a_flow_that_is_being_deleted_is_left_alone() -> None:
    cluster = Cluster(entry("a"))
    seen = cluster.snapshot()
    deleted = {**cluster.body, "metadata": {**cluster.body["metadata"], "deletionTimestamp": times.render(NOW)}}
    assert decide(seen, NOW).steps
    assert decide(replace(seen, body=deleted), NOW) == decide(replace(seen, body=None), NOW) == NOTHING


def test_a_missing_template_is_a_warning_that_names_it_and_its_entry() -> None:
    cluster = Cluster(entry("b", template="shape"))
    cluster.templates = {}
    assert events(decide(cluster.snapshot(), NOW)) == [
        ("Warning", "MissingTemplate", "there is no JobTemplate shape (entry b)")
    ]


def test_jobs_are_listed_in_the_order_of_their_entries() -> None:
    cluster = run(Cluster(entry("c"), entry("a"), entry("b")), a="Completed", b="Failed", c="Completed")
    assert [each["name"] for each in cluster.status["jobStatusList"]] == ["f-c", "f-a", "f-b"]


@for_each("Completed", "Failed", "Terminated")
def test_the_decision_that_ends_a_flow_says_that_it_is_over(how: str) -> None:
    """Nothing asks for a decision afterwards."""
    cluster = Cluster(entry("a"))
    cluster.settle()
    cluster.end("f-a", "Running")
    cluster.settle()
    cluster.end("f-a", how)
    while not cluster.over:
        assert cluster.ready == ("True", "AsSpecified")
        cluster.reconcile()
    assert cluster.ready == ("True", "Finished")


# Volcano's rule of phases


@cases(
    ("new", None, FlowCounts(2), "Pending"),
    ("empty", "", FlowCounts(2), "Pending"),
    ("nothing runs", "Pending", FlowCounts(2), "Pending"),
    ("one runs", "Pending", FlowCounts(2, running=1), "Running"),
    ("all completed passes through Running", "Pending", FlowCounts(2, completed=2), "Running"),
    ("failed beside a running one", "Pending", FlowCounts(2, running=1, failed=1), "Failed"),
    ("terminated alone", "Pending", FlowCounts(2, terminated=1), "Failed"),
    ("terminated beside a running one", "Pending", FlowCounts(2, running=1, terminated=1), "Running"),
    ("no entries", "Pending", FlowCounts(0), "Running"),
    ("no entries, at once", "Running", FlowCounts(0), "Succeed"),
    ("half", "Running", FlowCounts(2, completed=1), "Running"),
    ("all completed", "Running", FlowCounts(2, completed=2), "Succeed"),
    ("failed", "Running", FlowCounts(2, completed=1, failed=1), "Failed"),
    ("terminated", "Running", FlowCounts(2, running=1, terminated=1), "Failed"),
    ("Succeed stays", "Succeed", FlowCounts(2, failed=1), "Succeed"),
    ("Failed stays", "Failed", FlowCounts(2, completed=2), "Failed"),
    ("Terminating stays", "Terminating", FlowCounts(2, completed=2), "Terminating"),
)
def test_phase(phase: str | None, counts: FlowCounts, expected: str) -> None:
    assert following(phase, counts) == expected


# Dependencies

_C, _F, _S = "Completed", "Failed", "Skipped"


@cases(
    ("no targets", None, (), "START"),
    ("all completed", None, (_C, _C), "START"),
    ("one is at work", None, (_C, None), "WAIT"),
    ("one failed", None, (None, _F), "SKIP"),
    ("one was skipped", None, (_C, _S), "SKIP"),
    ("on failure", {"phases": [_F]}, (_F,), "START"),
    ("no failure", {"phases": [_F]}, (_C,), "SKIP"),
    ("any failure is enough", {"phases": [_F], "match": "any"}, (None, _F), "START"),
    ("a failure may come", {"phases": [_F], "match": "any"}, (None, _C), "WAIT"),
    ("no failure at all", {"phases": [_F], "match": "any"}, (_C, _C), "SKIP"),
    ("a join of branches", {"phases": [_C, _S]}, (_C, _S), "START"),
    ("whatever becomes of them, but all of them", {"phases": [_C, _F, _S]}, (_F, None), "WAIT"),
)
def test_dependencies(when: Any, outcomes: tuple[str | None, ...], expected: str) -> None:
    names = [f"t{index}" for index in range(len(outcomes))]
    given = FlowEntry.model_validate(entry("x", *names, **({"when": when} if when else {})), strict=False)
    found = verdict(given, dict(zip(names, outcomes, strict=True)), lambda _: False)
    assert found == DependencyState[expected]


def test_a_probe_that_succeeds_stands_for_completion() -> None:
    given = FlowEntry.model_validate(entry("x", "a"), strict=False)
    assert verdict(given, {"a": None}, lambda _: True) == DependencyState.START
    assert verdict(given, {"a": "Failed"}, lambda _: True) == DependencyState.SKIP
    either = FlowEntry.model_validate(
        entry("x", "a", "b", when={"phases": ["Completed"], "match": "any"}), strict=False
    )
    assert verdict(either, {"a": "Failed", "b": None}, lambda name: name == "a") == DependencyState.WAIT


@cases(
    ("a field", {"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
    ("a field taken out", {"a": 1, "b": 2}, {"b": None}, {"a": 1}),
    ("a field of a field", {"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
    ("a plain list is replaced", {"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    (
        "a list of named objects is merged by name",
        {"tasks": [{"name": "x", "replicas": 1, "k": 1}, {"name": "y"}]},
        {"tasks": [{"name": "x", "replicas": 2}, {"name": "z"}]},
        {"tasks": [{"name": "x", "replicas": 2, "k": 1}, {"name": "y"}, {"name": "z"}]},
    ),
)
def test_patches(base: Object, patch: Object, expected: Object) -> None:
    before = repr(base)
    assert patched(base, patch) == expected
    assert repr(base) == before


# The way of a flow


def test_entries_start_in_order_and_the_flow_succeeds() -> None:
    cluster = settled(Cluster(entry("a"), entry("b", "a")))
    assert (cluster.made, cluster.phase) == (["f-a"], "Pending")
    assert cluster.status["pendingJobs"] == ["f-a"]
    cluster.end("f-a", "Running")
    assert (settled(cluster).made, cluster.phase) == (["f-a"], "Running")
    cluster.end("f-a", "Completed", runningDuration="1m5s", retryCount=2)
    assert settled(cluster).made == ["f-a", "f-b"]
    cluster.end("f-b", "Completed")
    assert settled(cluster).phase == "Succeed"
    assert cluster.status["completedJobs"] == ["f-a", "f-b"]
    assert cluster.told["Created"] == 2
    assert (cluster.told["jobflows_succeeded"], cluster.told["jobflows_failed"]) == (1, 0)
    first = cluster.status["jobStatusList"][0]
    assert first["name"] == "f-a"
    assert [each["state"] for each in first["runningHistories"]] == ["Running", "Completed"]
    assert [each.get("endTimestamp") for each in first["runningHistories"]] == [times.render(NOW), None]
    assert (first["restartCount"], first["endTimestamp"]) == (2, times.render(NOW + timedelta(seconds=65)))
    assert cluster.status["conditions"]["f-a"]["runningDuration"] == "1m5s"


def test_a_job_is_its_template_with_the_marks_of_flow_and_template() -> None:
    job = settled(Cluster(entry("a"))).jobs["f-a"]
    assert (job["apiVersion"], job["spec"]) == (VC_JOB.api_version, {"tasks": [TASK]})
    marks = {"volcano.sh/createdByJobTemplate": "default.a", CREATED_BY_FLOW: "default.f"}
    assert job["metadata"]["labels"] == job["metadata"]["annotations"] == marks
    assert job["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_job_that_was_cleaned_up_stays_completed_and_is_not_run_again() -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a")), a="Completed")
    cluster.remove("f-a")
    assert settled(cluster).made == ["f-a", "f-b"]
    assert cluster.status["completedJobs"] == ["f-a"]
    assert run(cluster, b="Completed").phase == "Succeed"


def test_a_job_deleted_before_its_end_is_made_again() -> None:
    cluster = settled(Cluster(entry("a")))
    cluster.remove("f-a")
    assert settled(cluster).made == ["f-a", "f-a"]


def test_a_job_with_a_ttl_and_an_unobserved_end_is_not_run_twice() -> None:
    cluster = settled(Cluster(entry("a"), ttl=0))
    cluster.remove("f-a")
    assert settled(cluster).made == ["f-a"]
    assert cluster.phase == "Failed"
    assert cluster.entry("a")["reason"] == "EndNotSeen"


@for_each("Failed", "Terminated")
def test_a_failure_ends_the_flow_and_nothing_new_starts(how: str) -> None:
    cluster = run(Cluster(entry("a"), entry("b"), entry("c", "b")), a=how)
    assert (cluster.phase, cluster.told["jobflows_failed"]) == ("Failed", 1)
    assert run(cluster, b="Completed").made == ["f-a", "f-b"]
    assert cluster.told["jobflows_failed"] == 1
    assert cluster.status["completedJobs"] == ["f-b"]
    assert cluster.status["state"]["message"].startswith(f"entry a ended {how}")


@for_each("Failed", "Terminated")
def test_a_failure_gives_the_jobs_own_reason(how: str) -> None:
    cluster = settled(Cluster(entry("a")))
    cluster.end("f-a", how, state={"phase": how, "reason": "R", "message": "M"})
    assert settled(cluster).status["state"]["message"] == f"entry a ended {how} (R: M)"


def test_an_aborted_job_leaves_the_flow_running() -> None:
    cluster = run(settled(Cluster(entry("a"))), a="Running")
    assert run(cluster, a="Aborted").phase == "Running"
    assert cluster.status["unKnowJobs"] == ["f-a"]


@for_each("Completing", "Terminating")
def test_a_job_that_is_ending_is_in_no_list(phase: str) -> None:
    status = run(settled(Cluster(entry("a"))), a=phase).status
    assert not [name for name in status if name.endswith("Jobs")]


def test_policy_delete_deletes_the_jobs_of_a_flow_that_succeeded_and_remembers_them() -> None:
    cluster = run(Cluster(entry("a"), jobRetainPolicy="delete"), a="Completed")
    assert (cluster.jobs, cluster.phase) == ({}, "Succeed")
    assert cluster.status["completedJobs"] == ["f-a"]
    assert cluster.made == ["f-a"]
    cluster.reconcile()
    assert cluster.back is None, "there is nothing left to do"


def test_a_missing_template_is_named_and_awaited() -> None:
    cluster = Cluster(entry("a"))
    template = cluster.templates.pop("a")
    assert settled(cluster).ready == ("False", "MissingTemplate")
    assert "a" in cluster.status["state"]["message"]
    assert cluster.told["MissingTemplate"] == 1
    assert cluster.back is not None
    cluster.now = cluster.back
    assert settled(cluster).told["MissingTemplate"] == 1
    cluster.templates["a"] = template
    assert cluster.back is not None
    cluster.now = cluster.back
    assert settled(cluster).made == ["f-a"]
    assert cluster.ready[0] == "True"


@for_each({}, {"timeoutSeconds": 3600})
def test_another_owners_job_of_the_name_never_counts(limit: Object) -> None:
    cluster = Cluster(entry("a", **limit))
    other = {"metadata": {"name": "f-a", "namespace": "default", "uid": "other"}, "spec": {}}
    cluster.jobs["f-a"] = {**other, "status": {"state": {"phase": "Completed"}}}
    assert settled(cluster).told["NameTaken"]
    cluster.wait(10)
    assert (settled(cluster).phase, cluster.ready) == ("Pending", ("False", "NameTaken"))
    cluster.reconcile()
    assert cluster.back == cluster.now + timedelta(seconds=10), "it is tried again, and not at once"
    assert "pendingJobs" not in cluster.status
    del cluster.jobs["f-a"]
    cluster.wait(10)
    assert settled(cluster).made == ["f-a"]
    cluster.end("f-a", "Running")
    assert (settled(cluster).phase, cluster.ready[0]) == ("Running", "True")


@cases(
    ("cycle", [entry("a", "b"), entry("b", "a")], "in a circle"),
    ("itself", [entry("a", "a")], "depends on itself"),
    ("unknown", [entry("a", "x")], "no entry x"),
    ("twice", [entry("a"), entry("a")], "2 entries"),
)
def test_a_flow_that_cannot_be_followed_says_so_and_starts_nothing(flows: list[Object], said: str) -> None:
    cluster = settled(Cluster(*flows))
    assert cluster.ready == ("False", "InvalidSpec")
    assert said in cluster.status["state"]["message"]
    assert (cluster.made, cluster.phase, cluster.told["InvalidSpec"]) == ([], "Pending", 1)
    cluster.edit(flows=[entry("a")])
    cluster.templates["a"] = {"metadata": {"name": "a"}, "spec": {"tasks": [TASK]}}
    assert settled(cluster).made == ["f-a"]


# Wishes


def test_a_failed_job_is_tried_again_after_its_backoff() -> None:
    cluster = run(Cluster(entry("a", retry={"limit": 2, "backoffSeconds": 10})), a="Failed")
    assert (cluster.entry("a")["phase"], cluster.made) == ("Retrying", ["f-a"])
    assert cluster.back == NOW + timedelta(seconds=10)
    cluster.wait(10)
    assert settled(cluster).made == ["f-a", "f-a-r1"]
    run(cluster, a_r1="Failed")
    assert cluster.back == NOW + timedelta(seconds=30)
    cluster.wait(20)
    run(cluster, a_r2="Failed")
    assert (cluster.phase, cluster.made) == ("Failed", ["f-a", "f-a-r1", "f-a-r2"])


def test_a_branch_on_failure_runs_and_the_flow_has_failed_all_the_same() -> None:
    cluster = Cluster(entry("a"), entry("ok", "a"), entry("undo", "a", when={"phases": ["Failed"]}))
    run(cluster, a="Failed")
    assert (cluster.made, cluster.phase) == (["f-a", "f-undo"], "Running")
    assert cluster.entry("ok")["phase"] == "Skipped"
    assert run(cluster, undo="Completed").phase == "Failed"


def test_an_entry_that_may_fail_does_not_fail_the_flow() -> None:
    cluster = run(Cluster(entry("a", allowFailure=True), entry("b", "a")), a="Failed")
    assert (cluster.phase, cluster.entry("b")["phase"]) == ("Succeed", "Skipped")


@for_each(("fast", ["f-quick"]), ("slow", ["f-long"]), ("other", ["f-rest"]))
def test_a_switch_takes_one_branch(mode: str, made: list[str]) -> None:
    of = "${parameters.mode}"
    branches = [
        entry("quick", switch={"of": of, "case": ["fast"]}),
        entry("long", switch={"of": of, "case": ["slow", "slower"]}),
        entry("rest", switch={"of": of}),
    ]
    assert settled(Cluster(*branches, parameters={"mode": mode})).made == made


@for_each(
    ("${parameters.mode} == 'fast'", None),
    ("${parameters.mode} == 'slow'", "Skipped"),
    ("int(${parameters.n}) > 2 and ${entries.a.phase} == 'Completed'", None),
    ("${parameters.n}", "Failed"),
)
def test_a_condition(condition: str, phase: str | None) -> None:
    parameters = {"mode": "fast", "n": "3"}
    cluster = run(Cluster(entry("a"), entry("b", "a", **{"if": condition}), parameters=parameters), a="Completed")
    assert cluster.entry("b")["phase"] == (phase or "Pending")


def test_items_become_jobs_so_many_at_once_with_their_own_patch_and_variables() -> None:
    tasks = [{"name": "work", "replicas": 2}]
    patch = {"jobSpec": {"queue": "q-${item}", "minAvailable": "${int:index}", "tasks": tasks}}
    each = {"items": ["x", "y", "z"], "parallelism": 2}
    cluster = settled(Cluster(entry("a", forEach=each, patch=patch), entry("b", "a"), parameters={"mode": "m"}))
    assert cluster.made == ["f-a-0", "f-a-1"]
    run(cluster, a_0="Completed", a_1="Completed")
    assert cluster.made == ["f-a-0", "f-a-1", "f-a-2"]
    spec = cluster.jobs["f-a-2"]["spec"]
    assert (spec["queue"], spec["minAvailable"]) == ("q-z", 2)
    (container,) = spec["tasks"][0]["template"]["spec"]["containers"]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "FLOW_mode": "m",
        "FLOW_ITEM": "z",
        "FLOW_INDEX": "2",
    }
    assert run(cluster, a_2="Completed").made[-1] == "f-b"


def test_some_items_are_skipped() -> None:
    cluster = settled(Cluster(entry("a", forEach={"count": 3}, **{"if": "${index} < 2"})))
    assert cluster.made == ["f-a-0", "f-a-1"]
    assert cluster.entry("a-2")["phase"] == "Skipped"


def test_a_variable_of_the_container_itself_stays() -> None:
    cluster = Cluster(entry("a"), parameters={"mode": "m"})
    own = {"name": "FLOW_mode", "value": "own"}
    container = {"name": "main", "image": "none", "env": [own]}
    cluster.templates["a"]["spec"]["tasks"] = [{"name": "work", "template": {"spec": {"containers": [container]}}}]
    (task,) = settled(cluster).jobs["f-a"]["spec"]["tasks"]
    assert task["template"]["spec"]["containers"] == [container]


def test_a_template_that_was_not_looked_for_yet_is_not_missing() -> None:
    flows = [entry("a", **{"if": "false"}), entry("b", "a", when={"phases": ["Skipped"]})]
    cluster = settled(Cluster(*flows))
    assert (cluster.made, cluster.told["MissingTemplate"]) == (["f-b"], 0)


def test_any_of_several_is_enough_though_another_has_not_begun() -> None:
    first = entry("first", "a", "b", when=on("Completed", match="any"))
    cluster = run(Cluster(entry("a"), entry("slow"), entry("b", "slow"), first), a="Completed")
    assert cluster.made == ["f-a", "f-slow", "f-first"]


def test_one_template_twice() -> None:
    cluster = settled(Cluster(entry("a", template="t"), entry("b", template="t")))
    assert cluster.made == ["f-a", "f-b"]


def test_a_job_that_takes_too_long_is_terminated_and_counts_as_failed() -> None:
    cluster = settled(Cluster(entry("a", timeoutSeconds=60, retry={"limit": 1, "backoffSeconds": 0})))
    assert cluster.back == NOW + timedelta(seconds=60)
    cluster.end("f-a", "Running")
    cluster.wait(60)
    (command,) = settled(cluster).commands.values()
    assert (command["action"], command["target"]["name"]) == ("TerminateJob", "f-a")
    cluster.obey()
    assert settled(cluster).made == ["f-a", "f-a-r1"]
    cluster.wait(60)
    cluster.settle()
    cluster.obey()
    assert (settled(cluster).phase, cluster.entry("a")["reason"]) == ("Failed", "TimedOut")


def test_a_status_lists_a_limited_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ended Jobs are left out for good; running ones are listed."""
    monkeypatch.setattr(status, "LISTED", 3)
    cluster = Cluster(*(entry(name, retry={"limit": 3, "backoffSeconds": 0}) for name in "abcd"), parallelism=2)
    for round in range(3):
        cluster.settle()
        for name in cluster.unfinished():
            cluster.end(name, "Running")
            cluster.settle()
            listed = [each["name"] for each in cluster.status["jobStatusList"]]
            assert (name in listed, set(listed)) == (True, set(cluster.status["conditions"]))
            assert len(listed) <= 3
            cluster.end(name, "Failed" if round < 2 else "Completed")
        cluster.settle()
    assert (cluster.entry("a")["attempts"], cluster.entry("a")["phase"]) == (3, "Completed")


def test_a_job_that_goes_on_and_off_keeps_its_newest_phases() -> None:
    cluster = settled(Cluster(entry("a")))
    for round in range(60):
        cluster.end("f-a", "Aborted" if round % 2 else "Running")
        cluster.settle()
    (history,) = cluster.status["jobStatusList"]
    assert len(history["runningHistories"]) == 50
    assert history["runningHistories"][-1]["state"] == "Aborted"


@for_each(({"name": "work", "replicas": -4}, "spec.tasks[0].replicas"), ({"name": {}}, "spec.tasks[0].name"))
def test_an_entry_with_an_invalid_job_fails_by_name(changed: Object, named: str) -> None:
    patch = {"jobSpec": {"tasks": [changed]}}
    cluster = run(Cluster(entry("bad", patch=patch, retry={"limit": 3}, allowFailure=True), entry("b")), b="Completed")
    assert (cluster.phase, cluster.made) == ("Succeed", ["f-b"])
    bad = cluster.entry("bad")
    assert (bad["phase"], bad["reason"]) == ("Failed", "InvalidJob")
    assert named in bad["message"]


@cases(
    ("tasks that are no list", "work", "spec.tasks"),
    ("a task that is a name", ["work"], "spec.tasks[0]"),
    ("a task without its template", [{"template": "work"}], "spec.tasks[0].template"),
    ("a pod that is a name", [{"template": {"spec": "work"}}], "spec.tasks[0].template"),
    ("containers by name", [{"template": {"spec": {"containers": {"main": {}}}}}], "spec.containers"),
    (
        "a variable without a text as its name",
        [{"template": {"spec": {"containers": [{"env": [{"name": {}}]}]}}}],
        "env",
    ),
    ("no container at all", [{"template": {"spec": {"containers": [None]}}}], "spec.containers.0"),
    ("variables by name", [{"template": {"spec": {"containers": [{"name": "c", "env": {"A": "1"}}]}}}], "env"),
    ("a variable that is a name", [{"template": {"spec": {"containers": [{"name": "c", "env": ["A"]}]}}}], "env.1"),
)
def test_a_malformed_template_fails_its_entry_by_name_although_variables_are_added(tasks: Any, named: str) -> None:
    cluster = Cluster(entry("bad", allowFailure=True), entry("b"), parameters={"color": "red"})
    cluster.templates["bad"]["spec"] = {"tasks": tasks}
    run(cluster, b="Completed")
    bad = cluster.entry("bad")
    assert (cluster.phase, bad["phase"], bad["reason"]) == ("Succeed", "Failed", "InvalidJob")
    assert named in bad["message"]


@cases(
    ("its template is missing", [entry("a", template="none")]),
    ("its patch has no number", [entry("a", patch={"jobSpec": {"minAvailable": "${int:flow}"}}, allowFailure=True)]),
    ("its Job is invalid", [entry("a", patch={"jobSpec": {"minAvailable": -1}}, allowFailure=True)]),
    (
        "its template was not looked for yet",
        [entry("skipped", **{"if": "false"}), entry("a", "skipped", when={"phases": ["Skipped"]})],
    ),
)
def test_an_entry_that_makes_no_job_leaves_its_place_to_the_next(before: list[Object]) -> None:
    cluster = Cluster(*before, entry("b"), parallelism=1)
    cluster.templates.pop("none", None)
    cluster.reconcile()
    assert cluster.made == ["f-b"]


def test_an_entry_whose_end_was_not_seen_leaves_its_place_to_the_next() -> None:
    cluster = settled(Cluster(entry("a", allowFailure=True), entry("b"), parallelism=1, ttl=0))
    cluster.remove("f-a")
    cluster.reconcile()
    assert cluster.made == ["f-a", "f-b"]


def test_a_refused_job_delays_no_other_entry() -> None:
    """Neither their Jobs nor time-outs nor status; and the refusal is reported."""
    cluster = Cluster(entry("a", timeoutSeconds=60), entry("bad"), entry("c"), entry("d", "c"))
    cluster.refused = {"f-bad"}
    run(cluster, c="Completed")
    cluster.end("f-a", "Running")
    for _ in range(12):
        cluster.wait(5)
        cluster.settle()
    assert (cluster.made, cluster.status["runningJobs"]) == (["f-a", "f-c", "f-d"], ["f-a"])
    assert cluster.ready == ("False", "ReconcileFailing")
    assert [command["target"]["name"] for command in cluster.commands.values()] == ["f-a"]
    assert cluster.entry("a")["reason"] == "TimedOut"
    cluster.refused = set()
    cluster.obey()
    cluster.wait(5)
    assert settled(cluster).phase == "Failed"


@for_each((2, False), (3, True))
def test_the_third_failure_in_a_row_is_reported_before_the_next_attempt(failures: int, failing: bool) -> None:
    cluster = Cluster(entry("a"))
    cluster.failures = failures
    plan = decide(cluster.snapshot(), NOW)
    assert isinstance(plan.steps[0], PatchStatus if failing else Together)
    # The next reconcile takes the report back.
    assert (ComeBack(NOW) in plan.steps) == failing
    (written, *_) = [step for step in (*plan.steps, *_meanwhile(plan)) if isinstance(step, PatchStatus)]
    assert (written.status["flowConditions"][0]["reason"] == "ReconcileFailing") == failing


def _meanwhile(plan: Plan) -> list[Step]:
    return [each for step in plan.steps if isinstance(step, Together) for each in step.meanwhile or ()]


def test_a_long_flow_writes_phases_after_a_delay_and_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SHORT", 0)
    cluster = Cluster(entry("a"), entry("b", "a"))
    cluster.reconcile()
    written = cluster.status
    for phase in ("Pending", "Restarting", "Aborting"):
        cluster.end("f-a", phase)
        cluster.reconcile()
        assert (cluster.status, cluster.back, cluster.told["Created"]) == (written, cluster.now + status.delay(2), 0)
    cluster.wait(2)
    cluster.reconcile()
    assert (cluster.entry("a")["phase"], cluster.told["Created"]) == ("Aborting", 1)
    assert cluster.status["conditions"]["f-a"]["phase"] == "Aborting"
    cluster.end("f-a", "Completed")
    cluster.reconcile()
    assert (cluster.entry("a")["phase"], cluster.status["completedJobs"]) == ("Completed", ["f-a"])
    assert (cluster.made, cluster.told["Created"]) == (["f-a", "f-b"], 1)


def test_the_delayed_status_of_a_long_flow_is_written_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Job changes all the time, or no Job says since when it is as it is."""
    monkeypatch.setattr(status, "SHORT", 0)
    cluster = settled(Cluster(entry("a"), entry("b")))
    cluster.end("f-b", "Running")
    for _ in range(4):
        cluster.end("f-a", "Running" if cluster.phase_of("f-a") == "Pending" else "Pending")
        cluster.reconcile()
        cluster.wait(1)
    assert cluster.entry("b")["phase"] == "Running"
    cluster.jobs["f-b"]["status"] = {"state": {"phase": "Restarting"}}
    cluster.catch_up()
    cluster.wait(5)
    cluster.reconcile()
    assert cluster.status["unKnowJobs"] == ["f-b"]


def test_what_refuses_one_job_leaves_the_status_of_the_others_true() -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a"), entry("c", "a"), entry("x")), x="Running")
    cluster.end("f-a", "Completed")
    cluster.end("f-x", "Failed")
    cluster.refused = {"f-b"}
    cluster.edit(flows=[*cluster.body["spec"]["flows"][:3], entry("x", retry={"limit": 1})])
    cluster.reconcile()
    assert cluster.failures == 1
    assert (cluster.entry("a")["phase"], cluster.entry("x")["phase"]) == ("Completed", "Retrying")
    assert (cluster.made, cluster.entry("b"), cluster.status["completedJobs"]) == (["f-a", "f-x", "f-c"], {}, ["f-a"])
    cluster.refused = set()
    cluster.wait(10)
    assert settled(cluster).made == ["f-a", "f-x", "f-c", "f-b", "f-x-r1"]


@for_each(False, True)
def test_a_flow_that_fails_while_a_job_is_refused_reports_it_once(refused_for_long: bool) -> None:
    patch = {"jobSpec": {"tasks": [{"name": "work", "replicas": -4}]}}
    cluster = Cluster(entry("first"), entry("bad", "first", patch=patch), entry("b"))
    cluster.refused = {"f-b"}
    cluster.reconcile()
    while refused_for_long and cluster.failures < 5:
        cluster.wait(10)
        cluster.reconcile()
    cluster.end("f-first", "Completed")
    for _ in range(3):
        cluster.wait(10)
        cluster.settle()
    assert cluster.phase == "Failed"
    assert (cluster.entry("bad")["phase"], cluster.entry("bad")["reason"]) == ("Failed", "InvalidJob")
    assert "entry bad ended Failed" in cluster.status["state"]["message"]
    assert (cluster.told["FlowFailed"], cluster.told["jobflows_failed"]) == (1, 1)


def test_what_follows_a_skipped_entry_does_not_wait_for_a_job_that_is_refused() -> None:
    skipped = {**entry("s"), "if": "${flow} == 'g'"}
    cluster = Cluster(entry("x"), skipped, {**entry("z", "s"), "when": {"phases": ["Skipped"]}})
    cluster.refused = {"f-x"}
    cluster.reconcile()
    cluster.wait(10)
    cluster.reconcile()
    assert (cluster.made, cluster.entry("s")["phase"]) == (["f-z"], "Skipped")


def test_a_suspended_flow_starts_nothing_and_resumes() -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a")), a="Running")
    cluster.edit(suspend=True)
    run(cluster, a="Completed")
    assert (cluster.made, cluster.phase, cluster.ready) == (["f-a"], "Running", ("False", "Suspended"))
    cluster.edit(suspend=None)
    assert settled(cluster).made == ["f-a", "f-b"]


def test_a_cancelled_flow_ends_its_jobs() -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a")), a="Running")
    cluster.edit(cancel=True)
    assert settled(cluster).phase == "Terminating"
    assert list(cluster.commands) == ["f-a-terminatejob"]
    cluster.obey()
    assert (settled(cluster).phase, cluster.made) == ("Terminated", ["f-a"])
    assert (cluster.status["state"]["reason"], bool(cluster.status["completionTime"])) == ("Cancelled", True)


@cases(
    ("running", "Running", {}, True),
    ("a restart, which loses actions", "Restarting", {}, False),
    ("a restart that waits for its backoff", "Restarting", {"restartTime": times.render(NOW)}, True),
    ("being aborted", "Aborting", {}, False),
    ("ending", "Terminating", {}, False),
)
def test_a_job_is_told_to_end_only_where_that_ends_it(phase: str, more: Object, told: bool) -> None:
    late = settled(Cluster(entry("a", timeoutSeconds=60)))
    cancelled, left_over = settled(Cluster(entry("a"))), settled(Cluster(entry("a"), entry("b")))
    run(left_over, b="Completed")
    for cluster in (late, cancelled, left_over):
        cluster.end("f-a", phase, **more)
    late.wait(60)
    cancelled.edit(cancel=True)
    left_over.edit(flows=[entry("b")], cancel=True)
    for cluster in (late, cancelled, left_over):
        assert list(settled(cluster).commands) == (["f-a-terminatejob"] if told else [])
        cluster.commands.clear()
        cluster.end("f-a", "Pending")
        assert list(settled(cluster).commands) == ["f-a-terminatejob"], "the next phase is ended"


def test_a_job_that_a_user_aborted_is_not_ended_by_the_cancellation_of_its_flow() -> None:
    cluster = run(Cluster(entry("a"), entry("b"), entry("c", "b")), a="Aborted", b="Running")
    cluster.edit(cancel=True)
    settled(cluster)
    assert list(cluster.commands) == ["f-b-terminatejob"]


def test_a_retry_request_runs_failed_entries_once() -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a"), entry("c", "b")), a="Completed", b="Failed")
    assert cluster.phase == "Failed"
    cluster.annotate(**{RETRY: "1"})
    assert settled(cluster).made == ["f-a", "f-b", "f-b-r1"]
    assert run(cluster, b_r1="Failed").phase == "Failed"
    assert settled(cluster).made == ["f-a", "f-b", "f-b-r1"]
    cluster.annotate(**{RETRY: "2"})
    assert run(cluster, b_r2="Completed", c="Completed").phase == "Succeed"
    assert cluster.made == ["f-a", "f-b", "f-b-r1", "f-b-r2", "f-c"]


def on(*phases: str, match: str = "all") -> Object:
    return {"phases": [*phases], "match": match}


#: A deployment that is rolled back when it fails, and somebody who hears of that.
DEPLOY = (entry("test"), entry("deploy", "test"), entry("back", "deploy", when=on("Failed")), entry("tell", "back"))
ROLLED_BACK = {"test": "Completed", "deploy": "Failed", "back": "Completed", "tell": "Completed"}


def test_a_compensation_runs_once_for_every_attempt_that_fails() -> None:
    cluster = run(Cluster(*DEPLOY), **ROLLED_BACK)
    assert cluster.phase == "Failed"
    for attempt in ("r1", "r2"):
        cluster.annotate(**{RETRY: attempt})
        settled(cluster)
        assert cluster.made[-1] == f"f-deploy-{attempt}"
        assert not {cluster.entry("back").get("phase"), cluster.entry("tell").get("phase")} & {"Completed"}
        ends = {f"deploy_{attempt}": "Failed", f"back_{attempt}": "Completed", f"tell_{attempt}": "Completed"}
        assert run(cluster, **ends).phase == "Failed"
    assert cluster.made == [
        *("f-test", "f-deploy", "f-back", "f-tell"),
        *("f-deploy-r1", "f-back-r1", "f-tell-r1", "f-deploy-r2", "f-back-r2", "f-tell-r2"),
    ]


def test_a_compensation_is_skipped_when_the_next_attempt_completes() -> None:
    cluster = run(Cluster(*DEPLOY), **ROLLED_BACK)
    cluster.annotate(**{RETRY: "1"})
    assert run(cluster, deploy_r1="Completed").phase == "Succeed"
    assert cluster.made[4:] == ["f-deploy-r1"]
    assert {name: cluster.entry(name)["phase"] for name in ("test", "back", "tell")} == {
        "test": "Completed",
        "back": "Skipped",
        "tell": "Skipped",
    }


@pytest.mark.parametrize("dies_after", range(6))
def test_a_retry_creates_each_job_once_across_crashes(dies_after: int) -> None:
    cluster = run(Cluster(*DEPLOY), **ROLLED_BACK)
    cluster.annotate(**{RETRY: "1"})
    cluster.reconcile(dies_after=dies_after)
    cluster.wait(6)
    settled(cluster)
    cluster.end("f-deploy-r1", "Failed")
    cluster.reconcile(dies_after=dies_after)
    cluster.wait(6)
    assert run(cluster, back_r1="Completed", tell_r1="Completed").phase == "Failed"
    assert cluster.made[4:] == ["f-deploy-r1", "f-back-r1", "f-tell-r1"]


def test_a_join_of_a_branch_that_was_never_taken_is_not_run_again() -> None:
    join = entry("join", "a", "b", when=on("Completed", match="any"))
    cluster = Cluster(entry("a"), entry("b", **{"if": "false"}), join, entry("c", "join"))
    assert run(cluster, a="Completed", join="Completed", c="Failed").phase == "Failed"
    cluster.annotate(**{RETRY: "1"})
    assert run(cluster, c_r1="Completed").phase == "Succeed"
    assert cluster.made == ["f-a", "f-join", "f-c", "f-c-r1"]


@for_each(("Completed", ["f-back-r1"]), ("Failed", ["f-back-r1"]), (None, ["f-back-r1"]))
def test_what_still_runs_for_the_attempt_before_is_waited_for_and_runs_again(end: str | None, expected: Any) -> None:
    cluster = Cluster(entry("deploy"), entry("back", "deploy", when=on("Failed")), entry("other"))
    run(cluster, deploy="Failed", other="Failed")
    assert (cluster.phase, cluster.entry("back")["phase"]) == ("Failed", "Pending")
    cluster.annotate(**{RETRY: "1"})
    run(cluster, deploy_r1="Failed", other_r1="Completed")
    assert cluster.made == ["f-deploy", "f-other", "f-back", "f-deploy-r1", "f-other-r1"], "one at a time"
    if end:
        cluster.end("f-back", end)
    else:
        cluster.remove("f-back")
    settled(cluster)
    assert cluster.made[5:] == expected
    assert run(cluster, back_r1="Completed").phase == "Failed"
    assert cluster.made[5:] == expected


@pytest.mark.parametrize("dies_after", range(4))
def test_a_replaced_dependency_runs_again_once_across_crashes(dies_after: int) -> None:
    back = entry("back", "deploy", when=on("Failed"), retry={"limit": 1, "backoffSeconds": 0})
    cluster = run(Cluster(entry("deploy"), back, entry("other")), deploy="Failed", other="Failed")
    cluster.annotate(**{RETRY: "1"})
    run(cluster, deploy_r1="Failed", other_r1="Completed")
    cluster.end("f-back", "Failed")
    cluster.reconcile(dies_after=dies_after)
    cluster.wait(6)
    run(cluster, back_r1="Failed", back_r2="Completed")
    assert cluster.made[5:] == ["f-back-r1", "f-back-r2"], "its retries count from the new attempt on"
    assert cluster.phase == "Failed"


def test_a_cancelled_flow_tries_again_once_that_is_taken_back() -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a"), cancel=None), a="Running")
    cluster.edit(cancel=True)
    cluster.settle()
    cluster.obey()
    cluster.settle()
    cluster.annotate(**{RETRY: "1"})
    assert (settled(cluster).phase, cluster.made) == ("Terminated", ["f-a"])
    assert cluster.entry("a")["phase"] == "Terminated"
    cluster.edit(cancel=None)
    assert run(cluster, a_r1="Completed", b="Completed").phase == "Succeed"
    assert cluster.made == ["f-a", "f-a-r1", "f-b"]


def test_a_limit_of_jobs_at_once() -> None:
    cluster = settled(Cluster(*(entry(f"e{index}", template="t") for index in range(5)), parallelism=2))
    assert len(cluster.made) == 2
    assert len(run(cluster, e0="Completed").made) == 3


def test_a_flow_is_deleted_so_long_after_its_end() -> None:
    cluster = run(Cluster(entry("a"), ttlSecondsAfterFinished=60), a="Completed")
    assert cluster.back == NOW + timedelta(seconds=60)
    cluster.wait(59)
    cluster.marked = True
    assert not settled(cluster).deleted
    cluster.wait(1)
    assert settled(cluster).deleted


def test_a_flow_ends_with_the_last_job_of_an_entry_that_was_taken_out() -> None:
    cluster = run(Cluster(entry("a"), entry("b")), a="Completed")
    cluster.end("f-b", "Running")
    cluster.edit(flows=[])
    assert (settled(cluster).phase, cluster.status["state"]["message"]) == (
        "Running",
        "job f-b still runs, and its entry is no longer there",
    )
    assert cluster.told["EntryGone"] == 1
    assert run(cluster, b="Failed").phase == "Succeed"


def test_a_cancelled_flow_ends_jobs_of_entries_that_were_taken_out() -> None:
    cluster = run(Cluster(entry("a"), entry("b")), a="Running")
    cluster.edit(flows=[entry("b")], cancel=True)
    assert settled(cluster).phase == "Terminating"
    assert sorted(cluster.commands) == ["f-a-terminatejob", "f-b-terminatejob"]
    cluster.obey()
    assert settled(cluster).phase == "Terminated"


@for_each("Aborted", "Terminated", "Failed")
def test_a_job_that_does_not_run_any_more_keeps_no_flow_from_its_end(how: str) -> None:
    cluster = run(Cluster(entry("a"), entry("b")), a="Completed")
    cluster.end("f-b", how)
    cluster.edit(flows=[entry("a")])
    assert settled(cluster).phase == "Succeed"


# Probes

_TCP = {"tcpSocketList": [{"taskName": "work", "port": 80}]}
_STATUS = {"taskStatusList": [{"taskName": "work", "phase": "Running"}]}


def probed(probe: Object) -> Cluster:
    return settled(Cluster(entry("a"), {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}))


def answer(active: bool, error: str | None = None) -> Reading:
    sample = TriggerSample("tcp://f-a/work:80", "tcpSocket", 1.0, active=active, error=error)
    return Reading(1, micros(0), 1, (sample,), uid="uid-f")


@cases(
    ("unknown", None, False),
    ("not yet", answer(False), False),
    ("error", answer(True, "broken"), False),
    ("ready", answer(True), True),
)
def test_an_entry_starts_when_its_probe_succeeds(reading: Reading | None, started: bool) -> None:
    cluster = probed(_TCP)
    cluster.end("f-a", "Running")
    cluster.reading = reading
    assert ("f-b" in settled(cluster).made) == started


@cases(
    ("a probe", [{"name": "b", "dependsOn": {"targets": ["a"], "probe": _TCP}}], True),
    ("no probe", [{"name": "b", "dependsOn": {"targets": ["a"]}}], False),
    ("a manifest that is wrong", [{"name": "b", "dependsOn": {"targets": ["b"], "probe": _TCP}}], False),
)
def test_only_a_flow_with_probes_needs_a_reading(more: list[Object], needs: bool) -> None:
    assert CONTROLLER.needs_reading(Cluster(entry("a"), *more).shown) is needs


def test_a_flow_asks_for_a_reading_until_there_is_one() -> None:
    cluster = probed(_TCP)
    asked = cluster.polls
    assert asked
    cluster.reading = answer(False)
    cluster.end("f-a", "Running")
    assert settled(cluster).polls == asked


def test_a_failing_probe_is_reported_by_name() -> None:
    cluster = probed({**_TCP, **_STATUS})
    cluster.end("f-a", "Running", taskStatusCount={"work": {"phase": {"Pending": 1}}})
    cluster.reading = answer(False)
    assert settled(cluster).ready == ("True", "WaitsForProbe")
    why = "entry b waits for tcp://f-a/work:80, task work of f-a to be Running"
    assert (cluster.status["state"]["phase"], cluster.status["state"]["message"]) == ("Running", why)
    cluster.end("f-a", "Running", taskStatusCount={"work": {"phase": {"Running": 1}}})
    assert settled(cluster).status["state"]["message"] == "entry b waits for tcp://f-a/work:80"
    assert cluster.told["WaitsForProbe"] == 2, "once for every reason"
    cluster.reading = answer(True)
    cluster.marked = True
    assert settled(cluster).ready == ("True", "AsSpecified")
    assert "reason" not in cluster.status["state"]


def test_a_target_without_the_task_has_to_complete() -> None:
    cluster = probed({"taskStatusList": [{"taskName": "other", "phase": "Running"}]})
    cluster.end("f-a", "Running")
    assert settled(cluster).made == ["f-a"]
    cluster.end("f-a", "Completed")
    assert settled(cluster).made == ["f-a", "f-b"]


def test_a_task_of_which_no_pod_is_needed_has_to_have_one_all_the_same() -> None:
    cluster = Cluster(entry("a"), {"name": "b", "dependsOn": {"targets": ["a"], "probe": _STATUS}})
    cluster.templates["a"]["spec"]["tasks"] = [{**TASK, "minAvailable": 0}]
    settled(cluster).end("f-a", "Running")
    assert settled(cluster).made == ["f-a"]


@for_each(({}, False), ({"Pending": 1}, False), ({"Running": 1}, True))
def test_an_entry_starts_when_a_task_has_got_far_enough(counted: dict[str, int], started: bool) -> None:
    cluster = probed(_STATUS)
    cluster.end("f-a", "Running", taskStatusCount={"work": {"phase": counted}})
    assert ("f-b" in settled(cluster).made) == started


# Schedules


def scheduled(**spec: Any) -> Cluster:
    return settled(Cluster(entry("a"), schedule="*/5 * * * *", **spec))


def test_a_schedule_makes_flows_that_have_none() -> None:
    cluster = scheduled(parameters={"mode": "m"})
    assert (cluster.flows, cluster.made) == ({}, [])
    assert cluster.back == NOW + timedelta(minutes=5)
    cluster.now = cluster.back
    settled(cluster)
    name = f"f-{int(cluster.now.timestamp()) // 60}"
    assert cluster.flows[name]["spec"] == {"flows": [entry("a")], "parameters": {"mode": "m"}}
    assert (cluster.flows[name]["apiVersion"], cluster.flows[name]["kind"]) == ("flow.volcano.sh/v1alpha1", "JobFlow")
    assert (cluster.status["active"], cluster.phase) == ([name], "Scheduled")
    assert cluster.status["flowConditions"][0]["status"] == "True"
    assert cluster.status["lastScheduleTime"] == times.render(cluster.now)
    assert cluster.back == NOW + timedelta(minutes=10)


@for_each((120, True), (119, False), (10**18, True))
def test_a_run_starts_late_within_its_deadline(deadline: int, starts: bool) -> None:
    cluster = Cluster(entry("a"), schedule="@hourly", startingDeadlineSeconds=deadline)
    cluster.wait(3600 + 120)
    assert bool(settled(cluster).flows) == starts


@cases(("another", {"schedule": "1,30 * * * *"}), ("more", {"schedule": "1,5 * * * *"}))
def test_an_edited_schedule_waits_for_its_next_slot(edit: dict[str, str]) -> None:
    cluster = scheduled()
    cluster.wait(120)
    cluster.edit(**edit)
    assert (settled(cluster).flows, settled(cluster).flows) == ({}, {})
    assert cluster.back is not None
    cluster.now = cluster.back
    assert len(settled(cluster).flows) == 1


def test_an_edit_after_the_clock_was_set_back_makes_no_earlier_slot_due() -> None:
    cluster, numbers = scheduled(), []
    for seconds, schedule in ((120, "30 * * * *"), (-110, "* * * * *"), (60, "* * * * *"), (60, "* * * * *")):
        cluster.wait(seconds)
        cluster.edit(schedule=schedule)
        numbers.append(len(settled(cluster).flows))
    assert numbers == [0, 0, 0, 1]


def test_slots_within_one_minute_have_flows_of_their_own() -> None:
    cluster = settled(Cluster(entry("a"), schedule="@every 20s"))
    for _ in range(3):
        cluster.wait(20)
        cluster.settle()
    minute = int(NOW.timestamp()) // 60
    assert sorted(cluster.flows) == [f"f-{minute}-20", f"f-{minute}-40", f"f-{minute + 1}"]


@for_each(("Allow", 2), ("Forbid", 1), ("Replace", 1))
def test_a_flow_that_is_due_while_another_is_at_work(policy: str, number: int) -> None:
    cluster = scheduled(concurrencyPolicy=policy)
    for _ in range(2):
        cluster.wait(300)
        cluster.settle()
    assert len(cluster.flows) == number
    newest = f"f-{int(cluster.now.timestamp()) // 60}"
    assert (newest in cluster.flows) == (policy != "Forbid")


def test_flows_that_are_over_are_kept_up_to_a_number() -> None:
    cluster = scheduled(successfulFlowsHistoryLimit=1)
    for _ in range(4):
        cluster.wait(300)
        cluster.settle()
        for name, flow in cluster.flows.items():
            cluster.flows[name] = {**flow, "status": {"state": {"phase": "Succeed"}}}
    assert len(cluster.flows) == 2
    cluster.marked = True
    assert len(settled(cluster).flows) == 1


def test_a_flow_whose_schedule_is_taken_out_runs_itself() -> None:
    cluster = scheduled()
    cluster.edit(schedule=None)
    assert run(cluster, a="Completed").phase == "Succeed"


def test_a_suspended_schedule_makes_nothing() -> None:
    cluster = scheduled(suspend=True)
    cluster.wait(3600)
    cluster.marked = True
    assert settled(cluster).flows == {}
