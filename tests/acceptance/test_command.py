"""The command as a user types it: real processes, an embedded broker and cluster in a temporary home."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import yaml

from tests.support import kube
from tests.support.terminal import PATIENCE, Terminal, environment, family, gone, running, until
from workers.api import conditions


def manifest(api_version: str, kind: str, name: str, **content: Any) -> str:
    return yaml.safe_dump({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content})


def main(*command: str, **more: Any) -> dict[str, Any]:
    """The one container of a pod."""
    return {"name": "main", "image": "none", "command": list(command), **more}


def scaled_job(address: str) -> str:
    """A ScaledJob whose Jobs pop one item each and say which."""
    program = (
        "import os, socket\n"
        "host, port = os.environ['QUEUE'].split(':')\n"
        "stream = socket.create_connection((host, int(port))).makefile('rwb')\n"
        "stream.write(b'LPOP work\\r\\n'); stream.flush()\n"
        "stream.readline(); print('item', stream.readline().decode().strip())\n"
    )
    container = main(sys.executable, "-c", program, env=[{"name": "QUEUE", "value": address}])
    spec = {
        "pollingInterval": 2,
        "maxReplicaCount": 10,
        "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        "triggers": [{"type": "redis", "metadata": {"address": address, "listName": "work"}}],
    }
    return manifest("keda.sh/v1alpha1", "ScaledJob", "crunch", spec=spec)


@pytest.mark.timeout(300)
def test_from_a_list_to_finished_jobs_with_nothing_but_the_command(
    up: subprocess.Popen[bytes], terminal: Terminal, redis_server: str
) -> None:
    address = redis_server.removeprefix("redis://").partition("/")[0]
    body = scaled_job(address)
    with redis.Redis.from_url(redis_server) as queue:
        queue.delete("work")
        assert terminal.type("apply", "-f", "-", stdin=body) == "scaledjob.keda.sh/crunch created\n"
        assert terminal.type("apply", "-f", "-", stdin=body) == "scaledjob.keda.sh/crunch unchanged\n"
        queue.rpush("work", "one", "two", "three")
        label = "scaledjob.keda.sh/name=crunch"

        def finished() -> list[Any]:
            jobs = yaml.safe_load(terminal.type("get", "jobs", "-l", label, "-o", "yaml"))["items"]
            return [job for job in jobs if conditions.finished(job) == "Complete"]

        until(lambda: len(finished()) == 3, "three Jobs are complete")
        assert queue.llen("work") == 0
    assert len(terminal.type("get", "jobs", "-l", label, "-o", "name").splitlines()) == 3
    said = sorted(line.split()[-1] for line in terminal.type("logs", "scaledjob/crunch").splitlines())
    assert said == ["one", "three", "two"]
    described = terminal.type("describe", "sj", "crunch")
    assert "Jobs (3):" in described
    assert "s0-redis-work" in described
    assert "Ready" in described
    job = terminal.type("get", "jobs", "-l", label, "-o", "name").split()[0].partition("/")[2]
    assert "Pods (1):" in terminal.type("describe", f"job/{job}")
    terminal.type("delete", "scaledjob", "crunch")
    until(lambda: "No resources found" in terminal.type("get", "jobs", "-l", label), "the Jobs went with their owner")


def test_a_malformed_scaled_job_is_refused_by_its_field(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    broken = scaled_job("h:1").replace("maxReplicaCount: 10", "maxReplicaCount: many")
    said = terminal.type("apply", "-f", "-", stdin=broken, code=1)
    assert "standard input: ScaledJob crunch: " in said
    assert "spec.maxReplicaCount" in said
    assert said.count("\n") == 1


def test_a_second_up_in_the_same_home_says_who_owns_it(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    assert f"(pid {up.pid})" in terminal.type("up", code=1)


def test_a_followed_log_ends_with_its_pod(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    spec = {"restartPolicy": "Never", "containers": [main("sh", "-c", "echo one; echo; sleep 1; echo two")]}
    terminal.type("apply", "-f", "-", stdin=manifest("v1", "Pod", "talker", spec=spec))
    assert terminal.type("logs", "talker", "-f") == "one\n\ntwo\n"
    assert terminal.type("logs", "pod/talker", "--tail", "1") == "two\n"
    assert terminal.type("delete", "pod", "talker") == 'pod "talker" deleted\n'
    assert 'pods "talker" not found' in terminal.type("logs", "talker", code=1)


# --- the client commands, on the embedded cluster and on a real API server


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kube.ControlPlane]:
    """A real API server."""
    with kube.control_plane(kube.assets(), tmp_path_factory.mktemp("real") / "kube") as running:
        yield running


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real_apiserver)])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal whose kubeconfig names a cluster with our CRDs."""
    folder = tmp_path_factory.mktemp("client")
    if request.param == "embedded":
        request.getfixturevalue("up")
        shared: Terminal = request.getfixturevalue("terminal")
        yield Terminal({"PENSTOCK_KUBECONFIG": f"{shared.variables['PENSTOCK_HOME']}/kubeconfig"}, folder)
        return
    plane: kube.ControlPlane = request.getfixturevalue("plane")
    terminal = Terminal({"PENSTOCK_KUBECONFIG": str(plane.kubeconfig)}, folder)
    terminal.type("apply", "-f", "-", stdin=terminal.type("crds"))
    yield terminal


