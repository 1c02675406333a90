"""What is done with a pod's containers, rule by rule."""

import math

import pytest

from deploy.local.kubelet.containers.states import Container, ContainerEnding, Containers, ContainerWaiting
from deploy.local.kubelet.pods.lifecycle import PodDecision, RestartBackoff, decide
from tests.unit.kubelet.factories import box, pod, ran, runs, state
from workers.api.kinds import Object

NOW = 100.0
BACKOFF = RestartBackoff(base=10, cap=300, quiet=600)
SIDE = box("side", restartPolicy="Always")
DELETED: Object = {"deletionTimestamp": "1970-01-01T00:01:40Z", "deletionGracePeriodSeconds": 5}


def new(name: str = "main") -> Container:
    return Container(name)


@pytest.mark.parametrize(
    ("body", "containers", "wanted"),
    [
        (pod(), state(new()), PodDecision(start=("main",))),
        (pod(box("a"), box("b")), state(new("a"), new("b")), PodDecision(start=("a", "b"))),
        (pod(), state(runs()), PodDecision()),
        (pod(), state(ran(0)), PodDecision(finished=True)),
        (pod(), state(ran(1)), PodDecision(finished=True)),
        (pod(box("a"), box("b")), state(ran(1, name="a"), runs("b")), PodDecision()),
        (pod(restartPolicy="OnFailure"), state(ran(0)), PodDecision(finished=True)),
        (pod(restartPolicy="OnFailure"), state(ran(1)), PodDecision(start=("main",))),
        (pod(restartPolicy="Always"), state(ran(0)), PodDecision(start=("main",))),
        (
            pod(restartPolicy="Always"),
            state(ran(1, starts=2)),
            PodDecision(backing_off={"main": 10.0}, wake=110.0),
        ),
        (
            pod(restartPolicy="Always"),
            state(ran(1, starts=4)),
            PodDecision(backing_off={"main": 40.0}, wake=140.0),
        ),
        (
            pod(restartPolicy="Always"),
            state(ran(1, starts=1000)),
            PodDecision(backing_off={"main": 300.0}, wake=400.0),
        ),
        (pod(restartPolicy="Always"), state(ran(1, starts=9, took=600)), PodDecision(start=("main",))),
        (pod(restartPolicy="Always"), state(ran(1, starts=2, at=90)), PodDecision(start=("main",))),
        (
            pod(box("a"), box("b"), restartPolicy="Always"),
            state(ran(1, name="a", starts=2), ran(1, name="b")),
            PodDecision(start=("b",), backing_off={"a": 10.0}, wake=110.0),
        ),
        (
            pod(),
            state(Container("main", ContainerWaiting("CreateContainerConfigError", "x", 105.0))),
            PodDecision(wake=105.0),
        ),
        (pod(), state(Container("main", ContainerWaiting("CreateContainerError", "x", math.inf))), PodDecision()),
    ],
    ids=[
        "a new pod starts",
        "its containers start side by side",
        "what runs is left alone",
        "Never: success ends it",
        "Never: failure ends it",
        "a pod lasts as long as its last container",
        "OnFailure: success ends it",
        "OnFailure: failure restarts, the first time at once",
        "Always: success restarts",
        "the second restart waits",
        "each further one twice as long",
        "up to the cap",
        "a long quiet run forgets the backoff",
        "the pause counts from the end",
        "containers back off by themselves",
        "what could not be configured is tried again",
        "what can never start waits for ever",
    ],
)
def test_containers(body: Object, containers: Containers, wanted: PodDecision) -> None:
    assert decide(body, containers, NOW, backoff=BACKOFF) == wanted


