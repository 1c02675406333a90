"""Failure reasons of Jobs and pods in tables."""

from typing import Any

import pytest

from deploy.cli.objects import failure_reasons
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import CONFIG_MAP, JOB, POD, FakeCluster


def container(name: str = "main", **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param({}, "", id="nothing is known"),
        pytest.param({"containerStatuses": [container(running={})]}, "", id="it runs"),
        pytest.param(
            {"containerStatuses": [container(waiting={"reason": "ContainerCreating", "message": "soon"})]},
            "",
            id="it is about to start",
        ),
        pytest.param(
            {"containerStatuses": [container(waiting={"reason": "CreateContainerError", "message": "no\n command"})]},
            "main: CreateContainerError: no command",
            id="it cannot be made",
        ),
        pytest.param(
            {"containerStatuses": [container(terminated={"exitCode": 0, "reason": "Completed"})]}, "", id="it succeeded"
        ),
        pytest.param(
            {"containerStatuses": [container(terminated={"exitCode": 3, "reason": "Error"})]},
            "main: exit code 3",
            id="its program failed",
        ),
        pytest.param(
            {"containerStatuses": [container(terminated={"exitCode": 1})]}, "main: exit code 1", id="no reason given"
        ),
        pytest.param(
            {"containerStatuses": [container(terminated={"exitCode": 128, "reason": "StartError", "message": "none"})]},
            "main: StartError: none",
            id="it did not start",
        ),
        pytest.param(
            {
                "reason": "Evicted",
                "message": "no room",
                "initContainerStatuses": [container("first", terminated={"exitCode": 2, "reason": "Error"})],
                "containerStatuses": [container(terminated={"exitCode": 137, "reason": "OOMKilled"})],
            },
            "Evicted: no room; first: exit code 2; main: OOMKilled",
            id="several",
        ),
    ],
)
def test_a_pod(status: dict[str, Any], why: str) -> None:
    assert failure_reasons.of(POD, {"status": status}) == why


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        ([], ""),
        ([{"type": "Complete", "status": "True", "reason": "CompletionsReached"}], ""),
        ([{"type": "Failed", "status": "False", "reason": "Not"}], ""),
        (
            [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}],
            "DeadlineExceeded: late",
        ),
        ([{"type": "Failed", "status": "True"}], ""),
    ],
    ids=["at work", "complete", "not failed", "failed", "failed without a word"],
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
    ended = [container(terminated={"exitCode": 3, "reason": "Error"})]
    cluster.add(POD, "bad", metadata={**owner, **labels}, status={"phase": "Failed", "containerStatuses": ended})
    lines = [line.split(maxsplit=3) for line in penstock("describe", "job", "crunch").out.splitlines()]
    assert ["NAME", "STATE", "AGE", "WHY"] in lines
    assert ["bad", "Failed", "<unknown>", "main: exit code 3"] in lines
    assert ["good", "Succeeded", "<unknown>"] in lines
