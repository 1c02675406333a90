"""Warnings about objects that are accepted: what their controllers will report."""

from typing import Any

from tests.support.tables import cases
from tests.unit.controllers.eventjob.manifests import event_job
from tests.unit.controllers.factories import job, scaled_job
from tests.unit.controllers.keda.scaledobject.scaledobjects import TRIGGER, scaled_object
from workers.admission.warnings import warnings
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Kind, Object

CPU = {"type": "cpu", "metadata": {}}
USAGE = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
MQ = {"type": "ibmmq", "metadata": {}}


def authentication(kind: Kind, **spec: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "login"}, "spec": spec}


def unknown(type_: str) -> str | None:
    return f"{type_} is unknown" if type_ == "ibmmq" else None


CLAIM = {"scalingStrategy": {"strategy": "claim"}}
PUSH = {"type": "push", "metadata": {}}
IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:$(event.id)"}]}}}}
VENDORS = {"azureKeyVault": {"vaultUri": "x"}, "podIdentity": {"provider": "aws"}}


@cases(
    ("a ScaledJob", scaled_job(), []),
    ("a ScaledObject", scaled_object(), []),
    ("another kind", job(backoffLimit=-1), []),
    (
        "two problems and a type",
        scaled_job(maxReplicaCount=0, pollingInterval=0, triggers=[TRIGGER, MQ]),
        ["spec.pollingInterval: ", "spec.maxReplicaCount: ", "spec.triggers[1].type: ibmmq is unknown"],
    ),
    (
        "claims",
        scaled_job(minReplicaCount=1, triggers=[TRIGGER, TRIGGER], **CLAIM),
        ["spec.scalingStrategy: items are claimed from one", "spec.scalingStrategy: minReplicaCount must be 0"],
    ),
    ("pod usage", scaled_job(triggers=[TRIGGER, CPU]), ["spec.triggers[1]: cpu has no effect on a ScaledJob"]),
    ("pod usage of a target", scaled_object(triggers=[TRIGGER, USAGE]), []),
    (
        "a cooldown that is never used",
        scaled_object(minReplicaCount=1, cooldownPeriod=5, initialCooldownPeriod=5, pollingInterval=5),
        ["spec.cooldownPeriod: has no effect", "spec.initialCooldownPeriod: has no effect"],
    ),
    ("a cooldown to the idle number", scaled_object(minReplicaCount=2, idleReplicaCount=1, cooldownPeriod=5), []),
    (
        "bounds and a type",
        scaled_object(minReplicaCount=101, triggers=[MQ]),
        ["spec.minReplicaCount: ", "spec.triggers[0].type: ibmmq is unknown"],
    ),
    (
        "vendors",
        authentication(TRIGGER_AUTHENTICATION, **VENDORS),
        ["spec.azureKeyVault: is not supported", "spec.podIdentity.provider: aws is not supported"],
    ),
    ("a file", authentication(CLUSTER_TRIGGER_AUTHENTICATION, filePath="a"), []),
    ("an EventJob", event_job(push={"anonymous": True}), []),
    ("an EventJob without pushes over HTTP", event_job(), ["spec.push: without auth"]),
    (
        "an EventJob with a malformed filter",
        event_job(push={"anonymous": True}, filter={"cel": "event.type =="}, concurrency={"orderingKey": "now()"}),
        ["spec.filter.cel: line 1", "spec.concurrency.orderingKey: there is no function now"],
    ),
    (
        "an EventJob whose event says the image",
        event_job(push={"anonymous": True}, jobTemplate=IMAGE),
        ["spec.jobTemplate.spec.template.spec.containers[0].image: $(event"],
    ),
    ("an EventJob that is malformed", event_job(concurrency={"total": 0}), ["spec.concurrency.total: "]),
    ("pushes without their trigger", scaled_job(push={"anonymous": True}), ["spec.push: has no effect"]),
    ("pushes with their trigger", scaled_job(push={"anonymous": True}, triggers=[PUSH]), []),
    ("triggers that are none", scaled_job(triggers="x"), ["spec.triggers: "]),
)
def test_warnings_name_every_problem(body: Object, expected: list[str]) -> None:
    found = warnings(body, unknown)
    assert len(found) == len(expected), found
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True)), found


def test_a_warning_fits_into_a_header() -> None:
    spec = {"scalingStrategy": {"weights": {"a\r\nX-Evil: 1": 1, "ł": 1}}}
    found = warnings(scaled_job(**spec))
    assert len(found) == 2
    assert all(text.isascii() and text.isprintable() for text in found)


def test_types_are_judged_by_those_who_know_them() -> None:
    assert warnings(scaled_job(triggers=[MQ])) == []