@pytest.fixture
def kubectl(client: Terminal) -> Callable[..., str]:
    """kubectl on the same cluster."""
    import shutil

    binary = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kubectl"
    found = str(binary) if binary.is_file() else shutil.which("kubectl")
    if not found:
        pytest.skip("there is no kubectl")

    def run(*words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [found, *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment(KUBECONFIG=client.variables["PENSTOCK_KUBECONFIG"], HOME=str(client.folder)),
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def config_map(**data: str) -> str:
    return manifest("v1", "ConfigMap", "settings", data=data)


@pytest.mark.timeout(240)
def test_an_object_is_applied_changed_shown_and_deleted(client: Terminal) -> None:
    assert client.type("apply", "-f", "-", stdin=config_map(a="1", b="2")) == "configmap/settings created\n"
    assert client.type("apply", "-f", "-", stdin=config_map(a="1", b="2")) == "configmap/settings unchanged\n"
    tried = client.type("apply", "--dry-run=server", "-f", "-", stdin=config_map(a="3"))
    assert tried == "configmap/settings configured (server dry run)\n"
    assert yaml.safe_load(client.type("get", "cm", "settings", "-o", "yaml"))["data"] == {"a": "1", "b": "2"}
    assert client.type("apply", "-f", "-", stdin=config_map(a="3")) == "configmap/settings configured\n"
    shown = yaml.safe_load(client.type("get", "cm", "settings", "-o", "yaml"))
    assert (shown["data"], "managedFields" in shown["metadata"]) == ({"a": "3"}, False)
    header, row = client.type("get", "cm", "settings").splitlines()
    assert header.split() == ["NAME", "DATA", "AGE"]
    assert row.split()[:2] == ["settings", "1"]
    assert "settings" in client.type("get", "configmaps", "-A")
    assert client.type("delete", "cm", "settings") == 'configmap "settings" deleted\n'
    assert 'configmaps "settings" not found' in client.type("get", "cm", "settings", code=1)


@pytest.mark.timeout(240)
def test_kubectl_and_penstock_take_turns_on_one_object(client: Terminal, kubectl: Callable[..., str]) -> None:
    assert "created" in kubectl("apply", "--validate=false", "-f", "-", stdin=config_map(a="1", b="2"))
    assert client.type("apply", "-f", "-", stdin=config_map(a="1", b="2")) == "configmap/settings unchanged\n"
    assert client.type("apply", "-f", "-", stdin=config_map(b="2", c="3")) == "configmap/settings configured\n"
    assert "unchanged" in kubectl("apply", "--validate=false", "-f", "-", stdin=config_map(b="2", c="3"))
    assert "configured" in kubectl("apply", "--validate=false", "-f", "-", stdin=config_map(c="3"))
    assert yaml.safe_load(client.type("get", "cm", "settings", "-o", "json"))["data"] == {"c": "3"}
    kubectl("label", "configmap", "settings", "example.com/app=x")
    asked = ("get", "cm", "settings", "-L", "example.com/app,tier", "--show-labels")
    for printed in (kubectl(*asked), client.type(*asked)):
        header, row = (line.split() for line in printed.splitlines())
        assert header[-3:] == ["APP", "TIER", "LABELS"]
        # The object has no tier.
        assert row[-2:] == ["x", "example.com/app=x"]
    client.type("delete", "-f", "-", stdin=config_map())


@pytest.mark.timeout(240)
def test_a_watch_shows_what_changes(client: Terminal) -> None:
    client.type("apply", "-f", "-", stdin=config_map(a="1"))
    log = client.folder / "watch.log"
    with log.open("w") as output, client.start("get", "cm", "settings", "-w", output=output):
        until(lambda: len(log.read_text().splitlines()) == 2, "the table is there")
        client.type("apply", "-f", "-", stdin=config_map(a="1", b="2"))
        until(lambda: len(log.read_text().splitlines()) == 3, "the change is there")
    assert [line.split()[:2] for line in log.read_text().splitlines()[1:]] == [["settings", "1"], ["settings", "2"]]
    client.type("delete", "cm", "settings")


@pytest.mark.timeout(240)
def test_the_servers_refusal_names_object_and_field(client: Terminal) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [main("true")]}}
    broken = manifest("batch/v1", "Job", "crunch", spec={"parallelism": -1, "template": template})
    said = client.type("apply", "-f", "-", stdin=broken, code=1)
    assert 'standard input: Job crunch: Job.batch "crunch" is invalid: spec.parallelism: Invalid value: -1' in said
    assert said.count("\n") == 1


