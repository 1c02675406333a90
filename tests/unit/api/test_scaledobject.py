"""ScaledObjects as typed values: what is accepted, what is refused and where, and what the CRD shows of them."""

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="the least"),
        pytest.param({"minReplicaCount": 1, "idleReplicaCount": 0}, id="idle below min"),
        pytest.param({"minReplicaCount": 0, "idleReplicaCount": 0}, id="a written minimum of 0 counts as 1"),
        pytest.param({"minReplicaCount": 5, "maxReplicaCount": 5}, id="min is max"),
        pytest.param({"unheardOf": True}, id="unknown fields"),
        pytest.param({"cooldownPeriod": None, "fallback": None}, id="nulls"),
        pytest.param({"triggers": trigger(metricType="Value")}, id="a total"),
        pytest.param({"triggers": trigger(useCachedMetrics=True)}, id="cached"),
        pytest.param({"triggers": usage()}, id="cpu"),
        pytest.param({"triggers": usage("200Mi", "AverageValue", type="memory")}, id="memory"),
        pytest.param({"triggers": [*usage(), TRIGGER], "minReplicaCount": 0}, id="cpu and another, to zero"),
        pytest.param({"advanced": modifiers(formula="a", target="2.5")}, id="modifiers"),
        pytest.param({"advanced": rules(stabilizationWindowSeconds=3600, policies=policy())}, id="rules"),
        pytest.param({"advanced": rules(tolerance="50m")}, id="a tolerance"),
        pytest.param({"fallback": {"failureThreshold": 0, "replicas": 0}}, id="a fallback"),
    ],
)
def test_accepted(spec: Object) -> None:
    assert scaledobject.parse(body(**spec)).spec.triggers


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        pytest.param({"scaleTargetRef": {}}, "spec.scaleTargetRef.name", id="no target"),
        pytest.param({"scaleTargetRef": {"name": ""}}, "spec.scaleTargetRef.name", id="an empty target"),
        pytest.param({"triggers": []}, "spec.triggers", id="no trigger"),
        pytest.param({"triggers": [TRIGGER | {"name": "a"}] * 2}, r"\[1\].name: 'a'", id="a name twice"),
        pytest.param({"triggers": trigger(type="cpu")}, "must be Utilization or AverageValue", id="cpu"),
        pytest.param({"triggers": usage(metricType="Value")}, "must be Utilization or AverageValue", id="in total"),
        pytest.param({"triggers": usage("0")}, "whole number above 0", id="no share"),
        pytest.param({"triggers": usage("50m")}, "whole number above 0", id="a share as a quantity"),
        pytest.param({"triggers": usage("a lot", "AverageValue")}, "must be a quantity", id="an amount in words"),
        pytest.param({"triggers": usage("-1", "AverageValue")}, "must be above 0", id="a negative amount"),
        pytest.param({"triggers": usage(useCachedMetrics=True)}, "useCachedMetrics", id="cached usage"),
        pytest.param({"triggers": usage(), "minReplicaCount": 0}, "cannot scale to zero", id="usage alone, to zero"),
        pytest.param(
            {"triggers": usage(), "fallback": {"failureThreshold": 1, "replicas": 1}},
            "all triggers are cpu or memory",
            id="a fallback of usage",
        ),
        pytest.param({"triggers": trigger(metricType="Utilization")}, "Utilization", id="a share of nothing"),
        pytest.param({"triggers": trigger(metricType="Average")}, "metricType", id="an unknown type of target"),
        pytest.param(
            {"triggers": trigger(type="cron", useCachedMetrics=True)}, "useCachedMetrics", id="a cached clock"
        ),
        pytest.param({"pollingInterval": 0}, "spec.pollingInterval", id="no interval"),
        pytest.param({"cooldownPeriod": -1}, "spec.cooldownPeriod", id="a negative cooldown"),
        pytest.param({"minReplicaCount": 101}, "minReplicaCount 101 is above maxReplicaCount 100", id="min above max"),
        pytest.param({"minReplicaCount": 0, "maxReplicaCount": 0}, "maxReplicaCount", id="none at most"),
        pytest.param({"idleReplicaCount": 0}, "idleReplicaCount 0 is not below", id="idle without min"),
        pytest.param({"idleReplicaCount": 3, "minReplicaCount": 3}, "idleReplicaCount 3", id="idle is min"),
        pytest.param({"fallback": {"replicas": 1}}, "failureThreshold", id="a fallback from nowhere"),
        pytest.param({"fallback": {"failureThreshold": 1, "replicas": -1}}, "replicas", id="less than none"),
        pytest.param(
            {"fallback": {"failureThreshold": 1, "replicas": 1, "behavior": "scalingModifiers"}},
            "needs a formula",
            id="a fallback of no formula",
        ),
        pytest.param({"advanced": modifiers(formula="a")}, "only possible together", id="no target of a formula"),
        pytest.param({"advanced": modifiers(target="2")}, "only possible together", id="no formula"),
        pytest.param({"advanced": modifiers(formula="a", target="0")}, "above 0", id="a target of nothing"),
        pytest.param({"advanced": modifiers(formula="a", target="two")}, "not a number", id="a target in words"),
        pytest.param({"advanced": modifiers(formula="a", target="inf")}, "finite", id="an infinite target"),
        pytest.param(
            {"advanced": modifiers(formula="a", target="2", activationTarget="x")}, "not a number", id="an activation"
        ),
        pytest.param({"advanced": rules(stabilizationWindowSeconds=3601)}, "stabilization", id="too long a window"),
        pytest.param({"advanced": rules(policies=[])}, "policies", id="no policies"),
        pytest.param({"advanced": rules(policies=policy(value=0))}, "value", id="a policy of nothing"),
        pytest.param({"advanced": rules(policies=policy(periodSeconds=1801))}, "periodSeconds", id="too long a period"),
        pytest.param({"advanced": rules(tolerance="a lot")}, "tolerance", id="a tolerance in words"),
        pytest.param({"name": "x" * 64}, "metadata.name", id="a name too long for a label"),
        pytest.param(
            {"advanced": {"horizontalPodAutoscalerConfig": {"name": "x" * 64}}},
            "Config.name",
            id="an autoscaler's name",
        ),
    ],
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
