"""Two that scale one target: one of them does, the other says why it does not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, at, entry, reading, sample
from tests.unit.controllers.keda.scaledobject.scaledobjects import TARGET, scale, scaled_object, scaling
from tests.unit.controllers.keda.scaledobject.scaledobjects import snapshot as plain
from tests.unit.controllers.plans import events, status_of, verdict
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, Object, Ref
from workers.api.references import REFERENCES
from workers.controllers.keda.scaledobject import decide, rivals
from workers.decision.plan import Delete, Patch, Plan, RecordEvent, Together
from workers.decision.snapshot import Scalable


def named(name: str, *, created: float = -3600, uid: str = "other", **more: Any) -> Object:
    return scaled_object(
        metadata={"name": name, "uid": uid, "creationTimestamp": at(created), **more.pop("metadata", {})}, **more
    )


def autoscaler(name: str = "by-hand", *, owner: str | None = None, **annotations: str) -> Object:
    """An autoscaler of the target. owner: uid of the ScaledObject that controls it."""
    reference = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "name": "x",
        "uid": owner,
        "controller": True,
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            **({"ownerReferences": [reference]} if owner else {}),
            **({"annotations": {key.replace("__", "/"): each for key, each in annotations.items()}}),
        },
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "pool"}},
    }


def decided(body: Object, peers: Sequence[Object] = (), seen: Scalable | None = None) -> Plan:
    """The plan on five waiting events and one replica."""
    seen = seen or scale(1)
    found = plain(body, seen, reading(sample(5)))
    entries = tuple(entry(SCALED_OBJECT, each["metadata"]["name"], each) for each in peers)
    return decide(replace(found, peers=entries), NOW)


def message(plan: Plan) -> str:
    return str(status_of(plan)["conditions"][0]["message"])


@cases(
    ("alone", [], True),
    ("one is older", [named("older", created=-7200)], False),
    ("one is younger", [named("younger", created=-60)], True),
    ("one is older, and behind by name", [named("z", created=-7200)], False),
    ("one is younger, and before by name", [named("a", created=-60)], True),
    ("of one second: the name decides against it", [named("a")], False),
    ("of one second: the name decides for it", [named("z")], True),
    ("one that is being deleted", [named("older", created=-7200, metadata={"deletionTimestamp": at(-1)})], True),
    ("one of several", [named("y", created=-60), named("o", created=-7200)], False),
)
def test_of_two_on_one_target_the_older_scales(peers: list[Object], scales: bool) -> None:
    plan = decided(named("work", uid="own"), peers)
    assert (scaling(plan) is not None) == scales
    assert verdict(plan, "Ready")[0] == ("True" if scales else "False")
    if not scales:
        assert "is scaled by ScaledObject default/" in message(plan)
        assert events(plan) == ["ScaledObjectCheckFailed"]


@given(ages=st.lists(st.integers(-9, -1), min_size=2, max_size=5))
def test_exactly_one_of_them_scales(ages: list[int]) -> None:
    all_of_them = [named(f"so-{place}", created=age, uid=f"uid-{place}") for place, age in enumerate(ages)]
    scaling_ones = [
        body for body in all_of_them if scaling(decided(body, [other for other in all_of_them if other is not body]))
    ]
    assert len(scaling_ones) == 1
    assert scaling_ones[0]["metadata"]["creationTimestamp"] == at(min(ages))


def test_one_that_is_paused_at_a_number_leaves_the_target_of_another_alone() -> None:
    body = scaled_object(metadata={"annotations": {"autoscaling.keda.sh/paused-replicas": "0"}})
    assert scaling(decided(body, [named("older", created=-7200)])) is None
    assert scaling(decided(body)) is not None


def test_one_that_goes_does_not_restore_the_target_of_another() -> None:
    body = named(
        "work",
        uid="own",
        metadata={"deletionTimestamp": at(-1)},
        advanced={"restoreToOriginalReplicaCount": True},
        status={"originalReplicaCount": 9},
    )
    assert scaling(decided(body)) is not None
    plan = decided(body, [named("older", created=-7200)])
    assert scaling(plan) is None
    assert any(isinstance(step, Patch) for step in plan.steps)


OURS = scaled_object()["metadata"]["uid"]
TAKES_OVER = {
    "metadata": {"annotations": {rivals.TRANSFER: "true"}},
    "advanced": {"horizontalPodAutoscalerConfig": {"name": "by-hand"}},
}


@cases(
    ("a foreign one", {}, [autoscaler()], False, []),
    ("another ScaledObject's", {}, [autoscaler(owner="another")], False, []),
    ("KEDA's own for this", {}, [autoscaler("keda-hpa-work", owner=OURS)], False, ["keda-hpa-work"]),
    ("taken over", TAKES_OVER, [autoscaler()], False, ["by-hand"]),
    ("another one is to be taken over", TAKES_OVER, [autoscaler("other")], False, []),
    ("the one to take over must be named", TAKES_OVER | {"advanced": None}, [autoscaler()], False, []),
    ("declared no concern", {}, [autoscaler(**{"validations.keda.sh__hpa-ownership": "false"})], True, []),
    ("declared a concern", {}, [autoscaler(**{"validations.keda.sh__hpa-ownership": "true"})], False, []),
)
def test_autoscalers_on_the_target(more: Object, others: list[Object], scales: bool, deleted: list[str]) -> None:
    plan = decided(scaled_object(**more), seen=scale(1, autoscalers=tuple(others)))
    assert (scaling(plan) is not None) == scales
    deletes = [each for step in plan.steps if isinstance(step, Together) for each in step.steps]
    told = [(step.then, step.otherwise) for step in plan.steps if isinstance(step, Together)]
    replaced = RecordEvent("Normal", "AutoscalerReplaced", "Deleted {done} HorizontalPodAutoscaler of this target")
    refused = RecordEvent(
        "Warning", "AutoscalerStays", "The target's HorizontalPodAutoscaler cannot be deleted: {error}"
    )
    assert told == [(replaced, refused)] * bool(deleted)
    expected = [Delete(Ref(HORIZONTAL_POD_AUTOSCALER, "default", name), f"uid-{name}") for name in deleted]
    assert deletes == expected
    if not scales:
        assert others[0]["metadata"]["name"] in message(plan)


@cases(
    ("nothing is said", {"name": "pool"}, True),
    ("all is said", {"name": "pool", "apiVersion": "apps/v1", "kind": "Deployment"}, True),
    ("another version", {"name": "pool", "apiVersion": "apps/v1beta1"}, True),
    ("another kind", {"name": "pool", "kind": "StatefulSet"}, False),
    ("another group", {"name": "pool", "apiVersion": "example.com/v1"}, False),
    ("another name", {"name": "other"}, False),
)
def test_who_has_the_same_target(reference: Object, same: bool) -> None:
    refers_to = REFERENCES[SCALED_OBJECT.id]
    first, second = refers_to(scaled_object()), refers_to(scaled_object(scaleTargetRef=reference))
    assert first is not None
    assert second is not None
    assert (first.key == second.key) == same
    assert first.key != TARGET.key, "the target is not to hear of it"
    assert refers_to(scaled_object(scaleTargetRef={})) is None
