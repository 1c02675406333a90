"""Failure reasons of Jobs and pods in tables."""

from typing import Any

from deploy.object_rows import failure_reasons
from tests.support.tables import cases
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import CONFIG_MAP, JOB, POD, FakeCluster


def container(name: str = "main", **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


def ended(name: str = "main", **terminated: Any) -> dict[str, Any]:
    return container(name, terminated=terminated)


#: Statuses of one container, and the reason that a table shows.
CONTAINERS = {
    "it runs": (container(running={}), ""),
    "it is about to start": (container(waiting={"reason": "ContainerCreating", "message": "soon"}), ""),
    "it cannot be made": (
        container(waiting={"reason": "CreateContainerError", "message": "no\n command"}),
        "main: CreateContainerError: no command",
    ),
    "it succeeded": (ended(exitCode=0, reason="Completed"), ""),
    "its program failed": (ended(exitCode=3, reason="Error"), "main: exit code 3"),
    "no reason given": (ended(exitCode=1), "main: exit code 1"),
    "it did not start": (ended(exitCode=128, reason="StartError", message="none"), "main: StartError: none"),
}
SEVERAL = {
    **{"reason": "Evicted", "message": "no room"},
    "initContainerStatuses": [ended("first", exitCode=2, reason="Error")],
    "containerStatuses": [ended(exitCode=137, reason="OOMKilled")],
}
WHY_SEVERAL = "Evicted: no room; first: exit code 2; main: OOMKilled"


#: A pod without a node.
WAITS = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: --pods 4"}]


@cases(
    ("it has no node", {"conditions": WAITS}, "Unschedulable: 0/1 nodes: --pods 4"),
    ("it has no node because of its containers", {"conditions": WAITS, **SEVERAL}, WHY_SEVERAL),
    ("it has a node", {"conditions": [{**WAITS[0], "status": "True"}]}, ""),
    ("nothing is known", {}, ""),
    *((name, {"containerStatuses": [one]}, why) for name, (one, why) in CONTAINERS.items()),
    ("several", SEVERAL, WHY_SEVERAL),
)
def test_a_pod(status: dict[str, Any], why: str) -> None:
    assert failure_reasons.of(POD, {"status": status}) == why


@cases(
    ("at work", [], ""),
    ("complete", [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}], ""),
    ("not failed", [{"type": "Failed", "status": "False", "reason": "Not"}], ""),
    (
        "failed",
        [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}],
        "DeadlineExceeded: late",
    ),
    ("failed without a word", [{"type": "Failed", "status": "True"}], ""),
)
def test_a_job(conditions: list[dict[str, str]], why: str) -> None:
    assert failure_reasons.of(JOB, {"status": {"conditions": conditions}}) == why


def test_other_kinds_have_none() -> None:
    assert failure_reasons.of(CONFIG_MAP, {"status": {"reason": "x"}}) == ""


def test_a_jobs_description_shows_its_pods_failures(cluster: FakeCluster, penstock: Type) -> None:
    body = cluster.add(JOB, "crunch")
    owner = {"ownerReferences": [{"kind": "Job", "name": "crunch", "uid": body["metadata"]["uid"], "controller": True}]}
    labels = {"labels": {"job-name": "crunch", "batch.kubernetes.io/job-name": "crunch"}}
    cluster.add(POD, "good", metadata={**owner, **labels}, status={"phase": "Succeeded"})
    assert "WHY" not in penstock("describe", "job", "crunch").out
    failed = {"phase": "Failed", "containerStatuses": [ended(exitCode=3, reason="Error")]}
    cluster.add(POD, "bad", metadata={**owner, **labels}, status=failed)
    lines = [line.split(maxsplit=3) for line in penstock("describe", "job", "crunch").out.splitlines()]
    assert ["NAME", "STATE", "AGE", "WHY"] in lines
    assert ["bad", "Failed", "<unknown>", "main: exit code 3"] in lines
    assert ["good", "Succeeded", "<unknown>"] in lines
