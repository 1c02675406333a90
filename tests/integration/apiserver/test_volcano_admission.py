"""The embedded server fills in and refuses what Volcano's webhooks do, as the official client sees it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from deploy.webhook.certificate_keeper import within
from tests.integration.apiserver.client import DEFINITIONS, Api, until
from tests.support.embedded import Embedded, embedded_apiserver
from tests.support.tables import cases
from tests.unit.admission import test_job, test_queue
from tests.unit.admission.bodies import CONTAINER, group, job, queue, task
from tests.unit.controllers.factories import scaled_job
from workers.api import crds
from workers.api.kinds import COMMAND, NODE, POD_GROUP, QUEUE, SCALED_JOB, VC_CRON_JOB, VC_JOB, Kind, Object
from workers.api.references import GANG_GATE


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server that serves Volcano's kinds and holds gangs back, with the queues of the rules' own tests."""
    with embedded_apiserver(
        tmp_path_factory.mktemp("gangs"), None, "--gangs", "volcano,gang", "--pod-scheduler", "plain"
    ) as server:
        api = Api(server.kubeconfig)
        for crd in crds.all_crds():
            api.create(DEFINITIONS, crd)
        python = Client(server.kubeconfig)
        waiting = [*test_job.QUEUES.every(QUEUE)]
        while waiting:  # parents first
            body = waiting.pop(0)
            above = body["spec"].get("parent", "root")
            if any(each["metadata"]["name"] == above for each in waiting):
                waiting.append(body)
                continue
            python.create(QUEUE, {key: body[key] for key in ("metadata", "spec")})
            python.status(QUEUE, body["metadata"]["name"], body["status"])
        yield server


class Client:
    """The official client, for objects of any kind in the namespace default."""

    def __init__(self, kubeconfig: Path) -> None:
        api = config.new_client_from_config(str(kubeconfig))
        self.core = client.CoreV1Api(api)
        self.objects = client.CustomObjectsApi(api)

    def create(self, kind: Kind, body: Object, **options: Any) -> Object:
        whole = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
        if not kind.namespaced:
            return self.objects.create_cluster_custom_object(kind.group, kind.version, kind.plural, whole, **options)
        return self.objects.create_namespaced_custom_object(
            kind.group, kind.version, "default", kind.plural, whole, **options
        )

    def patch(self, kind: Kind, name: str, body: Object) -> Object:
        if not kind.namespaced:
            return self.objects.patch_cluster_custom_object(kind.group, kind.version, kind.plural, name, body)
        return self.objects.patch_namespaced_custom_object(kind.group, kind.version, "default", kind.plural, name, body)

    def status(self, kind: Kind, name: str, status: Object) -> None:
        self.objects.patch_cluster_custom_object_status(kind.group, kind.version, kind.plural, name, {"status": status})

    def delete(self, kind: Kind, name: str) -> None:
        if kind.namespaced:
            self.objects.delete_namespaced_custom_object(kind.group, kind.version, "default", kind.plural, name)
        else:
            self.objects.delete_cluster_custom_object(kind.group, kind.version, kind.plural, name)


@pytest.fixture
def python(gangs: Embedded) -> Client:
    return Client(gangs.kubeconfig)


def refused(call: Any, *arguments: Any) -> tuple[int, list[str], str]:
    """The code, the fields and the message of a refusal."""
    with pytest.raises(ApiException) as found:
        call(*arguments)
    body = json.loads(found.value.body)
    return found.value.status, [cause["field"] for cause in body["details"].get("causes", ())], body["message"]


#: What a schema refuses is refused by it: it names the field its own way.
BY_SCHEMA = {
    "no task",
    "minAvailable below 0",
    "maxRetry below 0",
    "ttl below 0",
    "replicas below 0",
    "more replicas than a counter holds",
    "task's minAvailable below 0",
    "a task's name that is no label",
    "a task's name that is too long",
}


@cases(test_job.REFUSED)
def test_a_job_that_cannot_run_is_refused(
    body: Object, field: str, python: Client, request: pytest.FixtureRequest
) -> None:
    code, fields, message = refused(python.create, VC_JOB, body)
    assert code == 422
    if request.node.callspec.id in BY_SCHEMA:
        assert fields[0] == field
    elif request.node.callspec.id == "a name with a dot and a slash":
        assert fields == ["metadata.name"]
    else:
        assert field in fields
    assert field in message
    assert body["metadata"]["name"] in message


@cases(test_job.ACCEPTED)
def test_a_job_that_can_run_is_taken_as_it_is_but_for_what_is_filled_in(body: Object, python: Client) -> None:
    made = python.create(VC_JOB, body, dry_run="All")
    assert within(body["spec"], made["spec"])


