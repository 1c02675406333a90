"""The lifecycle decision, rule by rule."""

import math

from deploy.local.kubelet.containers.container_states import Container, ContainerEnding, Containers, ContainerWaiting
from deploy.local.kubelet.pods.lifecycle import ContainerBackoff, PodDecision, decide
from tests.unit.kubelet.factories import box, pod, ran, runs, state
from tests.unit.tables import cases
from workers.api.kinds import Object

NOW = 100.0
BACKOFF = ContainerBackoff(base=10, cap=300, quiet=600)
SIDE = box("side", restartPolicy="Always")
DELETED: Object = {"deletionTimestamp": "1970-01-01T00:01:40Z", "deletionGracePeriodSeconds": 5}


def new(name: str = "main") -> Container:
    return Container(name)


@cases(
    ("body", "containers", "wanted"),
    {
        "a new pod starts": (pod(), state(new()), PodDecision(start=("main",))),
        "its containers start side by side": (
            pod(box("a"), box("b")),
            state(new("a"), new("b")),
            PodDecision(start=("a", "b")),
        ),
        "what runs is left alone": (pod(), state(runs()), PodDecision()),
        "Never: success ends it": (pod(), state(ran(0)), PodDecision(finished=True)),
        "Never: failure ends it": (pod(), state(ran(1)), PodDecision(finished=True)),
        "a pod lasts as long as its last container": (
            pod(box("a"), box("b")),
            state(ran(1, name="a"), runs("b")),
            PodDecision(),
        ),
        "OnFailure: success ends it": (pod(restartPolicy="OnFailure"), state(ran(0)), PodDecision(finished=True)),
        "OnFailure: failure restarts, the first time at once": (
            pod(restartPolicy="OnFailure"),
            state(ran(1)),
            PodDecision(start=("main",)),
        ),
        "Always: success restarts": (pod(restartPolicy="Always"), state(ran(0)), PodDecision(start=("main",))),
        "the second restart waits": (
            pod(restartPolicy="Always"),
            state(ran(1, starts=2)),
            PodDecision(backing_off={"main": 10.0}, wake=110.0),
        ),
        "each further one twice as long": (
            pod(restartPolicy="Always"),
            state(ran(1, starts=4)),
            PodDecision(backing_off={"main": 40.0}, wake=140.0),
        ),
        "up to the cap": (
            pod(restartPolicy="Always"),
            state(ran(1, starts=1000)),
            PodDecision(backing_off={"main": 300.0}, wake=400.0),
        ),
        "a long quiet run forgets the backoff": (
            pod(restartPolicy="Always"),
            state(ran(1, starts=9, took=600)),
            PodDecision(start=("main",)),
        ),
        "the pause counts from the end": (
            pod(restartPolicy="Always"),
            state(ran(1, starts=2, at=90)),
            PodDecision(start=("main",)),
        ),
        "containers back off by themselves": (
            pod(box("a"), box("b"), restartPolicy="Always"),
            state(ran(1, name="a", starts=2), ran(1, name="b")),
            PodDecision(start=("b",), backing_off={"a": 10.0}, wake=110.0),
        ),
        "what could not be configured is tried again": (
            pod(),
            state(Container("main", ContainerWaiting("CreateContainerConfigError", "x", 105.0))),
            PodDecision(wake=105.0),
        ),
        "what can never start waits for ever": (
            pod(),
            state(Container("main", ContainerWaiting("CreateContainerError", "x", math.inf))),
            PodDecision(),
        ),
    },
)
def test_containers(body: Object, containers: Containers, wanted: PodDecision) -> None:
    assert decide(body, containers, NOW, backoff=BACKOFF) == wanted


