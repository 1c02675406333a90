"""The lifecycle decision, rule by rule."""

import math
from dataclasses import replace

from deploy.local.kubelet.containers.container_states import Container, ContainerEnding, Containers, ContainerWaiting
from deploy.local.kubelet.pods.lifecycle import ContainerBackoff, PodDecision, decide
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod, ran, runs, state
from workers.api.kinds import Object

NOW = 100.0
BACKOFF = ContainerBackoff(base=10, cap=300, quiet=600)
SIDE = box("side", restartPolicy="Always")
DELETED: Object = {"deletionTimestamp": "1970-01-01T00:01:40Z", "deletionGracePeriodSeconds": 5}


ALWAYS, ON_FAILURE = pod(restartPolicy="Always"), pod(restartPolicy="OnFailure")
TWO, ALWAYS_TWO = pod(box("a"), box("b")), pod(box("a"), box("b"), restartPolicy="Always")
NOTHING, OVER, START = PodDecision(), PodDecision(finished=True), PodDecision(start=("main",))


def new(name: str = "main") -> Container:
    return Container(name)


def backs_off(pause: float, name: str = "main") -> PodDecision:
    """The container restarts after so many seconds from now."""
    return PodDecision(backing_off={name: pause}, wake=NOW + pause)


@cases(
    ("a new pod starts", pod(), state(new()), START),
    ("its containers start side by side", TWO, state(new("a"), new("b")), PodDecision(start=("a", "b"))),
    ("what runs is left alone", pod(), state(runs()), NOTHING),
    ("Never: success ends it", pod(), state(ran(0)), OVER),
    ("Never: failure ends it", pod(), state(ran(1)), OVER),
    ("a pod lasts as long as its last container", TWO, state(ran(1, name="a"), runs("b")), NOTHING),
    ("OnFailure: success ends it", ON_FAILURE, state(ran(0)), OVER),
    ("OnFailure: failure restarts, the first time at once", ON_FAILURE, state(ran(1)), START),
    ("Always: success restarts", ALWAYS, state(ran(0)), START),
    ("the second restart waits", ALWAYS, state(ran(1, starts=2)), backs_off(10.0)),
    ("each further one twice as long", ALWAYS, state(ran(1, starts=4)), backs_off(40.0)),
    ("up to the cap", ALWAYS, state(ran(1, starts=1000)), backs_off(300.0)),
    ("a long quiet run forgets the backoff", ALWAYS, state(ran(1, starts=9, took=600)), START),
    ("the pause counts from the end", ALWAYS, state(ran(1, starts=2, at=90)), START),
    (
        "containers back off by themselves",
        pod(box("a"), box("b"), restartPolicy="Always"),
        state(ran(1, name="a", starts=2), ran(1, name="b")),
        replace(backs_off(10.0, "a"), start=("b",)),
    ),
    (
        "what could not be configured is tried again",
        pod(),
        state(Container("main", ContainerWaiting("CreateContainerConfigError", "x", 105.0))),
        PodDecision(wake=105.0, stuck=True),
    ),
    (
        "what has no slot waits until it is called",
        pod(),
        state(Container("main", ContainerWaiting("OutOfpods", "x", math.inf))),
        PodDecision(stuck=True),
    ),
)
def test_containers(body: Object, containers: Containers, wanted: PodDecision) -> None:
    assert decide(body, containers, NOW, backoff=BACKOFF) == wanted


HELD = ContainerWaiting("CreateContainerConfigError", "x", 105.0)
CRASHED, NOT_FOUND = ran(1, name="a", starts=2), ran(128, name="a", starts=2)
NOT_FOUND = replace(NOT_FOUND, state=replace(NOT_FOUND.state, reason="StartError"))  # type: ignore[type-var]