@pytest.mark.timeout(240)
def test_our_crds_can_be_applied_again_by_either_tool(client: Terminal, kubectl: Callable[..., str]) -> None:
    definitions = client.type("crds")
    assert "customresourcedefinition.apiextensions.k8s.io/scaledjobs.keda.sh" in kubectl(
        "apply", "--validate=false", "-f", "-", stdin=definitions
    )
    applied = client.type("apply", "-f", "-", stdin=definitions)
    assert all(line.endswith(("unchanged", "configured")) for line in applied.splitlines())


# --- the life of an embedded Penstock


@pytest.mark.timeout(300)
def test_no_process_outlives_up_and_the_next_up_finds_everything_again(tmp_path: Path) -> None:
    terminal = Terminal.of(tmp_path)
    sleeper = manifest("v1", "Pod", "sleeper", spec={"containers": [main("sleep", "600")]})
    with running(terminal, tmp_path / "first.log") as process:
        terminal.type("apply", "-f", "-", stdin=config_map(a="1"))
        terminal.type("apply", "-f", "-", stdin=sleeper)
        until(lambda: "Running" in terminal.type("get", "pod", "sleeper"), "the pod runs")
        processes = family(process.pid)
        assert len(processes) >= 8
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    until(lambda: gone(processes), "no process is left")
    assert "penstock up" in terminal.type("get", "cm", code=1)
    with running(terminal, tmp_path / "second.log") as process:
        assert yaml.safe_load(terminal.type("get", "cm", "settings", "-o", "yaml"))["data"] == {"a": "1"}
        processes = family(process.pid)
        process.kill()
        process.wait(PATIENCE)
        until(lambda: gone(processes), "a killed up takes its processes with it")


@pytest.mark.skipif(sys.platform != "linux", reason="parts are forked on Linux only")
def test_parts_outlive_the_server_that_forked_them_and_are_kept_running_without_it(tmp_path: Path) -> None:
    terminal = Terminal.of(tmp_path)
    with running(terminal, tmp_path / "up.log") as process:
        (server,) = [each for each in psutil.Process(process.pid).children() if "fork server" in each.name()]
        forks = server.children()
        (clock,) = [each for each in forks if each.cmdline()[-1].endswith("beat")]
        server.kill()
        until(lambda: gone([server]), "the fork server is gone")
        assert all(not gone([each]) for each in forks)
        clock.kill()
        children = psutil.Process(process.pid).children
        again = until(
            lambda: [each for each in children() if not gone([each]) and each.cmdline()[-1:] == ["beat"]],
            "the clock is started again",
        )
        until(lambda: "a part died and is started again, part beat" in (tmp_path / "up.log").read_text(), "it is told")
    until(lambda: gone([*forks, *again]), "no process is left")


@pytest.mark.timeout(240)
@pytest.mark.real_apiserver
def test_up_on_a_real_cluster_names_missing_crds_and_installs_them_when_told(
    plane: kube.ControlPlane, tmp_path: Path
) -> None:
    terminal = Terminal.of(tmp_path)
    real = ("--kubeconfig", str(plane.kubeconfig))
    # Other tests may have installed it.
    terminal.type("delete", "crd", "scaledjobs.keda.sh", "--ignore-not-found", *real)
    said = terminal.type("up", *real, code=1)
    assert "lacks these CRDs: scaledjobs.keda.sh" in said
    assert "--install-crds" in said
    with running(terminal, tmp_path / "up.log", *real, "--install-crds"):
        parts = (tmp_path / "up.log").read_text()
        assert "broker" in parts
        assert "apiserver" not in parts
        assert "No resources found" in terminal.type("get", "sj", *real)
