"""Unknown fields of templates, by kind."""

from typing import Any

from deploy.local.apiserver.admission import template_fields
from tests.support.tables import cases
from tests.unit.apiserver.admission.test_image_warnings import below, pods
from workers.api import kinds
from workers.api.kinds import Kind, Object

TYPOS = pods("busybox", imagePullPolcy="Never", contianers=[])
TYPOS["containers"][0]["resorces"] = {"limits": {"cpu": 1}}


@cases(
    ("a ScaledJob", kinds.SCALED_JOB, "spec.jobTargetRef.template.spec"),
    ("a ScheduledJob", kinds.SCHEDULED_JOB, "spec.jobTemplate.spec.template.spec"),
    ("an EventJob", kinds.EVENT_JOB, "spec.jobTemplate.spec.template.spec"),
    ("Volcano's Job", kinds.VC_JOB, "spec.tasks[].template.spec"),
    ("a JobTemplate", kinds.JOB_TEMPLATE, "spec.tasks[].template.spec"),
    ("Volcano's CronJob", kinds.VC_CRON_JOB, "spec.jobTemplate.spec.tasks[].template.spec"),
    ("a JobFlow", kinds.JOB_FLOW, "spec.flows[].patch.jobSpec.tasks[].template.spec"),
)
def test_they_are_named_in(kind: Kind, path: str) -> None:
    place = path.replace("[]", "[1]")
    wanted = [f"{place}.containers[0].resorces", f"{place}.imagePullPolcy", f"{place}.contianers"]
    assert template_fields.unknown(kind, below(path, TYPOS)) == wanted
    assert template_fields.unknown(kind, below(path, pods("busybox", "nginx", restartPolicy="Never"))) == []


@cases(
    ("of a Job", kinds.SCALED_JOB, "spec.jobTargetRef", {"template": {}, "backofLimit": 1}, "backofLimit"),
    ("of a template", kinds.EVENT_JOB, "spec.jobTemplate", {"spec": {}, "metdata": {}}, "metdata"),
    ("of metadata", kinds.SCHEDULED_JOB, "spec.jobTemplate", {"metadata": {"lables": {}}}, "metadata.lables"),
    ("of a claim", kinds.VC_JOB, "spec.volumes[].volumeClaim", {"acessModes": []}, "acessModes"),
    ("before a value of the wrong type", kinds.SCALED_JOB, "spec.jobTargetRef", {"a": 1, "suspend": "no"}, "a"),
)
def test_fields_around_the_pods_are_named(kind: Kind, path: str, template: Any, field: str) -> None:
    assert template_fields.unknown(kind, below(path, template)) == [f"{path.replace('[]', '[1]')}.{field}"]


@cases(
    ("other kinds", kinds.SECRET, below("spec.jobTargetRef", {"nonsense": 1})),
    ("no template", kinds.SCALED_JOB, {"spec": {"jobTargetRef": None}}),
    ("a template that is none", kinds.SCHEDULED_JOB, {"spec": {"jobTemplate": ["nonsense"]}}),
    ("tasks that are none", kinds.VC_JOB, {"spec": {"tasks": {"template": {"nonsense": 1}}}}),
    ("no spec", kinds.EVENT_JOB, {"spec": 7}),
)
def test_nothing_is_named_of(kind: Kind, body: Object) -> None:
    assert template_fields.unknown(kind, body) == []
