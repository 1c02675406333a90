"""A Volcano Job as a typed model: what it takes, what it refuses by field, and what it reads between the lines."""

from datetime import timedelta

import pytest

from deploy.local.apiserver.schema import schema
from tests.support.crd_copies import crd_copies
from tests.support.tables import for_each
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.api.model import Problems
from workers.api.volcano.job import parse

(CRD,) = (each for each in crd_copies() if each["metadata"]["name"] == "jobs.batch.volcano.sh")
(VERSION,) = CRD["spec"]["versions"]
SCHEMA = schema.custom(VERSION)

#: Every field there is.
WHOLE = {
    "schedulerName": "volcano",
    "minAvailable": 2,
    "minSuccess": 1,
    "volumes": [{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/b", "volumeClaim": {"any": ["thing"]}}],
    "policies": [
        {"action": "RestartJob", "event": "PodFailed", "timeout": "1h30m"},
        {"action": "AbortJob", "events": ["PodEvicted", "*"]},
        {"action": "TerminateJob", "exitCode": -3},
    ],
    "plugins": {"env": [], "svc": ["--disable-network-policy=true"]},
    "runningEstimate": "5m",
    "queue": "a.queue",
    "maxRetry": 0,
    "ttlSecondsAfterFinished": 0,
    "priorityClassName": "high",
    "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
    "suspend": False,
    "activeDeadlineSeconds": 60,
    "restartBackoff": {"seconds": 5},
    "ttlSecondsAfterAborted": 9,
}
TASK = task(
    "worker",
    6,
    maxRetry=0,
    topologyPolicy="single-numa-node",
    dependsOn={"name": ["ps"], "iteration": "any"},
    partitionPolicy={"totalPartitions": 3, "partitionSize": 2, "minPartitions": 1, "networkTopology": {}},
    policies=[{"action": "CompleteJob", "event": "TaskCompleted"}],
    template={"metadata": {"labels": {"a": "b"}}, "spec": {"whatever": {"is": ["new"]}}},
)


def decoded(body):
    """The object as an API server stores it, and what is wrong with it. Unknown fields are an error."""
    filled, _ = SCHEMA.decode(body, strict="Strict")
    filled = SCHEMA.default(filled)
    return filled, SCHEMA.validate(filled)


def test_everything_that_volcano_takes_is_taken_and_kept():
    body = vcjob(task("ps"), TASK, **WHOLE)
    stored, problems = decoded(body)
    assert problems == []
    assert stored["spec"]["tasks"][1]["template"] == TASK["template"]
    assert stored["spec"]["volumes"][1]["volumeClaim"] == {"any": ["thing"]}
    job = parse(stored)
    assert job.spec.tasks[1].template == TASK["template"]
    assert job.spec.volumes[1].volume_claim == {"any": ["thing"]}


def test_what_has_a_default_is_filled_in_by_the_server():
    body = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"tasks": [{"template": {}}]}}
    stored, problems = decoded(body)
    assert problems == []
    assert stored["spec"] == {"queue": "default", "maxRetry": 3, "tasks": [{"replicas": 0, "template": {}}]}


@for_each(
    ({"minAvailable": -1}, "spec.minAvailable"),
    ({"minAvailable": 2**31}, "spec.minAvailable"),
    ({"minSuccess": 0}, "spec.minSuccess"),
    ({"maxRetry": -1}, "spec.maxRetry"),
    ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
    ({"queue": "Loud"}, "spec.queue"),
    ({"queue": "q" * 254}, "spec.queue"),
    ({"priorityClassName": "a_b"}, "spec.priorityClassName"),
    ({"schedulerName": "s" * 64}, "spec.schedulerName"),
    ({"volumes": [{"volumeClaimName": "c"}]}, "spec.volumes[0].mountPath"),
    ({"volumes": [{"mountPath": "/a:b"}]}, "spec.volumes[0].mountPath"),
    ({"networkTopology": {"mode": "firm"}}, "spec.networkTopology.mode"),
    ({"networkTopology": {"highestTierAllowed": -1}}, "spec.networkTopology.highestTierAllowed"),
    ({"plugins": {"env": "all"}}, "spec.plugins.env"),
    ({"policies": [{"exitCode": 2**31}]}, "spec.policies[0].exitCode"),
    ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
    ({"restartBackoff": {"factor": 2}}, "spec.restartBackoff.seconds"),
    ({"restartBackoff": {"seconds": 1, "factor": 0.5}}, "spec.restartBackoff.factor"),
)
def test_limits_hold_in_the_model_and_in_the_schema(given, field):
    body = vcjob(**given)
    with pytest.raises(Problems) as refused:
        parse(body)
    assert [problem.field for problem in refused.value.found] == [field]
    assert str(refused.value).startswith(f"Job default/train: {field}: ")
    assert _judged(body), "the API server takes what the model refuses"


@for_each(
    ({"name": "a.b"}, "name"),
    ({"name": "n" * 64}, "name"),
    ({"replicas": -1}, "replicas"),
    ({"replicas": 2**31}, "replicas"),
    ({"minAvailable": -1}, "minAvailable"),
    ({"maxRetry": -2}, "maxRetry"),
    ({"topologyPolicy": "some"}, "topologyPolicy"),
    ({"partitionPolicy": {"totalPartitions": 1}}, "partitionPolicy.partitionSize"),
    ({"partitionPolicy": {"totalPartitions": 0, "partitionSize": 1}}, "partitionPolicy.totalPartitions"),
    ({"template": "pod"}, "template"),
)
def test_limits_of_tasks(given, field):
    body = vcjob({**task(), **given}, minAvailable=1)
    with pytest.raises(Problems) as refused:
        parse(body)
    assert [problem.field for problem in refused.value.found] == [f"spec.tasks[0].{field}"]
    assert _judged(body)


