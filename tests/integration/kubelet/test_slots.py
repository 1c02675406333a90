"""Pods that cannot start hold no slot, and get one when they can; commands of images."""

from tests.integration.kubelet.lab import Lab, condition, phase, shell, waiting
from workers.api.kinds import CONFIG_MAP, POD, Object, Ref
from workers.client.rest import STRATEGIC_MERGE_PATCH


def image(name: str, **more: object) -> Object:
    """A container without a command."""
    return {"name": "main", "image": name, **more}


async def stuck(lab: Lab, name: str, reason: str) -> Object:
    """The pod, once its container waits for this reason."""
    return await lab.wait(name, lambda pod: waiting(pod).get("reason") == reason)


async def change(lab: Lab, name: str, to: str) -> None:
    """Changes the image of the pod's container."""
    changed = {"spec": {"containers": [{"name": "main", "image": to}]}}
    await lab.cluster.patch(Ref(POD, "default", name), changed, type=STRATEGIC_MERGE_PATCH)


async def test_pods_that_cannot_start_leave_the_slot_to_others_and_ask_for_one_when_they_can(bench: Lab) -> None:
    bench.start("--image", "mine=echo hello", pods=1)
    source = {"configMapKeyRef": {"name": "later", "key": "k"}}
    await bench.create("patient", shell("echo $K", env=[{"name": "K", "valueFrom": source}]))
    await bench.create("typo", image("x", command=["no-such-program"]), restartPolicy="Always")
    await bench.create("unknown", image("nginx"))
    await stuck(bench, "patient", "CreateContainerConfigError")
    await stuck(bench, "typo", "CrashLoopBackOff")
    pod = await stuck(bench, "unknown", "CreateContainerError")
    assert "no command: images are not run here" in waiting(pod)["message"]
    assert "container main: no command" in condition(pod, "PodScheduled")["message"]
    # Without a node it takes no resources of one.
    assert "nodeName" not in pod["spec"]
    await bench.create("first", shell(f"until [ -e {bench.folder}/go ]; do sleep 0.02; done"))
    await bench.wait("first", lambda pod: phase(pod) == "Running")
    await bench.cluster.create(
        CONFIG_MAP, {"metadata": {"namespace": "default", "name": "later"}, "data": {"k": "value"}}
    )
    pod = await stuck(bench, "patient", "OutOfpods")
    assert "penstock up --pods 1" in waiting(pod)["message"]
    await change(bench, "unknown", "mine")
    pod = await bench.wait("unknown", lambda pod: "Too many pods" in condition(pod, "PodScheduled").get("message", ""))
    assert "containerStatuses" not in pod["status"]
    (bench.folder / "go").touch()
    for name, line in (("patient", "stdout value"), ("unknown", "stdout hello")):
        pod = await bench.ended(name)
        assert (phase(pod), bench.log(pod)) == ("Succeeded", [line])
    await bench.delete("later", kind=CONFIG_MAP)


async def test_images_of_the_table_run_what_it_says_as_soon_as_that_is_there(bench: Lab) -> None:
    tool = bench.folder / "tool"
    bench.start("--image", f"tool={tool} | default", "--image", "mine=echo hello", pods=1)
    await bench.create("mine", image("registry.test/mine:2", args=["there"]))
    pod = await bench.ended("mine")
    assert bench.log(pod) == ["stdout hello there"]
    await bench.create("tool", image("tool:1"))
    assert f"no program {tool}" in waiting(await stuck(bench, "tool", "CreateContainerError"))["message"]
    await bench.create("changed", image("nginx"))
    await stuck(bench, "changed", "CreateContainerError")
    await change(bench, "changed", "mine:3")
    assert bench.log(await bench.ended("changed")) == ["stdout hello"]
    # In one step: the kubelet looks at any moment.
    (bench.folder / "new").write_text("#!/bin/sh\necho $1\n")
    (bench.folder / "new").chmod(0o700)
    (bench.folder / "new").rename(tool)
    assert bench.log(await bench.ended("tool")) == ["stdout default"]


async def test_a_bound_pod_without_a_command_holds_no_slot_until_its_image_changes(bench: Lab) -> None:
    bench.start("--image", "mine=echo hello", pods=1)
    await bench.create("bound", image("nginx"), nodeName="local")
    await stuck(bench, "bound", "CreateContainerError")
    await bench.create("other", shell("exit 0"))
    await bench.ended("other")
    await change(bench, "bound", "mine:3")
    assert bench.log(await bench.ended("bound")) == ["stdout hello"]
