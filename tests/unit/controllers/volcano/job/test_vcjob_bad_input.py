"""Nonsense anywhere in a Volcano Job: it is refused by name, or everything can be made of it."""

import pytest

from tests.support.tables import cases, for_each
from tests.unit.apiserver import odd
from tests.unit.controllers.volcano.job.test_vcjob_policies import begun, code, on
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import MAIN, parsed, task, vcjob
from workers.admission.volcano.job import defaulted
from workers.api.volcano.job import parse
from workers.controllers.volcano.job import plugins, podgroup, pods, policies, sync, volumes
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
        "resources": {"limits": {"cpu": "1"}},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "priorityClassName": "high",
    },
}
SITE = Site(topology=("rack",))
PARTS = {"totalPartitions": 1, "partitionSize": 2, "minPartitions": 1}
BODY = vcjob(
    task("master", template=TEMPLATE),
    task("worker", 2, template=TEMPLATE, dependsOn={"name": ["master"]}, partitionPolicy=PARTS),
    metadata={"labels": {"l": "m"}, "annotations": {"n": "o"}},
    plugins={name: ["--port=1"] for name in sorted(plugins.KNOWN - {"ray"})},
    volumes=[{"mountPath": "/a", "volumeClaim": {"x": 1}}, {"mountPath": "/b", "volumeClaimName": "c"}],
    networkTopology={"mode": "hard", "highestTierAllowed": 1},
    policies=[{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}],
)


def whole(path, value):
    """Everything that is made of the Job with this value at this place."""
    job = parse(defaulted(odd.mutated(BODY, [(path, value)])))
    steps = plugins.objects(job, SITE)
    for each in job.spec.tasks:
        for index in range(min(each.replicas, 3)):
            pods.build(job, each, index, version=0, retries=0, site=SITE)
    wanted = podgroup.wanted(job, {})
    return job, steps, wanted


@pytest.mark.parametrize(
    "path",
    [path for path in odd.places(BODY) if path[0] == "spec" and len(path) > 1],
    ids=lambda path: str(path[1:]),
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


PARTITIONS = {"totalPartitions": 1, "partitionSize": 1}
AGAIN = {"spec": {"restartPolicy": "OnFailure"}}


@cases(
    ("no partitions", on("PodFailed", "RestartPartition"), {}, "RestartPartition does nothing"),
    ("no partitions, for a code", code(3, "RestartPartition"), {}, "RestartPartition does nothing"),
    ("partitions", on("PodFailed", "RestartPartition"), {"partitionPolicy": PARTITIONS}, None),
    ("pending at once", on("PodPending", "RestartJob"), {}, "PodPending is answered only after"),
    ("no time at all", on("PodPending", "RestartJob", "0s"), {}, "PodPending is answered only after"),
    ("pending for long", on("PodPending", "RestartJob", "5s"), {}, None),
    ("everything else is answered", on("*", "RestartJob"), {}, None),
    ("never happens", on("JobUpdated", "RestartJob"), {}, "JobUpdated never happens"),
    ("nothing is started again", on("TaskFailed", "AbortJob"), {}, "restartPolicy is Never"),
    ("containers are started again", on("TaskFailed", "AbortJob"), {"template": AGAIN}, None),
    ("as it should be", on("PodFailed", "RestartJob"), {}, None),
)
@pytest.mark.parametrize("level", ["job", "task"])
def test_policies_that_are_never_carried_out(policy, more, told, level):
    of_job = {"policies": [policy]} if level == "job" else {}
    of_task = {"policies": [policy]} if level == "task" else {}
    found = [record.message for record in policies.warnings(parsed(task("worker", **more, **of_task), **of_job).spec)]
    where = "policies[0]: " if level == "job" else "tasks[worker].policies[0]: "
    assert [text.startswith(where) and told in text for text in found] == ([True] if told else [])


@for_each((None, []), (2, []), (3, ["MinSuccessTooHigh"]))
def test_more_successes_than_pods(least, told):
    assert [record.reason for record in policies.warnings(parsed(task(replicas=2), minSuccess=least).spec)] == told


def test_warnings_are_recorded_once_when_the_job_begins():
    given = {"minSuccess": 9, "networkTopology": {"highestTierAllowed": 1}}
    cluster = VcJobCluster(vcjob(task(policies=[on("PodFailed", "RestartPartition")]), **given))
    for _ in range(3):
        cluster.settle()
        cluster.run()
    assert [reason for reason, _ in cluster.events] == ["PolicyIgnored", "MinSuccessTooHigh", "NotEnforced"]
    assert {*cluster.types.values()} == {"Warning"}


@for_each("RestartPartition", "ResumeJob")
def test_a_policy_without_effect_is_reported_when_its_event_occurs(action):
    cluster = begun([on("PodFailed", action)])
    cluster.set("train-worker-1", "Failed", 9).settle()
    failed = "pod train-worker-1: container main exited with 9"
    why = f"{failed}; the policy for PodFailed is {action}, which does nothing here"
    assert (cluster.phase, cluster.state["reason"], cluster.state["message"]) == ("Running", "PolicyIgnored", why)
    cluster.settle()
    assert cluster.events.count(("PolicyIgnored", why)) == 1


@for_each("", "SyncJob", "EnqueueJob")
def test_an_answer_that_is_meant_to_do_nothing_is_not(action):
    cluster = begun([code(9, action), on("PodEvicted", "AbortJob")])
    cluster.set("train-worker-1", "Failed", 9).settle()
    assert (cluster.phase, "reason" in cluster.state) == ("Running", False)


def test_another_policy_is_carried_out_beside_one_that_does_nothing():
    cluster = begun([on("PodFailed", "RestartPartition"), on("TaskCompleted", "CompleteJob")])
    cluster.set("train-worker-1", "Failed", 9)
    cluster.set("train-ps-0", "Succeeded").settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Completed", "TaskCompleted")
