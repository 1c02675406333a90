"""Several concerns of one kind as one controller."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from workers.api.kinds import JOB, NODE, POD, POD_GROUP, QUEUE, Object, Ref
from workers.controllers.composite import composed
from workers.decision.controller import Controller, ScaleTarget
from workers.decision.plan import NOTHING, Delete, MarkObject, Plan
from workers.decision.snapshot import Snapshot

REF = Ref(POD, "default", "p")


def marks(name: str) -> Plan:
    return Plan((MarkObject(Ref(QUEUE, "", name)),), name)


def part(name: str, plan: Plan | None = None, **more: Any) -> Controller:
    def decide(_snapshot: Snapshot, _now: datetime) -> Plan:
        return marks(name) if plan is None else plan

    return Controller(POD, decide, **more)


def only(label: str) -> Any:
    return lambda body: label in body["metadata"]["labels"]


def seen(*labels: str) -> Snapshot:
    return Snapshot(REF, {"metadata": {"labels": dict.fromkeys(labels, "")}})


OTHER = Delete(Ref(POD, "default", "q"), "u")
DELETES = Plan((Delete(REF, "u"),), "gone")


@cases(
    ("both, in order", [part("a"), part("b")], (), (*marks("a").steps, *marks("b").steps)),
    ("who accepts it", [part("a", accepts=only("x")), part("b")], (), marks("b").steps),
    ("nothing after its end", [part("a", DELETES), part("b")], (), DELETES.steps),
    ("the end of another", [part("a", Plan((OTHER,))), part("b")], (), (OTHER, *marks("b").steps)),
    ("nothing", [part("a", NOTHING), part("b", NOTHING)], (), ()),
)
def test_what_all_concerns_want_is_done(parts: list[Controller], labels: tuple[str, ...], steps: Any) -> None:
    assert composed(*parts).decide(seen(*labels), NOW).steps == steps


def test_why_says_it_of_all() -> None:
    assert composed(part("a"), part("b", NOTHING), part("c")).decide(seen(), NOW).why == "a; c"


def test_what_is_gone_is_decided_on_by_all() -> None:
    parts = composed(part("a", accepts=only("x")), part("b"))
    assert len(parts.decide(Snapshot(REF, None), NOW).steps) == 2


@for_each((("x",), True), (("y",), True), (("z",), False))
def test_an_object_is_ours_if_one_accepts_it(labels: tuple[str, ...], ours: bool) -> None:
    assert composed(part("a", accepts=only("x")), part("b", accepts=only("y"))).accepts(seen(*labels).body) is ours


def test_what_they_see_they_all_see() -> None:
    def asks(name: str) -> Any:
        return lambda body: (Ref(QUEUE, "", name), Ref(QUEUE, "", "both"))

    whole = composed(
        part(
            "a",
            children=(JOB,),
            referrers=(JOB,),
            follows=(NODE,),
            relatives=asks("a"),
            optional_relatives=asks("g"),
            accepts=only("x"),
        ),
        part(
            "b",
            children=(JOB, POD_GROUP),
            adopts=(NODE,),
            relatives=asks("b"),
            cluster_wide=(QUEUE,),
            reads_cluster_wide=only("y"),
        ),
    )
    assert (whole.children, whole.adopts, whole.referrers) == ((JOB, POD_GROUP), (NODE,), (JOB,))
    assert (whole.follows, whole.cluster_wide) == ((NODE,), (QUEUE,))

    def body(*labels: str) -> Object:
        found = seen(*labels).body
        assert found is not None
        return found

    assert [ref.name for ref in whole.relatives(body("x"))] == ["a", "both", "b"]
    assert [ref.name for ref in whole.relatives(body())] == ["b", "both"]
    assert [ref.name for ref in whole.optional_relatives(body("x"))] == ["g", "both"]
    assert whole.optional_relatives(body()) == ()
    assert whole.reads_cluster_wide(body("y"))
    assert not whole.reads_cluster_wide(body("x"))


@cases(
    ("another kind", replace(part("b"), kind=JOB)),
    ("polled", part("b", polled=True)),
    ("labelled", part("b", labelled={JOB.id: "x"})),
    ("scales", part("b", scales=lambda body: ScaleTarget("v1", "Pod", "x"))),
    ("grandchildren", part("b", grandchildren=lambda body: (JOB,))),
)
def test_what_cannot_be_composed_is_refused(other: Controller) -> None:
    with pytest.raises(ValueError, match="composed"):
        composed(part("a"), other)
