"""The containers of the chart as processes of this machine: their command lines, variables, ports and probes work."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.processes import command_lines
from tests.support import helm, rendered
from tests.support.conditions import eventually, until
from tests.support.embedded import embedded_apiserver
from tests.support.ports import free_ports
from tests.support.tables import for_each
from tests.support.valkeys import ValkeyServer
from workers.api import crds
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, SCALED_OBJECT, Ref
from workers.client.rest import Cluster

#: The pods' Secret and the cluster that an installation finds; the ports are free ones.
PROCESSES = {**rendered.EXTERNAL, "autoscaling": {"enabled": True, "pollingInterval": 1}, "volcano": {"enabled": True}}
STANDALONE = {**rendered.EXTERNAL, "mode": "standalone"}
#: Seconds that six processes may take to start on a busy machine.
PATIENCE = 90.0


@dataclass(frozen=True)
class Installed:
    """What runs. ports: by process, the port of this machine that stands for each of its container's."""

    objects: list[dict[str, Any]]
    kubeconfig: Path
    logs: Path
    ports: Mapping[str, Mapping[int, int]]


def _environment(objects: list[dict[str, Any]], container: dict[str, Any], ports: Mapping[int, int]) -> dict[str, str]:
    """The variables of a container, with other ports."""
    maps = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"}
    found = dict(maps[container["envFrom"][0]["configMapRef"]["name"]])
    found |= {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for name, value in found.items():
        if match := re.fullmatch(r"(?:0\.0\.0\.0:)?(\d+)", value):
            port = ports.get(int(match[1]))
            found[name] = value.replace("0.0.0.0", "127.0.0.1").replace(match[1], str(port)) if port else value
    return found


async def _prepare(kubeconfig: Path, objects: list[dict[str, Any]]) -> None:
    async with await Cluster.connect(kubeconfig=kubeconfig) as cluster:
        await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "penstock"}})
        for crd in crds.all_crds():
            await cluster.create(CUSTOM_RESOURCE_DEFINITION, crd)
        for body in objects:
            if body["kind"] == "Deployment":
                await cluster.create(DEPLOYMENT, body)


@contextmanager
def _running(values: Mapping[str, Any], folder: Path) -> Iterator[Installed]:
    """The processes of an installation, on the embedded API server and a broker of their own."""
    with ExitStack() as stack:
        objects = stack.enter_context(helm.running()).template(values)
        broker = stack.enter_context(ValkeyServer(config={"save": ""}))
        kubeconfig = stack.enter_context(embedded_apiserver(folder / "cluster")).kubeconfig
        asyncio.run(_prepare(kubeconfig, objects))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        given = {
            "PENSTOCK_BROKER": f"{broker.connection_url}/0",
            "PENSTOCK_OWN_NAMESPACE": "penstock",
            "PENSTOCK_KUBECONFIG": str(kubeconfig),
        }
        ports, started = {}, []
        for name, template in rendered.pods(objects).items():
            container = template["spec"]["containers"][0]
            here = free_ports(4)
            ports[name] = dict(zip((8081, 9090, 8080, 8443), here, strict=True))
            output = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                command_lines.own(*container["args"]),
                env={**kept, **_environment(objects, container, ports[name]), **given},
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait, 60)
            started.append(process)
        stack.callback(lambda: [each.terminate() for each in started])
        yield Installed(objects, kubeconfig, folder, ports)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Every process by itself."""
    with _running(PROCESSES, tmp_path_factory.mktemp("installed")) as one:
        yield one


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Installed]:
    """One process for all."""
    with _running(STANDALONE, tmp_path) as one:
        yield one


async def test_containers_are_ready_by_their_own_probes(installed: Installed) -> None:
    names = {f"penstock-{each}" for each in ("watch", "worker", "scaler", "beat", "gateway", "webhook")}
    assert set(installed.ports) == names
    await asyncio.gather(*(_ready(name, installed) for name in names))


async def test_one_process_for_all_and_its_gateway_are_ready_by_their_own_probes(single: Installed) -> None:
    assert set(single.ports) == {"penstock-standalone", "penstock-gateway"}
    await asyncio.gather(*(_ready(name, single) for name in single.ports))


async def _ready(name: str, installed: Installed) -> None:
    container = rendered.pods(installed.objects)[name]["spec"]["containers"][0]
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    said = installed.logs / f"{name}.log"
    async with aiohttp.ClientSession() as session:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            url = f"http://127.0.0.1:{installed.ports[name][named[asked['port']]]}{asked['path']}"

            async def answers(url: str = url) -> bool:
                try:
                    async with session.get(url) as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            await eventually(answers, PATIENCE, told=lambda url=url: f"{url}\n{said.read_text()}")


@for_each("worker", "scaler")
async def test_the_processes_scale_by_the_depth_and_the_age_of_their_own_queue(
    process: str, installed: Installed
) -> None:
    (body,) = (
        each
        for each in installed.objects
        if each["kind"] == "ScaledObject" and each["metadata"]["name"] == f"penstock-{process}"
    )
    here = f"http://127.0.0.1:{installed.ports[f'penstock-{process}'][9090]}"
    moved = json.loads(json.dumps(body).replace(f"http://penstock-{process}.penstock.svc:9090", here))
    target = Ref(DEPLOYMENT, "penstock", f"penstock-{process}")
    ref = Ref(SCALED_OBJECT, "penstock", f"penstock-{process}")
    async with await Cluster.connect(kubeconfig=installed.kubeconfig) as cluster:
        assert "replicas" not in body["spec"]
        await cluster.create(SCALED_OBJECT, moved)
        # Both metrics were read, and the Deployment has as many processes as they ask for: the fewest.
        stored = await until(
            lambda: cluster.get(ref), lambda each: len(each.get("status", {}).get("health", {})) == 2, PATIENCE
        )
        assert {each["status"] for each in stored["status"]["health"].values()} == {"Happy"}
        await until(lambda: cluster.get(target), lambda each: each["spec"]["replicas"] == 2)
