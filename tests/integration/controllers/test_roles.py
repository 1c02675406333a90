"""Every kind is reconciled on a real API server by processes with exactly the roles of deploy/, and Secrets by name.

The server authorizes by RBAC. Each process has its own service account and its own token; an administrator installs
the definitions and the roles, creates the objects, and runs the pods.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from tests.support import kube
from tests.support.paths import ROOT
from tests.support.terminal import COMMAND, environment, until
from tests.support.valkeys import ValkeyServer

pytestmark = [pytest.mark.real_apiserver, pytest.mark.timeout(300)]

Body = dict[str, Any]

#: The service account of each process; the beat needs none.
PROCESSES = {"watch": "penstock-watch", "worker": "penstock-worker", "scaler": "penstock-scaler"}
SETTINGS = {"OWN_NAMESPACE": "penstock", "JOBS": "all", "POLICIES": "true", "VOLCANO": "true"}
PASSWORD = "measured"


@dataclass(frozen=True)
class Running:
    """config: kubeconfig of the administrator. source: the measured server. logs: the output of each process."""

    config: Path
    source: ValkeyServer
    logs: Mapping[str, Path]

    def kubectl(self, *words: str, body: object = None) -> Any:
        """Runs kubectl as the administrator. body: sent to its standard input. Returns its output as JSON."""
        program = kube.assets() / "kubectl"
        stdin = json.dumps(body) if body is not None else ""
        done = subprocess.run(
            [program, "--kubeconfig", self.config, *words], input=stdin, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def apply(self, *bodies: Body) -> None:
        """Creates objects in the namespace `default`."""
        self.kubectl("apply", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": [*bodies]})

    def read(self, resource: str, name: str) -> Body:
        """Returns an object of the namespace `default`."""
        return dict(self.kubectl("get", resource, name, "-o", "json"))

    def serves_cron_jobs(self) -> bool:
        """Returns whether the API server knows CronJobs of batch/v1."""
        return "cronjobs" in {one["name"] for one in self.kubectl("get", "--raw", "/apis/batch/v1")["resources"]}

    def find(self, resource: str, **labels: str) -> list[Body]:
        """Returns objects of the namespace `default` by labels."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        return list(self.kubectl("get", resource, "-l", selector, "-o", "json")["items"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The processes at work, each with the token of its account, and a kubelet of the administrator."""
    folder = tmp_path_factory.mktemp("roles")
    with ExitStack() as stack:
        plane = stack.enter_context(kube.control_plane(kube.assets(), folder / "cluster"))
        broker, source = stack.enter_context(ValkeyServer()), stack.enter_context(ValkeyServer())
        with redis.Redis(port=source.port) as link:
            link.config_set("requirepass", PASSWORD)
        names = (*PROCESSES, "beat", "kubelet")
        found = Running(plane.kubeconfig, source, {name: folder / f"{name}.log" for name in names})
        deploy = ROOT / "deploy"
        found.kubectl("apply", "-f", str(deploy / "crds"))
        found.kubectl("apply", "-f", str(deploy / "rbac.yaml"), "-f", str(deploy / "volcano.yaml"))
        # The authentications of `default` name Secrets there, which the scalers read where it is allowed by name.
        account = "--serviceaccount=penstock:penstock-scaler"
        found.kubectl(
            "create", "rolebinding", "secrets", "-n", "default", "--clusterrole=penstock-scaler-secrets", account
        )
        for name in names:
            if name == "kubelet":
                words = [sys.executable, "-m", "deploy.local.kubelet", "--kubeconfig", str(found.config)]
                words += ["--logs", str(folder / "output"), "--root", str(folder / "pods"), "--max-pods", "8"]
                words += ["--isolation", "none"]
            else:
                words = [*COMMAND, name]
            variables = {f"PENSTOCK_{key}": value for key, value in SETTINGS.items()}
            variables["PENSTOCK_CRONJOBS"] = str(found.serves_cron_jobs()).lower()
            if account := PROCESSES.get(name):
                variables["PENSTOCK_KUBECONFIG"] = str(_kubeconfig(found, account, folder / f"{name}.kubeconfig"))
            variables["PENSTOCK_BROKER"] = f"redis://127.0.0.1:{broker.port}/0"
            stack.enter_context(_process(words, variables, found.logs[name], folder / f"{name}.ready"))
        # What the node controller does for a ready node. No scheduler is here either: the kubelet takes every pod.
        until(lambda: found.kubectl("get", "nodes", "-o", "json")["items"], "the node is registered")
        found.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready-")
        yield found


