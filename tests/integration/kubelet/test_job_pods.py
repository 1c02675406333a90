"""Pods of Jobs: tracked ones stay until they are counted, disrupted and gated ones say so, indexes arrive."""

import json

import pytest

from tests.integration.kubelet.conftest import Server
from tests.integration.kubelet.lab import Lab, condition, phase, shell, until
from tests.support.processes import alive
from tests.support.tables import cases
from workers.api.kinds import POD, Object, Ref
from workers.client.rest import STRATEGIC_MERGE_PATCH

TRACKED = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


async def let_go(lab: Lab, pod: Object) -> None:
    """Takes the tracking finalizer off, as the Job controller does."""
    patch = {"metadata": {"uid": pod["metadata"]["uid"], "$deleteFromPrimitiveList/finalizers": [TRACKED]}}
    await lab.cluster.patch(Ref(POD, "default", pod["metadata"]["name"]), patch, type=STRATEGIC_MERGE_PATCH)


@pytest.fixture
def modern(server: Server) -> None:
    """Skips what the real server of these tests is too old for."""
    if server.name == "real":
        pytest.skip("pods/eviction with a condition and scheduling gates came with Kubernetes 1.26")


@cases(("with its grace", None), ("at once", 0))
async def test_a_deleted_pod_that_is_tracked_ends_and_stays_until_it_is_counted(grace: int | None, lab: Lab) -> None:
    await lab.running("tracked", metadata={"finalizers": [TRACKED]})
    await lab.delete("tracked", grace=grace)
    pod = await lab.ended("tracked")
    assert phase(pod) == "Failed"
    assert pod["metadata"]["deletionTimestamp"]
    assert not alive(lab.number("pid"))
    pod = await lab.wait("tracked", lambda pod: pod["metadata"]["deletionGracePeriodSeconds"] == 0)
    await let_go(lab, pod)
    await lab.gone("tracked")


async def test_a_pod_that_succeeds_while_it_is_deleted_has_succeeded(lab: Lab) -> None:
    # The second file says that the trap is set.
    script = f"trap 'exit 0' TERM; echo 1 > {lab.folder}/trap; while :; do sleep 0.05; done"
    await lab.running("polite", script, metadata={"finalizers": [TRACKED]})
    await until(lambda: lab.number("trap"), "it would end well")
    await lab.delete("polite")
    pod = await lab.ended("polite")
    assert phase(pod) == "Succeeded"
    await let_go(lab, pod)
    await lab.gone("polite")


async def test_a_tracked_pod_that_never_had_a_place_fails_when_it_is_deleted(lab: Lab) -> None:
    await lab.create("nowhere", shell("exit 0"), metadata={"finalizers": [TRACKED]}, nodeSelector={"no": "where"})
    await lab.wait("nowhere", lambda pod: condition(pod, "PodScheduled").get("reason") == "Unschedulable")
    await lab.delete("nowhere")
    pod = await lab.ended("nowhere")
    assert (phase(pod), pod["spec"].get("nodeName")) == ("Failed", None)
    await let_go(lab, pod)
    await lab.gone("nowhere")


@pytest.mark.usefixtures("modern")
async def test_an_evicted_pod_ends_and_is_not_to_blame(lab: Lab) -> None:
    await lab.create("moved", shell("exec sleep 60"), metadata={"finalizers": [TRACKED]})
    await lab.wait("moved", lambda pod: phase(pod) == "Running")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "moved"}}
    await lab.cluster.request("POST", POD.path("default", "moved", "eviction"), body=eviction)
    pod = await lab.ended("moved")
    assert phase(pod) == "Failed"
    target = condition(pod, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    await let_go(lab, pod)


@pytest.mark.usefixtures("modern")
async def test_a_gated_pod_starts_when_its_last_gate_is_taken_away(lab: Lab) -> None:
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    await lab.create("gated", shell(f"touch {lab.folder}/started"), schedulingGates=gates)
    await lab.create("other", shell("exit 0"))
    await lab.ended("other")
    pod = await lab.get("gated")
    assert (phase(pod), condition(pod, "PodScheduled")["reason"]) == ("Pending", "SchedulingGated")
    for left in ([gates[1]], None):
        assert not (lab.folder / "started").exists()
        await lab.cluster.patch(Ref(POD, "default", "gated"), {"spec": {"schedulingGates": left}})
    pod = await lab.ended("gated")
    scheduled = condition(pod, "PodScheduled")
    assert (phase(pod), scheduled["status"], scheduled.get("reason")) == ("Succeeded", "True", None)


async def test_an_indexed_pod_knows_its_index_and_its_name(lab: Lab) -> None:
    index = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    script = "import json, os; print(json.dumps([os.environ['JOB_COMPLETION_INDEX'], os.environ['HOSTNAME']]))"
    main = {"name": "main", "image": "x", "command": ["python", "-c", script], "env": [index]}
    first = {**main, "name": "first"}
    metadata = {"labels": {INDEX: "3"}, "annotations": {INDEX: "3"}}
    spec = {"hostname": "crunch-3", "subdomain": "crunch"}
    await lab.create("crunch-3-abcde", main, metadata=metadata, initContainers=[first], **spec)
    pod = await lab.ended("crunch-3-abcde")
    for name in ("first", "main"):
        assert json.loads(lab.log(pod, name)[0].removeprefix("stdout ")) == ["3", "crunch-3"]