@for_each(
    ({"metadata": "x"}, "metadata"),
    ({"metadata": {"labels": {"a": 1}}}, "metadata.labels.a"),
    ({"spec": []}, "spec"),
    ({"spec": {"containers": {}}}, "spec.containers"),
    ({"spec": {"containers": ["x"]}}, "spec.containers.0"),
    ({"spec": {"containers": [{"env": [{"value": "x"}]}]}}, "spec.containers.0.env.0.name"),
    ({"spec": {"containers": [{"ports": [80]}]}}, "spec.containers.0.ports.0"),
    ({"spec": {"initContainers": [{"volumeMounts": "/a"}]}}, "spec.initContainers.0.volumeMounts"),
    ({"spec": {"volumes": {"name": "v"}}}, "spec.volumes"),
    ({"spec": {"hostname": 5}}, "spec.hostname"),
    ({"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}}, "requests.cpu"),
    ({"spec": {"overhead": {"memory": "-"}}}, "spec.overhead.memory"),
)
def test_a_template_that_is_none_is_refused_by_place(template, place):
    """Not by the schema: a cluster without our webhook stores it."""
    with pytest.raises(Problems, match=r"^Job default/train: spec\.tasks\[0\]\.template: ") as refused:
        parse(vcjob({**task(), "template": template}))
    assert place in str(refused.value)


@for_each("1", 1, 0.5, "1500m", "1Gi", "1e3")
def test_an_amount_is_a_quantity_however_it_is_written(amount):
    spec = {"containers": [{"name": "c", "resources": {"limits": {"cpu": amount}}}]}
    assert parse(vcjob({**task(), "template": {"spec": spec}})).spec.tasks[0].pod_spec == spec


def _judged(body):
    """Returns an API server's error."""
    try:
        return decoded(body)[1]
    except Exception as error:
        return [str(error)]


def test_a_job_without_tasks_is_refused_by_both():
    body = vcjob()
    body["spec"]["tasks"] = []
    with pytest.raises(Problems, match=r"spec\.tasks"):
        parse(body)
    assert _judged(body)


@for_each((75_000, True), (75_001, False), (2**31 - 1, False))
def test_a_job_has_no_more_pods_than_a_cluster_is_made_for(replicas, taken):
    body = vcjob(task("ps", 75_000), task("worker", replicas), minAvailable=1)
    if taken:
        assert parse(body).spec.total == 150_000
        return
    with pytest.raises(Problems, match=r"spec\.tasks: \d+ replicas are more than the 150000 that a job may have"):
        parse(body)


@for_each("soon", "10", "1d", "", "-")
def test_a_timeout_is_a_duration_as_go_writes_it(text):
    with pytest.raises(Problems, match=r"spec\.policies\[0\]\.timeout"):
        parse(vcjob(policies=[{"event": "PodPending", "timeout": text}]))


@for_each(
    ("10m", timedelta(minutes=10)),
    ("1h30m", timedelta(hours=1, minutes=30)),
    ("1.5s", timedelta(seconds=1.5)),
    ("0", timedelta()),
    (None, None),
)
def test_how_long_an_action_waits(text, expected):
    (policy,) = parse(vcjob(policies=[{"event": "PodPending", "timeout": text}])).spec.policies
    assert policy.delay == expected


def test_event_and_events_are_one_set():
    (policy,) = parse(vcjob(policies=[{"event": "PodFailed", "events": ["PodEvicted", "PodFailed"]}])).spec.policies
    assert policy.all_events == {"PodFailed", "PodEvicted"}


def test_tasks_without_a_name_are_counted_through():
    spec = parse(vcjob({**task(), "name": ""}, task("ps"), {**task(), "name": ""})).spec
    assert [each.name for each in spec.tasks] == ["default0", "ps", "default2"]
    assert spec.task("default2") is spec.tasks[2]
    assert spec.task("default1") is None


PARTS = {"totalPartitions": 3, "partitionSize": 2}


@for_each(
    ({"minAvailable": 4}, 4),
    ({"minAvailable": 0}, 0),
    ({}, 6),
    ({"partitionPolicy": PARTS}, 6),
    ({"partitionPolicy": {**PARTS, "minPartitions": 2}}, 4),
    ({"partitionPolicy": {**PARTS, "minPartitions": 2}, "minAvailable": 5}, 5),
)
def test_the_gang_of_a_task(given, gang):
    plain = {key: value for key, value in task("worker", 6).items() if key != "minAvailable"}
    spec = parse(vcjob({**plain, **given}, minAvailable=None)).spec
    assert (spec.tasks[0].gang, spec.gang, spec.total) == (gang, gang, 6)


def test_a_job_without_a_queue_is_in_the_default_one():
    assert parse(vcjob(queue="")).spec.queue == "default"


@for_each(({}, 3), ({"maxRetry": 0}, 3), ({"maxRetry": 5}, 5))
def test_container_restarts_of_a_task(given, retries):
    assert parse(vcjob({**task(), **given})).spec.tasks[0].retries == retries


def test_the_definition_is_volcanos():
    names = CRD["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["singular"]) == ("jobs", ["vcjob", "vj"], "job")
    assert VERSION["subresources"] == {"status": {}}
    columns = [
        (each["name"], each["jsonPath"], each.get("priority", 0)) for each in VERSION["additionalPrinterColumns"]
    ]
    assert columns == [
        ("STATUS", ".status.state.phase", 0),
        ("minAvailable", ".status.minAvailable", 0),
        ("RUNNINGS", ".status.running", 0),
        ("AGE", ".metadata.creationTimestamp", 0),
        ("QUEUE", ".spec.queue", 1),
    ]
