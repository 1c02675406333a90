"""Objects as vcctl itself sends them, written by hand, are accepted and acted on by the embedded cluster.

Go's encoder writes what is empty as null or as an empty object; that is kept here.
"""

import json
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import ENABLED, cluster_fixture, is_gone, is_in, reaches, reports
from tests.support.conditions import eventually
from workers.api.kinds import COMMAND, JOB_FLOW, JOB_TEMPLATE, POD, QUEUE, VC_JOB, Kind, Object, Ref, ref_of
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = ENABLED

#: vcctl job run -N job1
JOB = """
{"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1",
 "metadata": {"name": "job1", "namespace": "default", "creationTimestamp": null},
 "spec": {"schedulerName": "volcano", "minAvailable": 1, "tasks": [{"replicas": 1, "template": {
   "metadata": {"name": "job1", "creationTimestamp": null, "labels": {"job.volcano.sh": "job1"}},
   "spec": {"containers": [{"name": "job1", "image": "busybox", "imagePullPolicy": "IfNotPresent", "resources": {
     "limits": {"cpu": "1", "memory": "100Mi"}, "requests": {"cpu": "1", "memory": "100Mi"}}}],
   "restartPolicy": "Never"}}}]},
 "status": {"state": {"lastTransitionTime": null}}}
"""

#: vcctl job run -f
SLEEPER = """
{"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1",
 "metadata": {"name": "sleeper", "namespace": "default", "creationTimestamp": null},
 "spec": {"minAvailable": 2, "tasks": [{"name": "work", "replicas": 2, "template": {
   "metadata": {"creationTimestamp": null},
   "spec": {"containers": [{"name": "main", "image": "none", "command": ["sleep", "600"], "resources": {}}],
   "terminationGracePeriodSeconds": 1, "restartPolicy": "Never"}}}]},
 "status": {"state": {"lastTransitionTime": null}}}
"""

#: vcctl job suspend, resume; vcctl queue operate
ASK = """
{"kind": "Command", "apiVersion": "bus.volcano.sh/v1alpha1",
 "metadata": {"generateName": "%(name)s-%(low)s-", "namespace": "default", "creationTimestamp": null,
   "ownerReferences": [{"apiVersion": "%(version)s", "kind": "%(kind)s", "name": "%(name)s", "uid": "%(uid)s",
     "controller": true, "blockOwnerDeletion": true}]},
 "target": {"apiVersion": "%(version)s", "kind": "%(kind)s", "name": "%(name)s", "uid": "%(uid)s",
   "controller": true, "blockOwnerDeletion": true},
 "action": "%(action)s"}
"""

#: vcctl queue create
CREATED_QUEUE = """
{"kind": "Queue", "apiVersion": "scheduling.volcano.sh/v1beta1",
 "metadata": {"name": "test", "creationTimestamp": null},
 "spec": {"weight": 1, "guarantee": {}},
 "status": {"state": "Open", "reservation": {}, "allocated": null}}
"""

#: vcctl jobtemplate create -f
TEMPLATE = """
{"kind": "JobTemplate", "apiVersion": "flow.volcano.sh/v1alpha1",
 "metadata": {"name": "%s", "namespace": "default", "creationTimestamp": null},
 "spec": {"tasks": [{"name": "work", "replicas": 1, "template": {"metadata": {"creationTimestamp": null},
   "spec": {"containers": [{"name": "main", "image": "none", "command": ["true"], "resources": {}}],
   "restartPolicy": "OnFailure"}}}]},
 "status": {}}
"""

#: vcctl jobflow create -f
FLOW = """
{"kind": "JobFlow", "apiVersion": "flow.volcano.sh/v1alpha1",
 "metadata": {"name": "nightly", "namespace": "default", "creationTimestamp": null},
 "spec": {"flows": [{"name": "fetch"}, {"name": "train", "dependsOn": {"targets": ["fetch"]}}],
   "jobRetainPolicy": "retain"},
 "status": {"state": {}}}
"""


cluster = cluster_fixture()


async def post(cluster: Cluster, kind: Kind, text: str) -> Object:
    body = json.loads(text)
    made: Object = await cluster.request("POST", kind.path(body["metadata"].get("namespace", "")), body=body)
    return made


async def ask(cluster: Cluster, kind: Kind, target: Object, action: str) -> Object:
    named: dict[str, Any] = {"version": kind.api_version, "kind": kind.kind, "low": action.lower(), "action": action}
    metadata = target["metadata"]
    return await post(cluster, COMMAND, ASK % {**named, "name": metadata["name"], "uid": metadata["uid"]})


async def consumed(cluster: Cluster, command: Object) -> None:
    await eventually(lambda: is_gone(cluster, ref_of(COMMAND, command)))


async def test_a_job_that_was_typed_is_filled_in_and_its_pod_is_made(cluster: Cluster) -> None:
    made = await post(cluster, VC_JOB, JOB)
    (task,) = made["spec"]["tasks"]
    assert (task["name"], task["minAvailable"], made["spec"]["queue"]) == ("default0", 1, "default")
    pod = Ref(POD, "default", "job1-default0-0")
    await reaches(cluster, pod, bool)
    assert (await cluster.get(pod))["metadata"]["labels"]["job.volcano.sh"] == "job1"
    await cluster.delete(Ref(VC_JOB, "default", "job1"))


async def test_a_job_is_suspended_and_resumed(cluster: Cluster) -> None:
    job = await post(cluster, VC_JOB, SLEEPER)
    await reaches(cluster, ref_of(VC_JOB, job), "Running")
    abort = await ask(cluster, VC_JOB, job, "AbortJob")
    assert abort["metadata"]["name"].startswith("sleeper-abortjob-")
    await reaches(cluster, ref_of(VC_JOB, job), "Aborted")
    await consumed(cluster, abort)
    resume = await ask(cluster, VC_JOB, job, "ResumeJob")
    await reaches(cluster, ref_of(VC_JOB, job), "Running")
    await consumed(cluster, resume)
    for command, action in ((abort, "AbortJob"), (resume, "ResumeJob")):
        await reports(cluster, "sleeper", "CommandIssued", f"Command {command['metadata']['name']}: {action}")
    await cluster.delete(Ref(VC_JOB, "default", "sleeper"))


async def test_a_queue_is_made_closed_and_opened(cluster: Cluster) -> None:
    queue = await post(cluster, QUEUE, CREATED_QUEUE)
    await reaches(cluster, ref_of(QUEUE, queue), "Open")
    await consumed(cluster, await ask(cluster, QUEUE, queue, "CloseQueue"))
    await reaches(cluster, ref_of(QUEUE, queue), "Closed")
    await consumed(cluster, await ask(cluster, QUEUE, queue, "OpenQueue"))
    await reaches(cluster, ref_of(QUEUE, queue), "Open")
    await cluster.delete(Ref(QUEUE, "", "test"))


async def test_a_flow_runs(cluster: Cluster) -> None:
    for name in ("fetch", "train"):
        await post(cluster, JOB_TEMPLATE, TEMPLATE % name)
    await post(cluster, JOB_FLOW, FLOW)
    await reaches(cluster, Ref(JOB_FLOW, "default", "nightly"), "Succeed")
    assert await is_in(cluster, Ref(VC_JOB, "default", "nightly-train"), "Completed")
