"""A kubelet that presents several nodes: what they offer, and the node that each pod goes to."""

from tests.integration.kubelet.lab import Lab, condition, phase, shell
from tests.support.conditions import eventually
from workers.api.kinds import EVENT, NODE, Ref


async def test_pods_go_to_the_nodes_that_have_what_they_ask_for(bench: Lab) -> None:
    bench.start("--nodes", "2", "--cpus", "64", "--gpus", "1", "--node-labels", "zone=a/b", pods=5)
    asked = {"limits": {"nvidia.com/gpu": "1", "cpu": "40"}}
    for name in ("one", "two"):
        await bench.create(name, shell("exec sleep 60") | {"resources": asked})
        await bench.wait(name, lambda pod: pod["spec"].get("nodeName"))
    await bench.create("three", shell("exit 0"), nodeSelector={"zone": "b"})
    await bench.ended("three")
    pods = [await bench.get(name) for name in ("one", "two", "three")]
    assert [pod["spec"]["nodeName"] for pod in pods] == ["local", "local-2", "local-2"]
    nodes = [await bench.cluster.get(Ref(NODE, "", name)) for name in ("local", "local-2")]
    offered = [node["status"]["allocatable"] for node in nodes]
    assert [(one["cpu"], one["nvidia.com/gpu"], one["pods"]) for one in offered] == [("64", "1", "3"), ("64", "1", "2")]
    assert [node["metadata"]["labels"]["zone"] for node in nodes] == ["a", "b"]
    await bench.delete("two", grace=1)
    await bench.gone("two")
    await bench.create("four", shell("exit 0") | {"resources": asked})
    assert (await bench.ended("four"))["spec"]["nodeName"] == "local-2"


async def test_a_pod_that_no_node_may_take_goes_to_one_that_is_labelled_for_it(lab: Lab) -> None:
    await lab.create("picky", shell("exit 0"), nodeSelector={"disk": "ssd"})
    refused = await lab.wait("picky", lambda pod: condition(pod, "PodScheduled").get("reason") == "Unschedulable")
    lacking = "0/1 nodes are available: 1 without the labels of spec.nodeSelector: disk=ssd"
    assert condition(refused, "PodScheduled")["message"] == lacking
    await lab.cluster.patch(Ref(NODE, "", "local"), {"metadata": {"labels": {"disk": "ssd"}}})
    assert phase(await lab.ended("picky")) == "Succeeded"
    await lab.cluster.patch(Ref(NODE, "", "local"), {"metadata": {"labels": {"disk": None}}})


async def test_a_pod_on_a_node_that_does_not_exist_says_so_and_can_be_deleted(lab: Lab) -> None:
    await lab.create("astray", shell("exit 0"), nodeName="nowhere")

    async def said() -> list[str]:
        events, _ = await lab.cluster.list(EVENT, "default")
        return [one["message"] for one in events if one["reason"] == "NodeNotFound"]

    await eventually(said, 60.0)
    assert await said() == ["spec.nodeName: there is no node nowhere: the pod waits for one of this name"]
    assert phase(await lab.get("astray")) == "Pending"
    await lab.delete("astray")
    await lab.gone("astray")