@pytest.mark.parametrize(
    ("init", "policy", "containers", "wanted"),
    [
        (("i1", "i2"), "Never", state(new("i1"), new("i2"), new()), PodDecision(start=("i1",))),
        (("i1", "i2"), "Never", state(runs("i1"), new("i2"), new()), PodDecision()),
        (("i1", "i2"), "Never", state(ran(0, name="i1"), new("i2"), new()), PodDecision(start=("i2",))),
        (("i1",), "Never", state(ran(0, name="i1"), new()), PodDecision(start=("main",))),
        (("i1",), "Never", state(ran(1, name="i1"), new()), PodDecision(finished=True)),
        (("i1",), "OnFailure", state(ran(1, name="i1"), new()), PodDecision(start=("i1",))),
        (("i1",), "Always", state(ran(0, name="i1"), new()), PodDecision(start=("main",))),
        (
            ("i1",),
            "Always",
            state(ran(1, name="i1", starts=2), new()),
            PodDecision(backing_off={"i1": 10.0}, wake=110.0),
        ),
        (("i1",), "Never", state(new("i1"), ran(0)), PodDecision(finished=True)),
    ],
    ids=[
        "the first comes first",
        "the next waits for it",
        "success lets the next start",
        "the last success lets the containers start",
        "Never: a failure ends the pod",
        "OnFailure: a failure is tried again",
        "Always: a success is not repeated",
        "Always: failures back off",
        "an init container whose record is lost is not repeated after the others began",
    ],
)
def test_init_containers(init: tuple[str, ...], policy: str, containers: Containers, wanted: PodDecision) -> None:
    body = pod(init=tuple(box(name) for name in init), restartPolicy=policy)
    assert decide(body, containers, NOW, backoff=BACKOFF) == wanted


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        (state(new("side"), new()), PodDecision(start=("side",))),
        (state(runs("side", started=False), new()), PodDecision()),
        (state(runs("side"), new()), PodDecision(start=("main",))),
        (state(ran(0, name="side"), runs()), PodDecision(start=("side",))),
        (state(runs("side"), ran(0)), PodDecision(stop=("side",))),
        (state(ran(0, name="side"), ran(0)), PodDecision(finished=True)),
    ],
    ids=[
        "a sidecar starts first",
        "the others wait for its startup probe",
        "then they start beside it",
        "it is started again beside them",
        "it is stopped after them",
        "and not started again then",
    ],
)
def test_sidecars(containers: Containers, wanted: PodDecision) -> None:
    assert decide(pod(init=(SIDE,)), containers, NOW, backoff=BACKOFF) == wanted


OLD = ContainerEnding("DeadlineExceeded", "earlier")


@pytest.mark.parametrize(
    ("body", "containers", "ending", "wanted"),
    [
        (pod(meta=DELETED), state(runs()), None, PodDecision(stop=("main",))),
        (pod(meta=DELETED), state(runs(stopping=98.0)), None, PodDecision(wake=103.0)),
        (pod(meta=DELETED), state(runs(stopping=95.0)), None, PodDecision(kill=("main",))),
        (pod(meta=DELETED), state(ran(143)), None, PodDecision(finished=True)),
        (pod(meta=DELETED, restartPolicy="Always"), state(ran(1)), None, PodDecision(finished=True)),
        (pod(meta=DELETED), state(new()), None, PodDecision(finished=True)),
        (
            pod(terminationGracePeriodSeconds=2),
            state(runs(stopping=98.0)),
            OLD,
            PodDecision(kill=("main",), ending=OLD),
        ),
        (pod(), state(runs(stopping=71.0)), OLD, PodDecision(wake=101.0, ending=OLD)),
        (pod(), state(ran(143)), OLD, PodDecision(finished=True, ending=OLD)),
        (pod(), state(runs(unhealthy="sick")), None, PodDecision(stop=("main",))),
        (pod(), state(runs(unhealthy="sick", stopping=60.0)), None, PodDecision(kill=("main",))),
    ],
    ids=[
        "deletion asks to end",
        "and waits for the grace",
        "then kills",
        "and is over when nothing runs",
        "nothing is restarted",
        "nor started",
        "a verdict stops with the pod's own grace",
        "or the default one",
        "and stays",
        "an unhealthy container is asked to end",
        "and killed",
    ],
)
def test_stopping(body: Object, containers: Containers, ending: ContainerEnding | None, wanted: PodDecision) -> None:
    assert decide(body, containers, NOW, ending=ending, backoff=BACKOFF) == wanted


@pytest.mark.parametrize(
    ("own", "verdict", "killed_at"), [(30, 5.0, 105.0), (2, 5.0, 102.0), (0, 5.0, None)], ids=["cap", "own", "none"]
)
def test_a_verdict_grants_no_more_than_the_pod_asks(own: int, verdict: float, killed_at: float | None) -> None:
    ending = ContainerEnding("Terminated", "bye", grace=verdict)
    body = pod(terminationGracePeriodSeconds=own)
    decision = decide(body, state(runs(stopping=NOW)), NOW, ending=ending)
    assert (decision.wake if not decision.kill else None) == killed_at


def test_the_deadline_counts_from_the_start_of_the_pod() -> None:
    body = pod(activeDeadlineSeconds=60) | {"status": {"startTime": "1970-01-01T00:01:00Z"}}
    assert decide(body, state(runs()), 119.0).wake == 120.0
    over = decide(body, state(runs()), 120.0)
    assert over.stop == ("main",)
    assert over.ending is not None
    assert over.ending.reason == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("before", "streak"),
    [(new(), 1), (ran(1), 2), (ran(1, starts=5), 6), (ran(1, starts=5, took=600.0), 1)],
    ids=["first start", "restart", "further restart", "after a quiet time"],
)
def test_streaks(before: Container, streak: int) -> None:
    assert BACKOFF.next_streak(before) == streak