@cases(
    ("init", "policy", "containers", "wanted"),
    {
        "the first comes first": (
            ("i1", "i2"),
            "Never",
            state(new("i1"), new("i2"), new()),
            PodDecision(start=("i1",)),
        ),
        "the next waits for it": (("i1", "i2"), "Never", state(runs("i1"), new("i2"), new()), PodDecision()),
        "success lets the next start": (
            ("i1", "i2"),
            "Never",
            state(ran(0, name="i1"), new("i2"), new()),
            PodDecision(start=("i2",)),
        ),
        "the last success lets the containers start": (
            ("i1",),
            "Never",
            state(ran(0, name="i1"), new()),
            PodDecision(start=("main",)),
        ),
        "Never: a failure ends the pod": (
            ("i1",),
            "Never",
            state(ran(1, name="i1"), new()),
            PodDecision(finished=True),
        ),
        "OnFailure: a failure is tried again": (
            ("i1",),
            "OnFailure",
            state(ran(1, name="i1"), new()),
            PodDecision(start=("i1",)),
        ),
        "Always: a success is not repeated": (
            ("i1",),
            "Always",
            state(ran(0, name="i1"), new()),
            PodDecision(start=("main",)),
        ),
        "Always: failures back off": (
            ("i1",),
            "Always",
            state(ran(1, name="i1", starts=2), new()),
            PodDecision(backing_off={"i1": 10.0}, wake=110.0),
        ),
        "an init container whose record is lost is not repeated after the others began": (
            ("i1",),
            "Never",
            state(new("i1"), ran(0)),
            PodDecision(finished=True),
        ),
    },
)
def test_init_containers(init: tuple[str, ...], policy: str, containers: Containers, wanted: PodDecision) -> None:
    body = pod(init=tuple(box(name) for name in init), restartPolicy=policy)
    assert decide(body, containers, NOW, backoff=BACKOFF) == wanted


@cases(
    ("containers", "wanted"),
    {
        "a sidecar starts first": (state(new("side"), new()), PodDecision(start=("side",))),
        "the others wait for its startup probe": (state(runs("side", started=False), new()), PodDecision()),
        "then they start beside it": (state(runs("side"), new()), PodDecision(start=("main",))),
        "it is started again beside them": (state(ran(0, name="side"), runs()), PodDecision(start=("side",))),
        "it is stopped after them": (state(runs("side"), ran(0)), PodDecision(stop=("side",))),
        "and not started again then": (state(ran(0, name="side"), ran(0)), PodDecision(finished=True)),
    },
)
def test_sidecars(containers: Containers, wanted: PodDecision) -> None:
    assert decide(pod(init=(SIDE,)), containers, NOW, backoff=BACKOFF) == wanted


OLD = ContainerEnding("DeadlineExceeded", "earlier")


@cases(
    ("body", "containers", "ending", "wanted"),
    {
        "deletion asks to end": (pod(meta=DELETED), state(runs()), None, PodDecision(stop=("main",))),
        "and waits for the grace": (pod(meta=DELETED), state(runs(stopping=98.0)), None, PodDecision(wake=103.0)),
        "then kills": (pod(meta=DELETED), state(runs(stopping=95.0)), None, PodDecision(kill=("main",))),
        "and is over when nothing runs": (pod(meta=DELETED), state(ran(143)), None, PodDecision(finished=True)),
        "nothing is restarted": (
            pod(meta=DELETED, restartPolicy="Always"),
            state(ran(1)),
            None,
            PodDecision(finished=True),
        ),
        "nor started": (pod(meta=DELETED), state(new()), None, PodDecision(finished=True)),
        "a verdict stops with the pod's own grace": (
            pod(terminationGracePeriodSeconds=2),
            state(runs(stopping=98.0)),
            OLD,
            PodDecision(kill=("main",), ending=OLD),
        ),
        "or the default one": (pod(), state(runs(stopping=71.0)), OLD, PodDecision(wake=101.0, ending=OLD)),
        "and stays": (pod(), state(ran(143)), OLD, PodDecision(finished=True, ending=OLD)),
        "an unhealthy container is asked to end": (
            pod(),
            state(runs(unhealthy="sick")),
            None,
            PodDecision(stop=("main",)),
        ),
        "and killed": (pod(), state(runs(unhealthy="sick", stopping=60.0)), None, PodDecision(kill=("main",))),
    },
)
def test_stopping(body: Object, containers: Containers, ending: ContainerEnding | None, wanted: PodDecision) -> None:
    assert decide(body, containers, NOW, ending=ending, backoff=BACKOFF) == wanted


@cases(("own", "verdict", "killed_at"), {"cap": (30, 5.0, 105.0), "own": (2, 5.0, 102.0), "none": (0, 5.0, None)})
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


@cases(
    ("before", "streak"),
    {
        "first start": (new(), 1),
        "restart": (ran(1), 2),
        "further restart": (ran(1, starts=5), 6),
        "after a quiet time": (ran(1, starts=5, took=600.0), 1),
    },
)
def test_streaks(before: Container, streak: int) -> None:
    assert BACKOFF.next_streak(before) == streak