def _kubeconfig(running: Running, account: str, file: Path) -> Path:
    """Writes the kubeconfig of a service account of ours."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/penstock/serviceaccounts/{account}/token"
    answer = running.kubectl("create", "--raw", path, "-f", "-", body=request)
    content = yaml.safe_load(running.config.read_text())
    content["users"][0]["user"] = {"token": answer["status"]["token"]}
    file.write_text(yaml.safe_dump(content))
    return file


@contextmanager
def _process(words: list[str], variables: Mapping[str, str], log: Path, ready: Path) -> Iterator[None]:
    """A process, once it is ready; ended with the block."""
    if "--max-pods" in words:
        words += ["--ready-file", str(ready)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            words, env=environment(**variables, PENSTOCK_READY_FILE=str(ready)), stdout=output, stderr=output
        ) as process,
    ):
        try:
            until(lambda: ready.exists() or process.poll() is not None, f"{words} is ready")
            assert process.poll() is None, log.read_text()
            yield
        finally:
            process.terminate()
            process.wait(90)


def body(kind: str, api: str, name: str, **more: Any) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **more}


def template(script: str = "true") -> Body:
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def vc_job(name: str, script: str = "true") -> Body:
    return body("Job", "batch.volcano.sh/v1alpha1", name, spec=vc_spec(script))


def vc_spec(script: str = "true") -> Body:
    return {"minAvailable": 1, "tasks": [{"name": "work", "replicas": 1, "template": template(script)}]}


def condition(found: Body, type_: str) -> str | None:
    """The status of a condition."""
    conditions = found.get("status", {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == type_), None)


def redis_trigger(running: Running, name: str) -> list[Body]:
    """A Secret with the server's password, and an authentication that refers to it."""
    with redis.Redis(port=running.source.port, password=PASSWORD) as link:
        link.rpush(name, "one", "two")
    reference = [{"parameter": "password", "name": name, "key": "password"}]
    return [
        body("Secret", "v1", name, stringData={"password": PASSWORD}),
        body("TriggerAuthentication", "keda.sh/v1alpha1", name, spec={"secretTargetRef": reference}),
    ]


def trigger(running: Running, name: str) -> Body:
    metadata = {"address": f"127.0.0.1:{running.source.port}", "listName": name, "listLength": "1"}
    return {"type": "redis", "metadata": metadata, "authenticationRef": {"name": name}}


def scaled_job(running: Running) -> Callable[[], bool]:
    spec = {"pollingInterval": 1, "maxReplicaCount": 1, "triggers": [trigger(running, "items")]}
    spec["jobTargetRef"] = {"template": template()}
    limit = {"apiVersion": "penstock.dev/v1alpha1", "kind": "ScalePolicy", "metadata": {"name": "all"}}
    limit["spec"] = {"maxJobs": 1}
    running.apply(*redis_trigger(running, "items"), limit, body("ScaledJob", "keda.sh/v1alpha1", "items", spec=spec))
    return lambda: any(
        condition(job, "Complete") == "True" for job in running.find("jobs", **{"scaledjob.keda.sh/name": "items"})
    )


def scaled_object(running: Running) -> Callable[[], bool]:
    labels = {"app": "pool"}
    pool = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {**template(), "metadata": {"labels": labels}},
    }
    pool["template"]["spec"]["restartPolicy"] = "Always"
    spec = {"pollingInterval": 1, "scaleTargetRef": {"name": "pool"}, "triggers": [trigger(running, "pool")]}
    running.apply(
        *redis_trigger(running, "pool"),
        body("Deployment", "apps/v1", "pool", spec=pool),
        body("ScaledObject", "keda.sh/v1alpha1", "pool", spec=spec),
    )
    return lambda: running.read("deployments", "pool")["spec"]["replicas"] == 2


