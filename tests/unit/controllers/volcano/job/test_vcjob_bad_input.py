"""Nonsense anywhere in a Volcano Job: it is refused by name, or everything can be made of it."""

import pytest

from tests.unit.apiserver import odd
from tests.unit.controllers.volcano.job.vcjobs import MAIN, task, vcjob
from workers.admission.volcano.job import defaulted
from workers.api.volcano.job import parse
from workers.controllers.volcano.job import plugins, podgroup, pods, sync, volumes
from workers.controllers.volcano.job.names import Site
from workers.errors import UserError

CONTAINER = {
    **MAIN,
    "env": [{"name": "A", "value": "b"}],
    "ports": [{"name": "web", "containerPort": 80}],
    "volumeMounts": [{"name": "own", "mountPath": "/own"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{**MAIN, "name": "first"}],
        "volumes": [{"name": "own", "emptyDir": {}}],
        "hostname": "h",
        "overhead": {"cpu": "1m"},
        "priorityClassName": "high",
    },
}
PARTS = {"totalPartitions": 1, "partitionSize": 2, "minPartitions": 1}
BODY = vcjob(
    task("master", template=TEMPLATE),
    task("worker", 2, template=TEMPLATE, dependsOn={"name": ["master"]}, partitionPolicy=PARTS),
    metadata={"labels": {"l": "m"}, "annotations": {"n": "o"}},
    plugins={name: ["--port=1"] for name in sorted(plugins.KNOWN - {"ray"})},
    volumes=[{"mountPath": "/a", "volumeClaim": {"x": 1}}, {"mountPath": "/b", "volumeClaimName": "c"}],
    networkTopology={"mode": "hard"},
    policies=[{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}],
)


def whole(path, value):
    """Everything that is made of the Job with this value at this place."""
    job = parse(defaulted(odd.mutated(BODY, [(path, value)])))
    steps = plugins.objects(job, Site())
    for each in job.spec.tasks:
        for index in range(min(each.replicas, 3)):
            pods.build(job, each, index, version=0, retries=0, site=Site())
    wanted = podgroup.wanted(job, {})
    return job, steps, wanted


@pytest.mark.parametrize(
    "path", [path for path in odd.places(BODY) if path[0] == "spec" and len(path) > 1], ids=lambda path: str(path[1:])
)
def test_nonsense_is_refused_by_name_or_everything_can_be_made(path):
    for value in odd.ODD:
        try:
            job, steps, wanted = whole(path, value)
        except UserError as error:
            told = str(error)
            assert told.startswith(("Job default/train: ", "plugin ")), (value, told)
        else:
            assert podgroup.patch(wanted, wanted) is None
            assert len({(step.kind, step.body["metadata"]["name"]) for step in steps}) == len(steps)
            volumes.claims(job, {})
            sync.waiting_tasks(job, {})