@cases(
    ("nothing can be made", TWO, state(Container("a", HELD), Container("b", HELD)), True),
    ("its program is missing", pod(box("a"), restartPolicy="Always"), state(NOT_FOUND), True),
    ("a program is missing, the rest held", ALWAYS_TWO, state(NOT_FOUND, Container("b", HELD)), True),
    ("another container runs", TWO, state(Container("a", HELD), runs("b")), False),
    ("another container starts", TWO, state(Container("a", HELD), new("b")), False),
    ("another container crashes again and again", ALWAYS_TWO, state(CRASHED, Container("b", HELD)), False),
    ("an init container is held", pod(init=(box("i"),)), state(Container("i", HELD), new()), True),
    ("its sidecar runs", pod(init=(SIDE,)), state(runs("side"), Container("main", HELD)), False),
    ("it is being deleted", pod(box("a"), meta=DELETED), state(Container("a", HELD)), False),
)
def test_a_pod_is_stuck_when(body: Object, containers: Containers, stuck: bool) -> None:
    assert decide(body, containers, NOW, backoff=BACKOFF).stuck is stuck


FIRST = PodDecision(start=("i1",))


@cases(
    ("the first comes first", "Never", state(new("i1"), new("i2"), new()), FIRST),
    ("the next waits for it", "Never", state(runs("i1"), new("i2"), new()), NOTHING),
    ("success lets the next start", "Never", state(ran(0, name="i1"), new("i2"), new()), PodDecision(start=("i2",))),
    ("the last success lets the containers start", "Never", state(ran(0, name="i1"), new()), START),
    ("Never: a failure ends the pod", "Never", state(ran(1, name="i1"), new()), OVER),
    ("OnFailure: a failure is tried again", "OnFailure", state(ran(1, name="i1"), new()), FIRST),
    ("Always: a success is not repeated", "Always", state(ran(0, name="i1"), new()), START),
    ("Always: failures back off", "Always", state(ran(1, name="i1", starts=2), new()), backs_off(10.0, "i1")),
    ("one whose record is lost is not repeated after the others began", "Never", state(new("i1"), ran(0)), OVER),
)
def test_init_containers(policy: str, containers: Containers, wanted: PodDecision) -> None:
    body = pod(init=tuple(box(name) for name in containers if name != "main"), restartPolicy=policy)
    assert decide(body, containers, NOW, backoff=BACKOFF) == wanted


@cases(
    ("a sidecar starts first", state(new("side"), new()), PodDecision(start=("side",))),
    ("the others wait for its startup probe", state(runs("side", started=False), new()), NOTHING),
    ("then they start beside it", state(runs("side"), new()), START),
    ("it is started again beside them", state(ran(0, name="side"), runs()), PodDecision(start=("side",))),
    ("it is stopped after them", state(runs("side"), ran(0)), PodDecision(stop=("side",))),
    ("and not started again then", state(ran(0, name="side"), ran(0)), OVER),
)
def test_sidecars(containers: Containers, wanted: PodDecision) -> None:
    assert decide(pod(init=(SIDE,)), containers, NOW, backoff=BACKOFF) == wanted


HOOK = {"preStop": {"sleep": {"seconds": 1}}}
SIDES = (box("s1", restartPolicy="Always"), box("i"), box("s2", restartPolicy="Always"))
INITIALIZED = ran(0, name="i")


def asked(since: float, container: Container) -> Container:
    """The container was asked to end at that instant."""
    return replace(container, stopping=since)


