"""Volcano's kinds as a user meets them: vcctl's lines with `penstock` in front, on the embedded cluster."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.terminal import Terminal, until

EXAMPLES = ROOT / "examples"
SMALL = ("-R", "cpu=10m,memory=10Mi", "-L", "")


@pytest.fixture
def cluster(up: subprocess.Popen[bytes], terminal: Terminal) -> Iterator[Terminal]:
    """A terminal of a running Penstock; what the test makes is gone afterwards."""
    yield terminal
    for kind in ("jobflows", "jobtemplates", "vcjobs"):
        terminal.type("delete", kind, "--all")


def phase(terminal: Terminal, name: str) -> str:
    """A Job's phase as the list shows it; empty before it has one."""
    row = next(line.split() for line in terminal.type("job", "list").splitlines() if line.split()[0] == name)
    return row[2] if row[3:4] == ["Batch"] else ""


@pytest.mark.timeout(300)
def test_a_job_is_run_listed_suspended_resumed_and_deleted(cluster: Terminal) -> None:
    assert cluster.type("job", "list") == "No resources found\n"
    run = ("job", "run", "-N", "hello", "-r", "3", "-m", "3", *SMALL, "--", "sh", "-c", "echo hello; sleep 600")
    assert cluster.type(*run) == "run job hello successfully\n"
    until(lambda: phase(cluster, "hello") == "Running", "it runs")
    assert "hello" not in cluster.type("get", "jobs")
    assert "hello" in cluster.type("get", "vcjobs")
    assert "already exists" in cluster.type(*run, code=1)
    viewed = cluster.type("job", "view", "-N", "hello")
    assert "3 Running" in viewed
    assert "Pods (3):" in viewed
    until(lambda: cluster.type("logs", "vcjob/hello").count("hello\n") == 3, "each pod has said hello")
    cluster.type("job", "suspend", "-N", "hello")
    until(lambda: phase(cluster, "hello") == "Aborted", "it is aborted")
    cluster.type("job", "resume", "-N", "hello")
    until(lambda: phase(cluster, "hello") == "Running", "it runs again")
    until(lambda: "AbortJob" in cluster.type("job", "view", "-N", "hello"), "its Events tell of the Command")
    assert cluster.type("job", "delete", "-N", "hello") == "delete job hello successfully\n"
    assert cluster.type("job", "suspend", "-N", "hello", code=1) == (
        'penstock: jobs.batch.volcano.sh "hello" not found\n'
    )


@pytest.mark.timeout(300)
def test_a_job_that_failed_says_why(cluster: Terminal) -> None:
    cluster.type("job", "run", "-N", "broken", *SMALL, "--", "sh", "-c", "exit 7")
    until(lambda: phase(cluster, "broken") == "Failed", "it has failed")
    viewed = cluster.type("describe", "vcjob", "broken")
    assert "Failures:" in viewed
    (failure,) = [line for line in viewed.splitlines() if line.startswith("  broken-default0-0   broken ")]
    assert failure.split()[2] == "7"
    assert "container broken exited with 7" in viewed