def scheduled_job(running: Running) -> Callable[[], bool]:
    spec = {"schedule": "* * * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": template()}}}
    running.apply(body("ScheduledJob", "penstock.dev/v1alpha1", "ticks", spec=spec))
    return lambda: "lastSuccessfulTime" in running.read("scheduledjobs", "ticks").get("status", {})


def cron_job(running: Running) -> Callable[[], bool]:
    if not running.serves_cron_jobs():
        pytest.skip("CronJob in batch/v1 came with Kubernetes 1.21: NOT tested against this kube-apiserver")
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}}
    running.apply(body("CronJob", "batch/v1", "minutes", spec=spec))
    return lambda: "lastSuccessfulTime" in running.read("cronjobs.batch", "minutes").get("status", {})


def job(running: Running) -> Callable[[], bool]:
    running.apply(body("Job", "batch/v1", "plain", spec={"template": template()}))
    return lambda: condition(running.read("jobs.batch", "plain"), "Complete") == "True"


def volcano_job(running: Running) -> Callable[[], bool]:
    running.apply(vc_job("gang"))
    return lambda: phase(running, "jobs.batch.volcano.sh", "gang") == "Completed"


def phase(running: Running, resource: str, name: str) -> str | None:
    found: str | None = running.read(resource, name).get("status", {}).get("state", {}).get("phase")
    return found


def queue(running: Running) -> Callable[[], bool]:
    running.apply(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "own"}, "spec": {}}
    )
    return lambda: running.read("queues", "own").get("status", {}).get("state") == "Open"


def pod_group(running: Running) -> Callable[[], bool]:
    running.apply(body("PodGroup", "scheduling.volcano.sh/v1beta1", "alone", spec={"minMember": 1}))
    return lambda: running.read("podgroups", "alone").get("status", {}).get("phase") in ("Pending", "Inqueue")


def flow(running: Running) -> Callable[[], bool]:
    api = "flow.volcano.sh/v1alpha1"
    entries = [{"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}]
    running.apply(
        *(body("JobTemplate", api, name, spec=vc_spec()) for name in ("first", "second")),
        body("JobFlow", api, "both", spec={"jobRetainPolicy": "retain", "flows": entries}),
    )
    return lambda: (
        phase(running, "jobflows", "both") == "Succeed"
        and bool(running.read("jobtemplates", "first")["status"]["jobDependsOnList"])
    )


def command(running: Running) -> Callable[[], bool]:
    running.apply(vc_job("long", "exec sleep 600"))
    until(lambda: phase(running, "jobs.batch.volcano.sh", "long") == "Running", "the Job runs")
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "long", "controller": True}
    target["uid"] = running.read("jobs.batch.volcano.sh", "long")["metadata"]["uid"]
    running.apply(body("Command", "bus.volcano.sh/v1alpha1", "abort", action="AbortJob", target=target))
    return lambda: phase(running, "jobs.batch.volcano.sh", "long") == "Aborted"


def volcano_cron_job(running: Running) -> Callable[[], bool]:
    missed = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=3)
    spec = {"schedule": f"{missed.minute} * * * *", "suspend": True, "jobTemplate": {"spec": vc_spec()}}
    running.apply(body("CronJob", "batch.volcano.sh/v1alpha1", "hourly", spec=spec))
    # The last run was so long ago that one was missed.
    before = (missed - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    stored = running.read("cronjobs.batch.volcano.sh", "hourly")
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/cronjobs/hourly/status"
    stored["status"] = {"lastScheduleTime": before}
    running.kubectl("replace", "--raw", path, "-f", "-", body=stored)
    running.kubectl("patch", "cronjobs.batch.volcano.sh", "hourly", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    return lambda: running.read("cronjobs.batch.volcano.sh", "hourly")["status"]["lastScheduleTime"] > before


KINDS = (
    scaled_job,
    scaled_object,
    scheduled_job,
    cron_job,
    job,
    volcano_job,
    queue,
    pod_group,
    flow,
    command,
    volcano_cron_job,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_is_reconciled(kind: Callable[[Running], Callable[[], bool]], running: Running) -> None:
    try:
        until(kind(running), kind.__name__)
    finally:
        refused = {
            name: [line for line in log.read_text().splitlines() if "forbidden" in line.lower()]
            for name, log in running.logs.items()
        }
    assert not any(refused.values()), refused
