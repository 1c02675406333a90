"""Warnings about containers that have nothing to run, by kind."""

from typing import Any

from deploy.local.apiserver.admission import image_warnings
from deploy.local.image_commands import Images
from tests.support.tables import cases
from workers.api import kinds
from workers.api.kinds import Kind, Object

IMAGES = Images.of(["mine=run"])


def pods(*images: str, **more: Any) -> Object:
    """A pod spec with one container per image."""
    return {"containers": [{"name": f"c{index}", "image": image} for index, image in enumerate(images)], **more}


def below(path: str, spec: Object) -> Object:
    """An object that has a pod spec at this path; ``[]`` is the second item of a list."""
    for step in reversed(path.split(".")):
        spec = {step.removesuffix("[]"): [{}, spec]} if step.endswith("[]") else {step: spec}
    return spec


@cases(
    ("a pod", kinds.POD, "spec"),
    ("a Job", kinds.JOB, "spec.template.spec"),
    ("a Deployment", kinds.DEPLOYMENT, "spec.template.spec"),
    ("a ReplicaSet", kinds.REPLICA_SET, "spec.template.spec"),
    ("a StatefulSet", kinds.STATEFUL_SET, "spec.template.spec"),
    ("a CronJob", kinds.CRON_JOB, "spec.jobTemplate.spec.template.spec"),
    ("a ScheduledJob", kinds.SCHEDULED_JOB, "spec.jobTemplate.spec.template.spec"),
    ("a ScaledJob", kinds.SCALED_JOB, "spec.jobTargetRef.template.spec"),
    ("Volcano's Job", kinds.VC_JOB, "spec.tasks[].template.spec"),
    ("a JobTemplate", kinds.JOB_TEMPLATE, "spec.tasks[].template.spec"),
    ("Volcano's CronJob", kinds.VC_CRON_JOB, "spec.jobTemplate.spec.tasks[].template.spec"),
)
def test_it_is_named_in(kind: Kind, path: str) -> None:
    body = below(path, pods("busybox", "nginx:1", "mine", initContainers=[{"name": "i", "image": "setup"}]))
    place = path.replace("[]", "[1]")
    told = [text.partition(": ")[0] for text in image_warnings.warned(kind, body, None, IMAGES)]
    assert told == [f"{place}.initContainers[0]", f"{place}.containers[1]"]
    assert image_warnings.warned(kind, body, body, IMAGES) == []
    assert image_warnings.warned(kind, body, below(path, pods("busybox", "nginx")), IMAGES) != []


@cases(
    ("other kinds", kinds.SECRET, below("spec", pods("nginx"))),
    ("no template", kinds.SCALED_JOB, {"spec": {"jobTargetRef": None}}),
    ("no containers", kinds.SCALED_JOB, below("spec.jobTargetRef.template.spec", {"containers": "three"})),
    ("a container that is none", kinds.VC_JOB, below("spec.tasks[].template.spec", {"containers": ["nginx"]})),
    ("tasks that are none", kinds.VC_JOB, {"spec": {"tasks": {"template": {}}}}),
)
def test_nothing_is_said_of(kind: Kind, body: Object) -> None:
    assert image_warnings.warned(kind, body, None, IMAGES) == []


def test_an_image_that_is_no_text_is_unknown() -> None:
    body = below("spec.jobTargetRef.template.spec", {"containers": [{"name": "c", "image": 7}]})
    (text,) = image_warnings.warned(kinds.SCALED_JOB, body, None, IMAGES)
    assert "no command: images are not run here" in text