@pytest.mark.timeout(300)
def test_a_queue_is_made_used_closed_and_deleted(cluster: Terminal, tmp_path: Path) -> None:
    cluster.type("queue", "create", "-n", "tight", "-w", "4")

    def row() -> list[str]:
        return cluster.type("queue", "get", "-n", "tight").splitlines()[1].split()

    until(lambda: row()[:4] == ["tight", "4", "Open", "root"], "it is open")
    cluster.type("queue", "operate", "-n", "tight", "-a", "update", "-w", "8")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "tight"}}
    cluster.type("apply", "-f", "-", stdin=yaml.safe_dump({**queue, "spec": {"weight": 8, "maxRunningJobs": 1}}))
    for name in ("first", "second", "third"):
        job = yaml.safe_load((EXAMPLES / "volcano-job.yaml").read_text())
        job["metadata"]["name"] = name
        job["spec"]["queue"] = "tight"
        sleeper = {"name": "main", "image": "none", "command": ["sleep", "600"]}
        job["spec"]["tasks"][0]["template"]["spec"]["containers"][0] = sleeper
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(job))
        cluster.type("job", "run", "-f", str(file))
        until(lambda name=name: name in cluster.type("get", "podgroups"), "it has its PodGroup")
        # A queue's order is that of creation times, which count seconds.
        second = int(time.time())
        until(lambda second=second: int(time.time()) > second, "the next one is younger")
    until(lambda: phase(cluster, "first") == "Running", "the first runs")
    until(lambda: cluster.type("queue", "get", "-n", "tight").count("TooManyRunning") == 2, "the others say why not")
    waiting = [line.split() for line in cluster.type("queue", "get", "-n", "tight").splitlines()[4:]]
    assert [(line[0], line[3]) for line in waiting] == [("1", "Job/second"), ("2", "Job/third")]
    assert "2 of 2 that wait in queue tight" in cluster.type("job", "view", "-N", "third")
    assert "Job/second" in cluster.type("describe", "queue", "tight")
    cluster.type("queue", "operate", "-n", "tight", "-a", "close")
    until(lambda: row()[2] == "Closing", "it closes while work is in it")
    assert "Closing" in cluster.type("job", "run", "-f", str(tmp_path / "first.yaml"), "-n", "default", code=1)
    cluster.type("delete", "vcjobs", "--all")
    until(lambda: row()[2] == "Closed", "it is closed")
    cluster.type("queue", "operate", "-n", "tight", "-a", "open")
    until(lambda: row()[2] == "Open", "it is open again")
    assert cluster.type("queue", "delete", "-n", "tight") == "delete queue tight successfully\n"
    assert "must not be deleted" in cluster.type("queue", "delete", "-n", "default", code=1)
    assert 'queues.scheduling.volcano.sh "tight" not found' in cluster.type("queue", "get", "-n", "tight", code=1)


@pytest.mark.timeout(300)
def test_a_flow_is_made_cancelled_and_run_again(cluster: Terminal, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    template, flow = "step", "release"
    container = {"name": "main", "image": "none", "command": ["sh", "-c", f"test -e {flag} || sleep 600"]}
    # A pod has a /tmp of its own, in which the flag would never come.
    container["volumeMounts"] = [{"name": "flags", "mountPath": str(tmp_path)}]
    volume = {"name": "flags", "hostPath": {"path": str(tmp_path)}}
    pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}}
    pod["spec"]["volumes"] = [volume]
    steps = [
        {"name": "build", "template": template},
        {"name": "ship", "template": template, "dependsOn": {"targets": ["build"]}},
    ]
    task = {"name": "work", "replicas": 1, "template": pod}
    documents = [
        {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in (("JobFlow", flow, {"flows": steps}), ("JobTemplate", template, {"tasks": [task]}))
    ]
    file = tmp_path / "flow.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    made = "Created JobFlow: default/release\nCreated JobTemplate: default/step\n"
    # As vcctl calls it.
    assert cluster.type("jobflow", "create", "-f", str(file)) == made
    assert cluster.type("jobtemplate", "list").split() == ["Name", "Namespace", "step", "default"]

    def reached() -> str:
        row = cluster.type("flow", "get", "-N", flow).splitlines()[1].split()
        return row[2] if len(row) == 4 else ""

    until(lambda: "Running" in phases(cluster), "its first Job runs")
    until(lambda: reached() == "Running", "so does the flow")
    assert "is Running" in cluster.type("flow", "retry", "-N", flow, code=1)
    cluster.type("flow", "cancel", "-N", flow)
    until(lambda: reached() == "Terminated", "it is terminated")
    flag.touch()
    cluster.type("flow", "retry", "-N", flow)
    until(lambda: reached() == "Succeed", "it has succeeded")
    described = cluster.type("flow", "describe", "-N", flow, "-o", "text")
    graph = [" ".join(line.split()) for line in described.splitlines()]
    assert any(line.startswith("+ build Completed") for line in graph)
    assert "+ ship Completed after build" in graph
    assert yaml.safe_load(cluster.type("flow", "describe", "-N", flow))["status"]["state"]["phase"] == "Succeed"
    assert "is over: Succeed" in cluster.type("flow", "suspend", "-N", flow, code=1)
    gone = "Deleted JobTemplate: default/step\nDeleted JobFlow: default/release\n"
    assert cluster.type("flow", "delete", "-f", str(file)) == gone
    assert cluster.type("flow", "list") == cluster.type("template", "list") == "No resources found\n"


def phases(terminal: Terminal) -> list[str]:
    """The phases of all Jobs."""
    items = yaml.safe_load(terminal.type("get", "vcjobs", "-o", "yaml"))["items"]
    return [((each.get("status") or {}).get("state") or {}).get("phase", "") for each in items]