@cases(
    ("the others first", state(runs("s1"), INITIALIZED, runs("s2"), runs()), DELETED, PodDecision(stop=("main",))),
    (
        "sidecars wait for them",
        state(runs("s1"), INITIALIZED, runs("s2"), asked(98, runs())),
        DELETED,
        PodDecision(wake=103.0),
    ),
    (
        "an init container is one of the others",
        state(runs("s1"), runs("i"), new("s2"), new()),
        DELETED,
        PodDecision(stop=("i",)),
    ),
    (
        "then the last sidecar",
        state(runs("s1"), INITIALIZED, runs("s2"), asked(98, ran(143))),
        DELETED,
        PodDecision(stop=("s2",), wake=103.0),
    ),
    (
        "and the one before it when that has ended",
        state(runs("s1"), INITIALIZED, asked(99, ran(0, name="s2")), asked(98, ran(143))),
        DELETED,
        PodDecision(stop=("s1",), wake=103.0),
    ),
    (
        "all are killed when the grace of the first is over",
        state(runs("s1"), INITIALIZED, asked(99, runs("s2")), asked(95, ran(143))),
        DELETED,
        PodDecision(kill=("s1", "s2")),
    ),
    (
        "also sidecars that were never asked",
        state(runs("s1"), INITIALIZED, runs("s2"), asked(95, runs())),
        DELETED,
        PodDecision(kill=("s1", "s2", "main")),
    ),
    (
        "one that is sick is asked once",
        state(runs("s1"), INITIALIZED, runs("s2", unhealthy="sick"), ran(0)),
        None,
        PodDecision(stop=("s2",)),
    ),
    (
        "a pod that has ended by itself ends its sidecars in the same order",
        state(runs("s1"), INITIALIZED, runs("s2"), ran(0)),
        None,
        PodDecision(stop=("s2",)),
    ),
    (
        "with one grace for all of them",
        state(runs("s1"), INITIALIZED, asked(70, ran(0, name="s2")), ran(0)),
        None,
        PodDecision(kill=("s1",)),
    ),
)
def test_the_order_in_which_a_pod_ends(containers: Containers, meta: Object | None, wanted: PodDecision) -> None:
    assert decide(pod(init=SIDES, meta=meta), containers, NOW, backoff=BACKOFF) == wanted


HOOKED = (box("s1", restartPolicy="Always", lifecycle=HOOK), box("s2", restartPolicy="Always", lifecycle=HOOK))


@cases(
    ("at once", state(runs("s1"), runs("s2"), runs()), PodDecision(stop=("main",), hook=("s1", "s2"))),
    (
        "also while the others take their time",
        state(runs("s1"), runs("s2"), asked(98, runs())),
        PodDecision(hook=("s1", "s2"), wake=103.0),
    ),
    (
        "not again for one that is asked to end",
        state(runs("s1"), asked(99, runs("s2")), asked(98, ran(143))),
        PodDecision(hook=("s1",), wake=103.0),
    ),
    (
        "nor for one that has ended",
        state(runs("s1"), asked(99, ran(0, name="s2")), asked(98, ran(143))),
        PodDecision(stop=("s1",), wake=103.0),
    ),
    (
        "nor when the grace is over",
        state(runs("s1"), runs("s2"), asked(95, runs())),
        PodDecision(kill=("s1", "s2", "main")),
    ),
)
def test_hooks_of_sidecars_begin_with_the_end_of_the_pod(containers: Containers, wanted: PodDecision) -> None:
    assert decide(pod(init=HOOKED, meta=DELETED), containers, NOW, backoff=BACKOFF) == wanted


def rule(operator: str, *values: int) -> Object:
    """A rule that restarts a container after some exit codes, or after all but some."""
    return {"action": "Restart", "exitCodes": {"operator": operator, "values": list(values)}}


def own(policy: str, *rules: Object) -> Object:
    """A container with a restart policy of its own."""
    return box("main", restartPolicy=policy, restartPolicyRules=list(rules))


