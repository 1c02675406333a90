"""One PodGroup: its phase, its status, its pods let go, and its back-out."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, condition
from tests.unit.controllers.plans import back, events, shape, status_of
from tests.unit.controllers.volcano.podgroup.gangs import group, pod, seen
from workers.api import conditions
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import status
from workers.controllers.volcano.podgroup.decide import ROUND, GangDecision
from workers.controllers.volcano.podgroup.group import GangRules, observe
from workers.controllers.volcano.podgroup.members import member
from workers.decision.plan import Delete, MarkObject, Patch, Plan, Together

ONE = 10**9
LOOKED_FOR = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
STATES: dict[str, dict[str, Any]] = {
    "waiting": {},
    "gated": {"gated": True},
    "nowhere": {"conditions": [LOOKED_FOR]},
    "bound": {"node": "one"},
    "running": {"node": "one", "phase": "Running"},
    "succeeded": {"node": "one", "phase": "Succeeded"},
    "failed": {"node": "one", "phase": "Failed"},
    "leaving": {"node": "one", "phase": "Running", "leaving": True},
    "left": {"leaving": True},
}


def pods(*states: str, **more: Any) -> list[Object]:
    """One pod for each state."""
    return [pod(f"gang-{index}", **{**STATES[state], **more}) for index, state in enumerate(states)]


def decide(body: Object, *made: Object, later: float = 0, rules: GangRules | None = None) -> Plan:
    return GangDecision(rules or GangRules()).decide(seen(body, *made), NOW + timedelta(seconds=later))


@cases(
    ("waits", "Pending", [], 3, "Pending"),
    ("waits, held back", "Pending", ["gated"] * 3, 3, "Pending"),
    ("needs nothing, and is not let through yet", "Pending", [], 0, "Pending"),
    ("needs nothing, its pod is held back", "Pending", ["gated"], 0, "Pending"),
    ("runs without having been let through", "Pending", ["running"] * 3, 3, "Running"),
    ("let through, no pods", "Inqueue", [], 3, "Inqueue"),
    ("let through, needs nothing", "Inqueue", [], 0, "Completed"),
    ("let through, no nodes", "Inqueue", ["waiting"] * 3, 3, "Inqueue"),
    ("let through, a part runs", "Inqueue", ["running", "nowhere", "nowhere"], 3, "Inqueue"),
    ("all have their nodes", "Inqueue", ["bound", "bound", "running"], 3, "Running"),
    ("enough have their nodes", "Inqueue", ["bound", "bound", "waiting"], 2, "Running"),
    ("some have ended", "Running", ["running", "succeeded", "failed"], 3, "Running"),
    ("one is leaving its node", "Running", ["running", "running", "leaving"], 3, "Running"),
    ("one leaves and had no node", "Running", ["running", "running", "left"], 3, "Pending"),
    ("all have ended well", "Running", ["succeeded"] * 3, 3, "Completed"),
    ("all have ended", "Running", ["succeeded", "failed", "failed"], 3, "Completed"),
    ("one more waits", "Running", ["succeeded", "succeeded", "waiting"], 2, "Completed"),
    ("one lost its place", "Running", ["running", "running", "waiting"], 3, "Pending"),
    ("one finds no place", "Running", ["running", "running", "nowhere"], 3, "Unknown"),
    ("one finds no place, none runs", "Running", ["bound", "bound", "nowhere"], 3, "Pending"),
    ("all are gone", "Running", [], 3, "Pending"),
    ("still finds no place", "Unknown", ["running", "running", "nowhere"], 3, "Unknown"),
    ("found its place", "Unknown", ["running", "running", "bound"], 3, "Running"),
    ("looks for none any more", "Unknown", ["running", "running"], 3, "Pending"),
    ("completed, and cleaned up", "Completed", [], 3, "Completed"),
    ("completed, one is gone", "Completed", ["succeeded", "succeeded"], 3, "Pending"),
    ("completed, and one more runs", "Completed", ["succeeded"] * 3 + ["running"], 3, "Running"),
)
def test_phases(before: str, states: list[str], least: int, after: str) -> None:
    found = observe(group(phase=before, least=least), [member(each) for each in pods(*states)])
    assert status.phase(found) == after


def test_the_status_counts_pods_and_what_they_take() -> None:
    made = pods("running", "running", "succeeded", "failed", "leaving", "waiting")
    status = status_of(decide(group(phase="Inqueue"), *made))
    assert {name: status[name] for name in ("phase", "running", "succeeded", "failed", "allocated")} == {
        "phase": "Running",
        "running": 2,
        "succeeded": 1,
        "failed": 1,
        "allocated": {"cpu": "3", "pods": "3"},
    }


def test_a_whole_gang_says_so_and_waits_no_more() -> None:
    waited = condition("Unschedulable", reason="NotEnoughResources", message="…")
    body = {"conditions": [waited], "backOff": {"count": 2, "since": at(-90), "until": at(-50)}}
    status = status_of(decide(group(phase="Inqueue", status=body), *pods(*["running"] * 3)))
    found = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    ready = "tasks in gang are ready to be scheduled"
    assert found == {"Scheduled": ("True", ready), "Unschedulable": ("False", ready)}
    assert "backOff" not in status


def test_a_gang_that_is_not_whole_any_more_says_so() -> None:
    made = pods("running", "running", "nowhere")
    told = conditions.find({"status": status_of(decide(group(phase="Running"), *made))}, "Unschedulable")
    assert told is not None
    assert (told["status"], told["reason"]) == ("True", "NotEnoughResources")
    assert told["message"] == "1/3 tasks in gang unschedulable: pod group is not ready, 2 of 3 have a node"


def test_a_gang_that_has_grown_says_what_is_not_there_yet_and_not_that_it_has_no_place() -> None:
    told = conditions.find({"status": status_of(decide(group(phase="Running"), *pods("running")))}, "Unschedulable")
    assert told is not None
    assert (told["reason"], told["message"]) == (
        "NotEnoughTasks",
        "pod group is not ready, 1 of 3 have a node, and the others are not there yet",
    )


RACK = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
PARTS = {"subGroupPolicy": [{"name": "w", "subGroupSize": 2, "minSubGroups": 1}]}


@cases(
    ("nothing to enforce", {}, True, (), ()),
    ("a label stands for the tier", RACK, True, ("rack",), ()),
    ("no label does", RACK, True, (), ("spec.networkTopology: the setting gang_topology",)),
    ("pods of others", RACK, False, ("rack",), ("spec.networkTopology: only the pods of Volcano Jobs",)),
    ("partitions", PARTS, True, (), ("spec.subGroupPolicy[0]: pods beyond the gang",)),
    ("all partitions are the gang", {"subGroupPolicy": [{"name": "w", "subGroupSize": 2}]}, True, (), ()),
    (
        "partitions of a tier",
        {"subGroupPolicy": [{"name": "w", **RACK}]},
        False,
        (),
        ("spec.subGroupPolicy[0].networkTopology: only the pods", "spec.subGroupPolicy[0]: pods beyond"),
    ),
)
def test_a_condition_names_what_nothing_enforces(
    spec: Object, of_a_job: bool, labels: tuple[str, ...], fields: tuple[str, ...]
) -> None:
    old = {"conditions": [condition("Enforced", "False", reason="NotEnforced", message="…")]}
    body = group(phase="Running", status=old, **spec)
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    body["metadata"]["ownerReferences"] = [owner] if of_a_job else []
    status = status_of(decide(body, *pods(*["running"] * 3), rules=GangRules(topology=labels)))
    found = conditions.find({"status": status}, "Enforced")
    assert (found or {}).get("status") == ("False" if fields else None)
    texts = (found or {}).get("message", "").split("; ") if fields else []
    assert [text.startswith(field) for text, field in zip(texts, fields, strict=True)] == [True] * len(fields)


def test_nothing_is_written_twice() -> None:
    made = pods(*["running"] * 3)
    body = group(phase="Running")
    status = status_of(decide(body, *made))
    assert decide({**body, "status": status}, *made, later=99).steps == ()


def test_an_admitted_group_lets_its_pods_go() -> None:
    body = group(phase="Inqueue", status={"admitted": at(-1)})
    other = {"name": "example.com/other"}
    held = pods("waiting", "gated", "waiting")
    held[-2]["spec"]["schedulingGates"].append(other)
    (stage,) = [step for step in decide(body, *held).steps if isinstance(step, Together)]
    (patch,) = stage.steps
    assert isinstance(patch, Patch)
    assert (patch.ref.name, patch.body) == (held[-2]["metadata"]["name"], {"spec": {"schedulingGates": [other]}})


def ungate(plan: Plan) -> list[str]:
    stages = [step for step in plan.steps if isinstance(step, Together)]
    return [step.ref.name for stage in stages for step in stage.steps if isinstance(step, Patch)]


@cases(
    ("as many as make it whole", "Inqueue", ["gated"] * 5, ["gang-0", "gang-1", "gang-2"]),
    ("one was let go before", "Inqueue", ["waiting", "gated", "gated", "gated"], ["gang-1", "gang-2"]),
    ("two have their places", "Inqueue", ["running", "succeeded", "gated", "gated"], ["gang-2"]),
    ("the first of three: it would start alone", "Inqueue", ["gated"], []),
    ("two of three", "Inqueue", ["gated", "gated"], []),
    ("one runs, one is there, one is to come", "Inqueue", ["running", "gated"], []),
    ("the third leaves and had no node", "Inqueue", ["gated", "gated", "left"], []),
    ("the rest is the round's", "Running", ["running"] * 3 + ["gated"], []),
    ("of a completed one, too", "Completed", ["succeeded"] * 3 + ["gated"], []),
)
def test_a_group_lets_go_what_makes_it_whole(phase: str, states: list[str], going: list[str]) -> None:
    plan = decide(group(phase=phase, status={"admitted": at(-1)}), *pods(*states))
    assert ungate(plan) == going
    # The round must hear of pods that wait although their gang is whole.
    assert (MarkObject(ROUND) in plan.steps) == (phase != "Inqueue")


def test_a_round_writes_the_first_phase_of_a_gang() -> None:
    new = group()
    del new["status"]
    assert decide(new).steps == (MarkObject(ROUND),)


@cases(
    ("of each task", {"a": 2, "b": 1}, [("a", 0), ("a", 1), ("a", 2), ("b", 0)], ["a-0", "a-1", "b-0"]),
    ("the Job makes its gang's pods itself", {"a": 2, "b": 1}, [("a", 2), ("a", 3), ("a", 4)], []),
    ("nobody says which those are", {}, [("a", 7)], ["a-7"]),
)
def test_of_a_job_the_first_pods_of_each_task_are_the_gang(
    first: dict[str, int], places: list[tuple[str, int]], going: list[str]
) -> None:
    held = [pod(f"{task}-{index}", gated=True, place=(task, index)) for task, index in places]
    tasks = {"minTaskMember": {"a": 9, "b": 9}, "minTaskPods": first} if first else {}
    body = group(phase="Inqueue", status={"admitted": at(-1)}, least=len(going), **tasks)
    assert ungate(decide(body, *held)) == going


def test_the_last_gate_takes_the_list_with_it() -> None:
    (stage,) = [
        step
        for step in decide(group(phase="Inqueue", least=1, status={"admitted": at(-1)}), *pods("gated")).steps
        if isinstance(step, Together)
    ]
    assert [step.body for step in stage.steps if isinstance(step, Patch)] == [{"spec": {"schedulingGates": None}}]


FOR_ONE = {"admitted": at(-1), "admittedFor": {"minMember": 1, "minResources": {"cpu": "1", "pods": "1"}}}


@cases(
    ("asks for what it was let through for", ["running"], 1, "Running", [], False),
    ("whole as it was, and asks for one more", ["running", "gated"], 2, "Running", [], True),
    ("not whole yet as it was", ["waiting", "gated"], 2, "Inqueue", [], False),
    ("none of it has a node", ["gated", "gated"], 2, "Inqueue", ["gang-0"], False),
    ("no pods yet", [], 2, "Inqueue", [], False),
    ("asks for nothing any more", [], 0, "Completed", [], False),
)
def test_a_group_is_let_through_for_what_it_asked_for_then(
    states: list[str], least: int, after: str, going: list[str], again: bool
) -> None:
    body, made = group(phase="Inqueue", least=least, status=FOR_ONE), pods(*states)
    plan = decide(body, *made)
    assert status.phase(observe(body, map(member, made))) == after
    assert ungate(plan) == going
    assert (back(plan) == 0.0) == again


def test_what_a_group_asks_for_beyond_its_admission_is_asked_for_when_it_is_whole() -> None:
    body = group(phase="Inqueue", least=2, status=FOR_ONE)
    assert observe(body, ()).need == {"cpu": ONE, "pods": ONE}
    made = pods("running", "gated")
    body = {**body, "status": status_of(decide(body, *made))}
    assert "admittedFor" not in body["status"]
    plan = decide(body, *made)
    assert (status_of(plan)["phase"], ungate(plan), MarkObject(ROUND) in plan.steps) == ("Pending", [], True)


@for_each({"minMember": "one"}, {"minResources": {"cpu": "1"}}, {})
def test_a_malformed_grant_is_none(nonsense: Object) -> None:
    assert observe(group(phase="Inqueue", least=2, status={"admittedFor": nonsense}), ()).least == 2


def test_pods_of_a_group_that_waits_are_held_back() -> None:
    assert not [step for step in decide(group(), *pods("gated", "gated")).steps if isinstance(step, Together)]


@cases(
    ("new", True, group(), []),
    (
        "judged already: the round comes back by itself",
        False,
        group(status={"conditions": [condition("Unschedulable", reason="NotEnoughResources")]}),
        [],
    ),
    ("completed", True, group(phase="Running"), ["succeeded"] * 3),
    ("waits again", True, group(phase="Running"), ["running"]),
    (
        "a pod beyond the gang has ended",
        True,
        group(phase="Running", status={"allocated": {"cpu": "4"}}),
        ["running"] * 3,
    ),
    ("a pod more runs", False, group(phase="Running", status={"allocated": {"cpu": "2"}}), ["running"] * 3),
    ("completed long ago", False, group(phase="Completed"), []),
)
def test_what_the_round_must_hear_of(told: bool, body: Object, states: list[str]) -> None:
    assert (MarkObject(ROUND) in decide(body, *pods(*states)).steps) is told


# Backing out.

ADMITTED = {"admitted": at(-300)}


def test_an_admitted_gang_has_so_much_time() -> None:
    plan = decide(group(phase="Inqueue", status={"admitted": at(-299)}), *pods("running", "waiting"))
    assert back(plan) == 1.0
    assert not events(plan)


def test_a_gang_without_enough_nodes_gives_back_what_it_holds() -> None:
    body = group(phase="Inqueue", least=6, status=ADMITTED)
    plan = decide(body, *pods("running", "bound", "waiting", "leaving", "succeeded"))
    assert shape(plan) == ["PatchStatus", "RecordEvent", "Patchs", "Deletes", "MarkObject"]
    status = status_of(plan)
    assert (status["phase"], "admitted" in status) == ("Pending", False)
    assert status["backOff"] == {"count": 1, "since": at(0), "until": at(10)}
    assert events(plan) == ["BackOff"]
    assert _going(plan) == ["gang-0", "gang-1", "gang-2"]
    marks = [step for stage in plan.steps if isinstance(stage, Together) for step in stage.steps]
    assert [step.body for step in marks if isinstance(step, Patch)] == [
        {"metadata": {"annotations": {"volcano.sh/controller-out-of-sync": "true"}}}
    ] * 3


@pytest.mark.parametrize(
    ("count", "wait"),
    [(1, 20), (2, 40), (5, 320), (6, 600), (99, 600)],
    ids=lambda value: str(value),
)
def test_every_attempt_waits_longer(count: int, wait: int) -> None:
    before = {**ADMITTED, "backOff": {"count": count, "since": at(-400), "until": at(-390)}}
    status = status_of(decide(group(phase="Inqueue", status=before), *pods("waiting")))
    assert status["backOff"] == {"count": count + 1, "since": at(0), "until": at(wait)}


def test_a_gang_that_has_been_whole_keeps_what_runs() -> None:
    was = {**ADMITTED, "conditions": [condition("Scheduled")]}
    plan = decide(group(phase="Inqueue", status=was), *pods("running", "bound", "waiting"))
    assert _going(plan) == ["gang-2"]


def test_pods_without_a_controller_are_not_deleted() -> None:
    plan = decide(group(phase="Inqueue", status=ADMITTED), *pods("running", "waiting", owned=False))
    assert status_of(plan)["phase"] == "Inqueue"
    assert back(plan) is None


def test_a_part_of_a_gang_that_was_held_back_does_not_keep_its_room_for_ever() -> None:
    plan = decide(group(phase="Inqueue", status=ADMITTED), *pods("gated", "gated", owned=False))
    assert status_of(plan)["phase"] == "Pending"
    assert _going(plan) == [], "they wait on, for the others"


@cases(
    ("no setting", {}, GangRules(patience=timedelta())),
    ("it says so", {"annotations": {"penstock.dev/gang-timeout": "0s"}}, GangRules()),
    ("it has more time", {"annotations": {"penstock.dev/gang-timeout": "6m"}}, GangRules()),
    (
        "less than no time: the setting holds",
        {"annotations": {"penstock.dev/gang-timeout": "-1s"}},
        GangRules(patience=timedelta(minutes=6)),
    ),
)
def test_a_gang_may_wait_longer(given: dict[str, Any], rules: GangRules) -> None:
    plan = decide(group(phase="Inqueue", status=ADMITTED, **given), *pods("waiting"), rules=rules)
    assert not events(plan)


def test_what_was_cut_short_goes_on() -> None:
    before = pods("running", "waiting", "gated")
    plan = decide(group(phase="Inqueue", status=ADMITTED), *before)
    after = {**group(), "status": status_of(plan)}
    # Nothing after the status was carried out; one pod was deleted meanwhile, another made anew.
    late = decide(after, before[0], pod("gang-3", gated=True, created=1), pod("gang-4", created=1), later=2)
    assert _going(late) == ["gang-0"]
    # Those that are held back stay.
    done = decide(after, before[2], later=2)
    assert _going(done) == []
    assert (status_of(done)["backOff"], status_of(done).get("allocated")) == (after["status"]["backOff"], None)


def test_a_back_out_without_pods_is_a_wait() -> None:
    plan = decide(group(phase="Inqueue", status=ADMITTED))
    assert shape(plan) == ["PatchStatus", "RecordEvent", "MarkObject"]


@for_each(None, {**group(), "metadata": {**group()["metadata"], "deletionTimestamp": at(0)}})
def test_what_is_gone_is_left_alone(body: Object | None) -> None:
    snapshot = seen(group(), *pods("gated"))
    gone = type(snapshot)(ref=snapshot.ref, body=body, referrers=snapshot.referrers)
    assert GangDecision().decide(gone, NOW).steps == ()


def _going(plan: Plan) -> list[str]:
    staged = [step for stage in plan.steps if isinstance(stage, Together) for step in stage.steps]
    return [step.ref.name for step in staged if isinstance(step, Delete)]


@for_each("Pending", "Inqueue", "Running", "Unknown")
def test_a_group_of_more_pods_than_any_gang_has_is_not_fitted_pod_by_pod(phase: str) -> None:
    """Each pod that is missing takes memory in every round."""
    found = observe(group(least=2**31 - 1, asks={"cpu": "1"}, phase=phase), ())
    assert found.least == 150_000
    assert found.problem == "spec.minMember: 2147483647 pods are more than the 150000 that a gang may have"