def test_a_new_job_is_filled_in(python: Client) -> None:
    made = python.create(
        VC_JOB, job({**task(replicas=3), "name": ""}, name="filled", plugins={"mpi": ["--master=default0"]})
    )
    spec = made["spec"]
    filled = {"queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 3}
    assert spec.items() >= filled.items()
    assert spec["plugins"] == {"mpi": ["--master=default0"], "svc": [], "ssh": []}
    assert spec["tasks"][0].items() >= {"name": "default0", "minAvailable": 3, "maxRetry": 3}.items()


TEMPLATES = {
    "no container": ({"spec": {"containers": []}}, "spec.tasks[0].template.spec.containers"),
    "a container without an image": (
        {"spec": {"containers": [{"name": "main"}]}},
        "spec.tasks[0].template.spec.containers[0].image",
    ),
    "a label that is none": (
        {"metadata": {"labels": {"a": "b c"}}, "spec": {"containers": [CONTAINER]}},
        "spec.tasks[0].template.labels",
    ),
    "no pod at all": ({"spec": {"containers": "none"}}, "spec.tasks[0].template"),
}


@cases(TEMPLATES)
def test_templates_must_do_as_those_of_built_in_kinds(template: Object, field: str, python: Client) -> None:
    body = job(task(template=template), name="template")
    assert refused(python.create, VC_JOB, body)[:2] == (422, [field])
    nightly = {"metadata": {"name": "template"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": body["spec"]}}}
    assert refused(python.create, VC_CRON_JOB, nightly)[:2] == (422, [f"spec.jobTemplate.{field}"])


def test_of_a_job_only_its_size_changes(python: Client) -> None:
    python.create(VC_JOB, job(task(replicas=2), name="changing"))
    assert refused(python.patch, VC_JOB, "changing", {"spec": {"queue": "leaf"}})[:2] == (422, ["spec.queue"])
    assert refused(python.patch, VC_JOB, "changing", {"spec": {"minAvailable": 3}})[:2] == (422, ["spec.minAvailable"])
    assert python.patch(VC_JOB, "changing", {"spec": {"minAvailable": 1}})["spec"]["minAvailable"] == 1
    assert python.patch(VC_JOB, "changing", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 2


def test_queues_that_contradict_each_other_are_refused_and_those_that_are_needed_stay(python: Client) -> None:
    below = queue("below", parent="parent", capability={"cpu": "4"})
    made = python.create(QUEUE, {**below, "spec": {**below["spec"], "weight": 0}})
    assert made["spec"] == {"parent": "parent", "capability": {"cpu": "4"}, "reclaimable": True, "weight": 1}
    code, fields, _ = refused(python.create, QUEUE, queue("deeper", parent="below", capability={"cpu": "5"}))
    assert (code, fields) == (422, ["spec.capability[cpu]"])
    assert refused(python.create, QUEUE, queue("lost", parent="nowhere"))[:2] == (422, ["spec.parent"])
    assert refused(python.patch, QUEUE, "root", {"spec": {"capability": {"cpu": "1"}}})[:2] == (
        422,
        ["spec.capability"],
    )
    for name, text in (("default", "needs it"), ("root", "needs it"), ("parent", "below it are below, leaf")):
        code, fields, message = refused(python.delete, QUEUE, name)
        assert (code, fields) == (403, ["metadata.name"])
        assert text in message
    python.create(POD_GROUP, group("inside", "below"))
    assert "default/inside" in refused(python.delete, QUEUE, "below")[2]
    python.delete(POD_GROUP, "inside")
    python.delete(QUEUE, "below")


#: What the rules' own tests say of single queues, where no other queue matters.
ALONE = {name: case for name, case in test_queue.REFUSED.items() if "parent" not in case[0]["spec"]}
del ALONE["a state between open and closed"], ALONE["an unknown state"], ALONE["above another's place"]


@cases(ALONE)
def test_a_queue_that_contradicts_itself_is_refused(body: Object, field: str, python: Client) -> None:
    code, fields, message = refused(python.create, QUEUE, body)
    assert (code, fields) == (422, [field])
    assert field in message


def test_a_group_goes_into_an_open_queue(python: Client) -> None:
    python.core.patch_namespace("default", {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "leaf"}}})
    assert python.create(POD_GROUP, group("ours"))["spec"]["queue"] == "leaf"
    python.core.patch_namespace("default", {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": None}}})
    made = python.create(POD_GROUP, group("common", phase="Inqueue"))
    assert made["spec"]["queue"] == "default"
    # There is no status subresource: what is written with the object stays.
    assert made["status"] == {"phase": "Inqueue"}
    assert python.patch(POD_GROUP, "common", {"status": {"phase": "Running"}})["status"] == {"phase": "Running"}
    assert refused(python.create, POD_GROUP, group("late", "closed"))[:2] == (422, ["spec.queue"])
    assert refused(python.create, POD_GROUP, group("late", "nowhere"))[:2] == (422, ["spec.queue"])


def test_a_command_has_no_spec_and_keeps_its_fields(python: Client) -> None:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "crunch", "uid": "1-2-3"}
    fields = {"action": "AbortJob", "target": target, "reason": "by hand"}
    made = python.create(COMMAND, {"metadata": {"generateName": "crunch-abortjob-"}, **fields})
    assert {key: made[key] for key in fields} == fields
    python.delete(COMMAND, made["metadata"]["name"])


def test_a_definition_takes_along_what_its_rules_protect(tmp_path: Path) -> None:
    with embedded_apiserver(tmp_path / "own") as server:
        api, python = Api(server.kubeconfig), Client(server.kubeconfig)
        for crd in crds.all_crds(volcano=True):
            if crd["metadata"]["name"] == QUEUE.id:
                api.create(DEFINITIONS, crd)
        for name in ("root", "default"):
            python.create(QUEUE, queue(name))
        assert refused(python.delete, QUEUE, "default")[0] == 403
        assert api("DELETE", f"{DEFINITIONS}/{QUEUE.id}").code == 200
        until(lambda: api.get(f"{DEFINITIONS}/{QUEUE.id}").code == 404, "the definition is gone")
        assert api.get(QUEUE.path("")).code == 404


def a_pod(name: str, scheduler: str | None = "volcano", **more: Any) -> Object:
    spec = {"containers": [CONTAINER], **({"schedulerName": scheduler} if scheduler else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


def test_pods_of_our_schedulers_wait_for_their_gang(python: Client) -> None:
    for scheduler in ("volcano", "gang"):
        held = python.core.create_namespaced_pod("default", a_pod(f"held-{scheduler}", scheduler))
        assert held.spec.scheduler_name == "plain"
        assert [gate.name for gate in held.spec.scheduling_gates] == [GANG_GATE]
        assert held.status.conditions[0].reason == "SchedulingGated"
    free = python.core.create_namespaced_pod("default", a_pod("free", None))
    assert (free.spec.scheduler_name, free.spec.scheduling_gates) == ("default-scheduler", None)
    # The gate may be taken away, and is not put back.
    open_ = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GANG_GATE}]}}
    assert python.core.patch_namespaced_pod("held-gang", "default", open_).spec.scheduling_gates is None
    code, fields, _ = refused(
        python.core.create_namespaced_pod, "default", a_pod("odd", annotations={"volcano.sh/jdb-min-available": "0"})
    )
    assert (code, fields) == (422, ["metadata.annotations[volcano.sh/jdb-min-available]"])


def test_where_nobody_admits_gangs_no_pod_is_held_back(ours: Api) -> None:
    made = ours("POST", ours.pods, a_pod("free"))
    assert made.body["spec"]["schedulerName"] == "volcano"
    assert "schedulingGates" not in made.body["spec"]


def test_a_pod_for_a_node_that_does_not_exist_is_stored_with_a_warning(ours: Api) -> None:
    nodes, body = NODE.path(""), a_pod("astray", None)
    ours.create(nodes, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "present"}})
    made = ours("POST", ours.pods, body | {"spec": body["spec"] | {"nodeName": "absent"}})
    assert made.headers["warning"].startswith('299 - "spec.nodeName: there is no node absent: ')
    ours("DELETE", f"{nodes}/present")


def test_kubectl_shows_what_is_wrong(gangs: Embedded, tmp_path: Path) -> None:
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **job(queue="nowhere")}
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(gangs.kubeconfig), "apply", "-f", "-"],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert done.returncode
    assert "spec.queue: Invalid value: there is no queue 'nowhere'" in done.stderr


def test_a_scaled_job_that_will_not_work_is_stored_with_a_warning(gangs: Embedded) -> None:
    api, path = Api(gangs.kubeconfig), SCALED_JOB.path("default")
    made = api("POST", path, scaled_job(metadata={"name": "mq"}, triggers=[{"type": "ibmmq", "metadata": {}}]))
    text = '299 - "spec.triggers[0].type: trigger type ibmmq is not supported yet"'
    assert made.code == 201
    assert made.headers["warning"].startswith(
        f'{text}, 299 - "spec.jobTargetRef.template.spec.containers[0]: no command'
    )
    # Of what stays the same nothing is said again.
    changed = api.patch(f"{path}/mq", {"spec": {"pollingInterval": 5}})
    assert changed.headers["warning"] == text
    assert "warning" not in api.patch(f"{path}/mq", {"metadata": {"labels": {"a": "b"}}}).headers