@cases(
    ("its own policy is for the better", pod(own("OnFailure")), ran(1), START),
    ("or for the worse", pod(own("Never"), restartPolicy="Always"), ran(1), OVER),
    ("a rule restarts what its policy would leave", pod(own("Never", rule("In", 41, 42))), ran(42), START),
    ("not after another code", pod(own("Never", rule("In", 41))), ran(42), OVER),
    ("a rule for all codes but some", pod(own("Never", rule("NotIn", 41))), ran(42), START),
    ("not after one of these", pod(own("Never", rule("NotIn", 41))), ran(41), OVER),
    ("a rule that nobody knows fits nothing", pod(own("Never", rule("Near", 1))), ran(2), OVER),
    ("one rule of several fits", pod(own("Never", rule("In", 1), rule("In", 2))), ran(2), START),
    ("without one the policy does", pod(own("OnFailure", rule("In", 5))), ran(1), START),
    ("and success ends it", pod(own("OnFailure", rule("In", 5))), ran(0), OVER),
    ("restarts by a rule back off", pod(own("Never", rule("In", 1))), ran(1, starts=2), backs_off(10.0)),
)
def test_containers_with_a_policy_of_their_own(body: Object, main: Container, wanted: PodDecision) -> None:
    assert decide(body, state(main), NOW, backoff=BACKOFF) == wanted


def test_an_init_container_may_have_a_policy_of_its_own() -> None:
    first = box("i1", restartPolicy="Never", restartPolicyRules=[rule("In", 1)])
    body = pod(init=(first,), restartPolicy="Always")
    assert decide(body, state(ran(1, name="i1"), new()), NOW, backoff=BACKOFF) == FIRST
    assert decide(body, state(ran(2, name="i1"), new()), NOW, backoff=BACKOFF) == OVER


OLD = ContainerEnding("DeadlineExceeded", "earlier")
STOP, KILL = PodDecision(stop=("main",)), PodDecision(kill=("main",))


@cases(
    ("deletion asks to end", pod(meta=DELETED), state(runs()), None, STOP),
    ("and waits for the grace", pod(meta=DELETED), state(runs(stopping=98.0)), None, PodDecision(wake=103.0)),
    ("then kills", pod(meta=DELETED), state(runs(stopping=95.0)), None, KILL),
    ("and is over when nothing runs", pod(meta=DELETED), state(ran(143)), None, OVER),
    ("nothing is restarted", pod(meta=DELETED, restartPolicy="Always"), state(ran(1)), None, OVER),
    ("nor started", pod(meta=DELETED), state(new()), None, OVER),
    (
        "a verdict stops with the pod's own grace",
        pod(terminationGracePeriodSeconds=2),
        state(runs(stopping=98.0)),
        OLD,
        replace(KILL, ending=OLD),
    ),
    ("or the default one", pod(), state(runs(stopping=71.0)), OLD, PodDecision(wake=101.0, ending=OLD)),
    ("and stays", pod(), state(ran(143)), OLD, replace(OVER, ending=OLD)),
    ("an unhealthy container is asked to end", pod(), state(runs(unhealthy="sick")), None, STOP),
    ("and killed", pod(), state(runs(unhealthy="sick", stopping=60.0)), None, KILL),
    (
        "a probe may grant it less",
        pod(terminationGracePeriodSeconds=60),
        state(runs(unhealthy="sick", stopping=98.0, unhealthy_grace=2.0)),
        None,
        KILL,
    ),
    (
        "or more",
        pod(terminationGracePeriodSeconds=1),
        state(runs(unhealthy="sick", stopping=98.0, unhealthy_grace=5.0)),
        None,
        PodDecision(wake=103.0),
    ),
    (
        "but not when the pod is deleted",
        pod(meta=DELETED),
        state(runs(unhealthy="sick", stopping=98.0, unhealthy_grace=60.0)),
        None,
        PodDecision(wake=103.0),
    ),
)
def test_stopping(body: Object, containers: Containers, ending: ContainerEnding | None, wanted: PodDecision) -> None:
    assert decide(body, containers, NOW, ending=ending, backoff=BACKOFF) == wanted


@cases(("cap", 30, 5.0, 105.0), ("own", 2, 5.0, 102.0), ("none", 0, 5.0, None))
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
    ("first start", new(), 1),
    ("restart", ran(1), 2),
    ("further restart", ran(1, starts=5), 6),
    ("after a quiet time", ran(1, starts=5, took=600.0), 1),
)
def test_streaks(before: Container, streak: int) -> None:
    assert BACKOFF.next_streak(before) == streak
