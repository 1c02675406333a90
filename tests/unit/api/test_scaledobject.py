"""ScaledObjects as typed values: what is accepted, what is refused and where, and what the CRD shows of them."""

from typing import Any

import pytest

from tests.support.tables import cases
from workers.api import crds
from workers.api.keda import scaledobject
from workers.api.kinds import Object
from workers.errors import UserError

TRIGGER = {"type": "redis", "metadata": {"listName": "work"}}


def body(*, name: str = "work", **spec: Any) -> Object:
    whole = {"scaleTargetRef": {"name": "pool"}, "triggers": [TRIGGER], **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


def trigger(**more: Any) -> list[Object]:
    return [{**TRIGGER, **more}]


def rules(**more: Any) -> Object:
    return {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": more}}}


def modifiers(**more: Any) -> Object:
    return {"scalingModifiers": more}


def usage(value: str = "50", metric_type: str = "Utilization", **more: Any) -> list[Object]:
    return [{"type": "cpu", "metricType": metric_type, "metadata": {"value": value}, **more}]


def policy(**more: Any) -> list[Object]:
    return [{"type": "Pods", "value": 1, "periodSeconds": 15, **more}]


@cases(
    ("the least", {}),
    ("idle below min", {"minReplicaCount": 1, "idleReplicaCount": 0}),
    ("a written minimum of 0 counts as 1", {"minReplicaCount": 0, "idleReplicaCount": 0}),
    ("min is max", {"minReplicaCount": 5, "maxReplicaCount": 5}),
    ("unknown fields", {"unheardOf": True}),
    ("nulls", {"cooldownPeriod": None, "fallback": None}),
    ("a total", {"triggers": trigger(metricType="Value")}),
    ("cached", {"triggers": trigger(useCachedMetrics=True)}),
    ("cpu", {"triggers": usage()}),
    ("memory", {"triggers": usage("200Mi", "AverageValue", type="memory")}),
    ("cpu and another, to zero", {"triggers": [*usage(), TRIGGER], "minReplicaCount": 0}),
    ("modifiers", {"advanced": modifiers(formula="a", target="2.5")}),
    ("modifiers without a field", {"advanced": modifiers()}),
    ("modifiers of empty texts", {"advanced": modifiers(formula="", target="", activationTarget="")}),
    ("rules", {"advanced": rules(stabilizationWindowSeconds=3600, policies=policy())}),
    ("a tolerance", {"advanced": rules(tolerance="50m")}),
    ("a fallback", {"fallback": {"failureThreshold": 0, "replicas": 0}}),
)
def test_accepted(spec: Object) -> None:
    assert scaledobject.parse(body(**spec)).spec.triggers


@cases(
    ("no target", {"scaleTargetRef": {}}, "spec.scaleTargetRef.name"),
    ("an empty target", {"scaleTargetRef": {"name": ""}}, "spec.scaleTargetRef.name"),
    ("no trigger", {"triggers": []}, "spec.triggers"),
    ("a name twice", {"triggers": [TRIGGER | {"name": "a"}] * 2}, r"\[1\].name: 'a'"),
    ("cpu", {"triggers": trigger(type="cpu")}, "must be Utilization or AverageValue"),
    ("in total", {"triggers": usage(metricType="Value")}, "must be Utilization or AverageValue"),
    ("no share", {"triggers": usage("0")}, "whole number above 0"),
    ("a share as a quantity", {"triggers": usage("50m")}, "whole number above 0"),
    ("an amount in words", {"triggers": usage("a lot", "AverageValue")}, "must be a quantity"),
    ("a negative amount", {"triggers": usage("-1", "AverageValue")}, "must be above 0"),
    ("cached usage", {"triggers": usage(useCachedMetrics=True)}, "useCachedMetrics"),
    ("usage alone, to zero", {"triggers": usage(), "minReplicaCount": 0}, "cannot scale to zero"),
    (
        "a fallback of usage",
        {"triggers": usage(), "fallback": {"failureThreshold": 1, "replicas": 1}},
        "all triggers are cpu or memory",
    ),
    ("a share of nothing", {"triggers": trigger(metricType="Utilization")}, "Utilization"),
    ("an unknown type of target", {"triggers": trigger(metricType="Average")}, "metricType"),
    ("a cached clock", {"triggers": trigger(type="cron", useCachedMetrics=True)}, "useCachedMetrics"),
    ("no interval", {"pollingInterval": 0}, "spec.pollingInterval"),
    (
        "an interval beyond 32 bits",
        {"pollingInterval": 2**31},
        "spec.pollingInterval: must be less than or equal to 2147483647",
    ),
    ("a cooldown beyond 32 bits", {"cooldownPeriod": 2**31}, "spec.cooldownPeriod"),
    ("a first cooldown beyond 32 bits", {"initialCooldownPeriod": 2**31}, "spec.initialCooldownPeriod"),
    ("an idle number beyond 32 bits", {"idleReplicaCount": 2**31}, "spec.idleReplicaCount: must be less"),
    ("a minimum beyond 32 bits", {"minReplicaCount": 2**31, "maxReplicaCount": 2**31}, "spec.minReplicaCount"),
    ("a maximum beyond 32 bits", {"maxReplicaCount": 2**31}, "spec.maxReplicaCount"),
    ("a fallback beyond 32 bits", {"fallback": {"failureThreshold": 0, "replicas": 2**31}}, "fallback.replicas"),
    ("a threshold beyond 32 bits", {"fallback": {"failureThreshold": 2**31, "replicas": 1}}, "failureThreshold"),
    ("a policy beyond 32 bits", {"advanced": rules(policies=policy(value=2**31))}, "value: must be less"),
    ("a negative cooldown", {"cooldownPeriod": -1}, "spec.cooldownPeriod"),
    ("min above max", {"minReplicaCount": 101}, "minReplicaCount 101 is above maxReplicaCount 100"),
    ("none at most", {"minReplicaCount": 0, "maxReplicaCount": 0}, "maxReplicaCount"),
    ("idle without min", {"idleReplicaCount": 0}, "idleReplicaCount 0 is not below"),
    ("idle is min", {"idleReplicaCount": 3, "minReplicaCount": 3}, "idleReplicaCount 3"),
    ("a fallback from nowhere", {"fallback": {"replicas": 1}}, "failureThreshold"),
    ("less than none", {"fallback": {"failureThreshold": 1, "replicas": -1}}, "replicas"),
    (
        "a fallback of no formula",
        {"fallback": {"failureThreshold": 1, "replicas": 1, "behavior": "scalingModifiers"}},
        "needs a formula",
    ),
    ("no target of a formula", {"advanced": modifiers(formula="a")}, "only possible together"),
    ("no formula", {"advanced": modifiers(target="2")}, "only possible together"),
    ("an activation alone", {"advanced": modifiers(activationTarget="2")}, "need a formula and a target"),
    ("a metric type alone", {"advanced": modifiers(metricType="Value")}, "need a formula and a target"),
    ("a target of nothing", {"advanced": modifiers(formula="a", target="0")}, "above 0"),
    ("a target in words", {"advanced": modifiers(formula="a", target="two")}, "not a number"),
    ("an infinite target", {"advanced": modifiers(formula="a", target="1e999")}, "finite"),
    ("a target as Python alone reads it", {"advanced": modifiers(formula="a", target="1_0")}, "not a number"),
    ("an activation", {"advanced": modifiers(formula="a", target="2", activationTarget="x")}, "not a number"),
    ("too long a window", {"advanced": rules(stabilizationWindowSeconds=3601)}, "stabilization"),
    ("no policies", {"advanced": rules(policies=[])}, "policies"),
    ("a policy of nothing", {"advanced": rules(policies=policy(value=0))}, "value"),
    ("too long a period", {"advanced": rules(policies=policy(periodSeconds=1801))}, "periodSeconds"),
    ("a tolerance in words", {"advanced": rules(tolerance="a lot")}, "tolerance"),
    ("a name too long for a label", {"name": "x" * 64}, "metadata.name"),
    ("an autoscaler's name", {"advanced": {"horizontalPodAutoscalerConfig": {"name": "x" * 64}}}, "Config.name"),
)
def test_refused_with_the_place(spec: Object, where: str) -> None:
    with pytest.raises(UserError, match=where):
        scaledobject.parse(body(**spec))


def test_what_is_not_said() -> None:
    spec = scaledobject.parse(body()).spec
    assert (spec.minimum, spec.maximum, spec.interval, spec.behavior) == (0, 100, 30, None)


def test_what_get_shows() -> None:
    (crd,) = (each for each in crds.all_crds() if each["metadata"]["name"] == "scaledobjects.keda.sh")
    (version,) = crd["spec"]["versions"]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        *("ScaleTargetKind", "ScaleTargetName", "Min", "Max", "Ready", "Active", "Fallback", "Paused"),
        *("Triggers", "Authentications", "Age"),
    ]
    assert crd["spec"]["names"]["shortNames"] == ["so"]
