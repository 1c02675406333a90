"""The status of a pod, as users and controllers read it."""

from deploy.local.kubelet.containers.container_states import (
    Container,
    ContainerEnding,
    Containers,
    ContainerWaiting,
    Terminated,
)
from deploy.local.kubelet.pods import status
from deploy.local.kubelet.pods.lifecycle import PodDecision
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod, ran, runs, state
from workers.api.kinds import Object

NOW = 200.0
TWO, WITH_INIT, ALWAYS = pod(box("a"), box("b")), pod(init=(box("i"),)), pod(restartPolicy="Always")
GOING, OVER = PodDecision(), PodDecision(finished=True)
LATE = PodDecision(finished=True, ending=ContainerEnding("DeadlineExceeded", "too long"))


@cases(
    ("nothing started", pod(), state(Container("main")), GOING, "Pending"),
    ("all started", pod(), state(runs()), GOING, "Running"),
    ("one of two started", TWO, state(runs("a"), Container("b")), GOING, "Pending"),
    ("one of two ended", TWO, state(runs("a"), ran(1, name="b")), GOING, "Running"),
    ("between restarts", ALWAYS, state(ran(1)), PodDecision(backing_off={"main": 10.0}), "Running"),
    ("initializing", WITH_INIT, state(runs("i"), Container("main")), GOING, "Pending"),
    ("initializing failed", WITH_INIT, state(ran(1, name="i"), Container("main")), OVER, "Failed"),
    ("all succeeded", pod(), state(ran(0)), OVER, "Succeeded"),
    ("one failed", TWO, state(ran(0, name="a"), ran(2, name="b")), OVER, "Failed"),
    ("a verdict outweighs success", pod(), state(ran(0)), LATE, "Failed"),
    ("a verdict counts when all has ended", pod(), state(runs()), PodDecision(ending=LATE.ending), "Running"),
)
def test_phase(body: Object, containers: Containers, decision: PodDecision, phase: str) -> None:
    assert status.build(body, containers, decision, NOW)["phase"] == phase


def container_status(body: Object, container: Container, decision: PodDecision = GOING) -> Object:
    return status.build(body, state(container), decision, NOW)["containerStatuses"][0]


@cases(
    {
        f"{name}: {type_}": (body, containers, decision, type_, (truth, reason))
        for name, (body, containers, decision, conditions) in {
            "initializing": (
                WITH_INIT,
                state(runs("i"), Container("main")),
                GOING,
                ["Initialized False ContainersNotInitialized", "Ready False ContainersNotReady"],
            ),
            "running": (pod(), state(runs()), GOING, ["Initialized True", "Ready True"]),
            "unready": (pod(), state(runs(ready=False)), GOING, ["Ready False ContainersNotReady"]),
            "succeeded": (pod(), state(ran(0)), OVER, ["Initialized True PodCompleted", "Ready False PodCompleted"]),
            "failed": (pod(), state(ran(1)), OVER, ["ContainersReady False PodFailed", "Ready False PodFailed"]),
            "a closed gate": (
                pod(readinessGates=[{"conditionType": "example.com/gate"}]),
                state(runs()),
                GOING,
                ["ContainersReady True", "Ready False ReadinessGatesNotReady"],
            ),
            "disrupted": (
                pod(),
                state(ran(143)),
                PodDecision(finished=True, ending=ContainerEnding("Terminated", "bye", disruption=True)),
                ["DisruptionTarget True TerminationByKubelet"],
            ),
        }.items()
        for type_, truth, reason in ((*each.split(), None)[:3] for each in conditions)
    },
)
def test_conditions(
    body: Object, containers: Containers, decision: PodDecision, type_: str, wanted: tuple[str, str | None]
) -> None:
    (found,) = [one for one in status.build(body, containers, decision, NOW)["conditions"] if one["type"] == type_]
    assert (found["status"], found.get("reason")) == wanted


def test_a_condition_keeps_its_time_until_it_changes_and_those_of_others_stay() -> None:
    first = status.build(pod(), state(runs(ready=False)), GOING, 10.0)
    foreign = {"type": "example.com/gate", "status": "True"}
    shown = pod() | {"status": {**first, "conditions": [*first["conditions"], foreign]}}
    built = {one["type"]: one for one in status.build(shown, state(runs()), GOING, 20.0)["conditions"]}
    assert built["Initialized"]["lastTransitionTime"] == "1970-01-01T00:00:10Z"
    assert built["Ready"]["lastTransitionTime"] == "1970-01-01T00:00:20Z"
    assert built["example.com/gate"] == foreign


def test_the_start_time_stays() -> None:
    first = status.build(pod(), state(runs()), GOING, 10.0)
    assert status.build(status.merged(pod(), first), state(runs()), GOING, 99.0)["startTime"] == first["startTime"]


def test_a_status_in_flight_outweighs_an_older_echo() -> None:
    own = status.build(pod(), state(ran(0)), OVER, 10.0)
    echo = pod() | {"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}, {"type": "x"}]}}
    merged = status.merged(echo, own)["status"]
    assert merged["phase"] == "Succeeded"
    assert [one["type"] for one in merged["conditions"]].count("Ready") == 1
    assert merged["conditions"][-1] == {"type": "x"}


def test_a_container_that_backs_off_shows_why_and_how_it_ended() -> None:
    decision = PodDecision(backing_off={"main": 20.0})
    shown = container_status(ALWAYS, ran(7, starts=3), decision)
    assert shown["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 20s" in shown["state"]["waiting"]["message"]
    assert shown["lastState"]["terminated"]["exitCode"] == 7
    assert shown["lastState"]["terminated"]["containerID"] == "process://u/main/2"
    assert shown["restartCount"] == 2


def test_a_restarted_container_shows_its_last_end() -> None:
    before = Terminated(7, 1.0, 2.0)
    shown = container_status(pod(), runs(attempt=1, last=before))
    assert shown["lastState"]["terminated"]["containerID"] == "process://u/main/0"
    assert shown["state"] == {"running": {"startedAt": "1970-01-01T00:01:30Z"}}


@cases(
    ("untouched", Container("main"), {"waiting": {"reason": "ContainerCreating"}}),
    ("held", Container("main", ContainerWaiting("X", "why")), {"waiting": {"reason": "X", "message": "why"}}),
)
def test_waiting(container: Container, wanted: Object) -> None:
    shown = container_status(pod(), container)
    assert shown["state"] == wanted
    assert "containerID" not in shown


def test_an_unschedulable_pod_keeps_its_other_conditions() -> None:
    shown = pod() | {"status": {"conditions": [{"type": "x", "status": "True"}]}}
    told = status.unschedulable(shown, "no room", NOW)["conditions"]
    assert [(one["type"], one["status"]) for one in told] == [("x", "True"), ("PodScheduled", "False")]
    assert told[1]["message"] == "no room"


def test_a_pod_without_a_node_shows_which_containers_cannot_be_made_until_they_can() -> None:
    body = pod(box("a"), box("b"), init=(box("i"),))
    told = status.unschedulable(body, "x", NOW, {"b": "no command"})
    waiting = {one["name"]: one["state"]["waiting"] for one in told["containerStatuses"]}
    assert waiting["b"] == {"reason": "CreateContainerError", "message": "no command"}
    assert [waiting["a"]["reason"], told["initContainerStatuses"][0]["state"]["waiting"]["reason"]] == [
        "PodInitializing"
    ] * 2
    later = status.unschedulable(body | {"status": told}, "no room", NOW)
    assert {name: value for name, value in later.items() if name != "conditions"} == {
        "containerStatuses": None,
        "initContainerStatuses": None,
    }
