"""Refused ScaledObjects: invalid manifests, and targets and names that are taken."""

from typing import Any

from tests.support.tables import cases
from tests.unit.controllers.factories import at
from tests.unit.controllers.keda.scaledobject.scaledobjects import TRIGGER, scaled_object
from workers.admission import scaledobject
from workers.admission.lookup import Known
from workers.admission.rules import RULES
from workers.api.kinds import SCALED_OBJECT, Object

NAMED = {**TRIGGER, "name": "a"}


def named(name: str, *, namespace: str = "default", **spec: Any) -> Object:
    return scaled_object(metadata={"name": name, "namespace": namespace, "uid": name}, **spec)


def formula(text: str) -> Object:
    return {"triggers": [NAMED], "advanced": {"scalingModifiers": {"formula": text, "target": "1"}}}


def autoscaler(name: str) -> Object:
    return {"advanced": {"horizontalPodAutoscalerConfig": {"name": name}}}


def found(body: Object, *others: Object, old: Object | None = None) -> list[tuple[str, str]]:
    known = Known(whole={SCALED_OBJECT.id: (body, *others)})
    return [(finding.field, finding.message) for finding in scaledobject.problems(body, old, known)]


@cases(
    ("its model", {"minReplicaCount": 101}, "spec.minReplicaCount", "minReplicaCount 101 is above"),
    ("no formula", formula("a +"), "spec.advanced.scalingModifiers.formula", "position 4"),
    ("a formula of nobody", formula("b"), "spec.advanced.scalingModifiers.formula", "no trigger named b"),
    (
        "a formula of itself",
        formula("composite * 2"),
        "spec.advanced.scalingModifiers.formula",
        "no trigger named composite",
    ),
    ("no number", formula("a > 1"), "spec.advanced.scalingModifiers.formula", "a number is needed"),
    (
        "parts that do not fit",
        formula("a and true ? 1 : 2"),
        "spec.advanced.scalingModifiers.formula",
        "true or false is needed",
    ),
)
def test_an_invalid_manifest_is_refused(spec: Object, field: str, message: str) -> None:
    ((where, why),) = found(named("work", **spec))
    assert where == field
    assert message in why


@cases(
    ("the least", {}),
    ("a formula", formula("a")),
    ("a formula without a result for some values", formula("a / (a - 1)")),
    ("a formula of nothing for some values", formula("a == 1 ? 1 : nil")),
)
def test_what_is_well(spec: Object) -> None:
    assert found(named("work", **spec), named("other", scaleTargetRef={"name": "theirs"})) == []


@cases(
    ("a target", named("other"), "spec.scaleTargetRef"),
    (
        "a target, spelled out",
        named("other", scaleTargetRef={"name": "pool", "kind": "Deployment", "apiVersion": "apps/v1"}),
        "spec.scaleTargetRef",
    ),
    ("in another namespace", named("other", namespace="elsewhere"), None),
    ("another kind", named("other", scaleTargetRef={"name": "pool", "kind": "StatefulSet"}), None),
    (
        "an autoscaler's name",
        named("other", scaleTargetRef={"name": "theirs"}, **autoscaler("keda-hpa-work")),
        "spec.advanced.horizontalPodAutoscalerConfig.name",
    ),
)
def test_what_is_anothers_already(other: Object, field: str | None) -> None:
    body = named("work")
    assert [where for where, _ in found(body, other)] == ([field] if field else [])
    assert found(body, other, old=body) == [], "what is there may stay"
    going = {**body, "metadata": {**body["metadata"], "deletionTimestamp": at(0)}}
    assert found(going, other, old=named("work", minReplicaCount=1)) == [], "and may go"
    assert len(found(body, other, old=named("work", minReplicaCount=1))) == bool(field)


def test_a_wrong_manifest_of_a_taken_target_is_both() -> None:
    wrong = named("work", minReplicaCount=101)
    assert [where for where, _ in found(wrong, named("other"))] == ["spec.minReplicaCount", "spec.scaleTargetRef"]


def test_servers_and_webhooks_know_the_rule() -> None:
    rules = RULES[SCALED_OBJECT.id]
    assert rules.judges == (SCALED_OBJECT,)
    assert not rules.fills_in
    assert not rules.keeps
    assert not rules.vital, "as KEDA's webhook: its absence stops nobody"
