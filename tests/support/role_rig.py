"""Every process of Penstock on a real API server that authorizes by RBAC and keeps an audit log.

Each process has its own service account and its own token; an administrator installs the definitions and the roles,
creates the objects, and runs the pods. The worker's requests go through `bad_day`.
Rights are taken away and given back by `without_right` and `without_bindings`.
"""

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import redis
import yaml

from deploy.manifests import rbac
from deploy.manifests.roles import text
from tests.support import audit, kube
from tests.support.bad_day import bad_day
from tests.support.links import Link, relay
from tests.support.paths import ROOT
from tests.support.ports import free_ports
from tests.support.terminal import COMMAND, environment, until
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, KINDS, Kind, Object, by_manifest

#: The processes with an account that has rights.
PROCESSES = ("worker", "scaler", "gateway", "webhook", "watch")
#: Those that need none.
WITHOUT_RIGHTS = ("beat", "external-scaler")
#: The same with one process for worker, scaler, watch and beat.
STANDALONE = ("standalone", "gateway", "webhook")
SETTINGS = {"OWN_NAMESPACE": "penstock", "JOBS": "all", "POLICIES": "true", "VOLCANO": "true", "STALE": "60"}
PASSWORD = "measured"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GRANTS = rbac.Grants(secrets=("default",), pushers=("default", "penstock"), tokens=("default",))


@dataclass(frozen=True)
class Running:
    """home: of the API server. config: kubeconfig of the administrator. source: the measured server.

    logs: the output of each process. gateway: its URL. external: address of the external scaler. processes: by name,
    those that were started. links: by name, the connections to the API server that a test can cut.
    """

    home: Path
    config: Path
    source: ValkeyServer
    logs: Mapping[str, Path]
    gateway: str
    external: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)

    def kubectl(self, *words: str, body: object = None) -> Any:
        """Runs kubectl as the administrator. body: sent to its standard input. Returns its output as JSON."""
        program = kube.assets() / "kubectl"
        stdin = body if isinstance(body, str) else json.dumps(body) if body is not None else ""
        done = subprocess.run(
            [program, "--kubeconfig", self.config, *words], input=stdin, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def apply(self, *bodies: Object) -> None:
        """Creates the objects that are not there yet."""
        for body in bodies:
            kind = by_manifest(body["apiVersion"], body["kind"]) or HORIZONTAL_POD_AUTOSCALER
            assert kind.kind == body["kind"]
            known = replace(kind, version=body["apiVersion"].rpartition("/")[2])
            try:
                self.ask(known.path(body["metadata"].get("namespace", "")), body, "POST")
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.CONFLICT:
                    raise AssertionError(f"{body}: {error.read().decode()}") from error

    def ask(self, path: str, body: Object | None = None, method: str = "PATCH") -> Object:
        """Returns what the API server answers to the administrator; kubectl would cost most of the machine.

        body: a merge patch, or with POST a new object; None: read.
        """
        server, token, link = _administrator(self.config)
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(server + path, data, headers, method="GET" if body is None else method)
        with link.open(request, timeout=30) as answer:
            return dict(json.load(answer))

    def patch(self, resource: str, name: str, body: Object) -> None:
        """Merges a patch into an object of the cluster, or of the namespace `default`."""
        self.ask(_kind(resource).path("default", name), body)

    def end(self, process: str) -> None:
        """Ends a process; its watches end with it."""
        self.processes[process].terminate()
        self.processes[process].wait(90)

    def read(self, resource: str, name: str) -> Object:
        """Returns an object of the cluster, or of the namespace `default`."""
        return self.ask(_kind(resource).path("default", name))

    def serves_cron_jobs(self) -> bool:
        """Returns whether the API server knows CronJobs of batch/v1."""
        return "cronjobs" in {one["name"] for one in self.kubectl("get", "--raw", "/apis/batch/v1")["resources"]}

    def find(self, resource: str, **labels: str) -> list[Object]:
        """Returns objects of the namespace `default` by labels."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        return list(self.ask(f"{_kind(resource).path('default')}?labelSelector={quote(selector)}")["items"])

    def token(self, account: str, namespace: str = "penstock", audience: str = "") -> str:
        """Returns a new token of a service account."""
        spec = {"audiences": [audience]} if audience else {}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str(self.ask(path, request, "POST")["status"]["token"])


def direct(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Returns an opener for threads that outlive a test: urllib's own reads the environment, which pytest changes."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)


@cache
def _administrator(config: Path) -> tuple[str, str, urllib.request.OpenerDirector]:
    """Returns the API server's URL, the administrator's token, and an opener that trusts the server."""
    content = yaml.safe_load(config.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
    return cluster["server"], user["token"], direct(urllib.request.HTTPSHandler(context=trust))


def _kind(resource: str) -> Kind:
    """Returns the kind that kubectl would take this for: an id, or a plural that one of ours has first."""
    found = (*KINDS.values(), HORIZONTAL_POD_AUTOSCALER)
    return (
        next(kind for kind in found if resource == kind.id)
        if "." in resource
        else next(kind for kind in found if resource == kind.plural)
    )


@contextmanager
def role_rig(
    folder: Path,
    roles: Iterable[Object],
    *,
    settings: Mapping[str, str] = SETTINGS,
    processes: Sequence[str] = (*PROCESSES, *WITHOUT_RIGHTS, "kubelet"),
    namespaces: Sequence[str] = (),
    relayed: Collection[str] = (),
) -> Iterator[Running]:
    """Runs the processes, each with the token of its account, if it has one.

    roles: accounts, roles and bindings. kubelet: of the administrator. namespaces: that are made before the roles.
    relayed: the processes that reach the API server by a link.
    """
    home, roles = folder / "cluster", tuple(roles)
    accounts = {one["metadata"]["name"] for one in roles if one["kind"] == "ServiceAccount"}
    flags = (*audit.flags(home), "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    with ExitStack() as stack:
        plane = stack.enter_context(kube.control_plane(kube.assets(), home, flags=flags))
        broker, source = stack.enter_context(ValkeyServer()), stack.enter_context(ValkeyServer())
        with redis.Redis(port=source.port) as link:
            link.config_set("requirepass", PASSWORD)
        port, hook, external = free_ports(3)
        logs = {name: folder / f"{name}.log" for name in processes}
        gateway, listen = f"http://127.0.0.1:{port}", f"127.0.0.1:{external}"
        found = Running(home, plane.kubeconfig, source, logs, gateway, listen)
        found.kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
        places = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces]
        found.kubectl("apply", "-f", "-", body=text((*places, *roles)))
        worse = stack.enter_context(bad_day(plane.kubeconfig))
        for name in processes:
            variables = {f"PENSTOCK_{key}": value for key, value in settings.items()}
            variables["PENSTOCK_CRONJOBS"] = str(found.serves_cron_jobs()).lower()
            variables["PENSTOCK_BROKER"] = f"redis://127.0.0.1:{broker.port}/0"
            variables["PENSTOCK_GATEWAY"] = f"127.0.0.1:{port}"
            variables["PENSTOCK_EXTERNAL_LISTEN"] = listen
            variables |= {"PENSTOCK_WEBHOOK_LISTEN": f"127.0.0.1:{hook}"}
            variables |= {"PENSTOCK_WEBHOOK_URL": f"https://127.0.0.1:{hook}"}
            words = [*COMMAND, name]
            if name == "kubelet":
                words = [sys.executable, "-m", "deploy.local.kubelet", "--kubeconfig", str(found.config)]
                words += ["--logs", str(folder / "output"), "--root", str(folder / "pods"), "--max-pods", "110"]
                words += ["--isolation", "none"]
            elif f"penstock-{name}" in accounts:
                server = worse if name == "worker" else None
                if name in relayed:
                    host, _, at = urlsplit(plane.url).netloc.partition(":")
                    found.links[name] = stack.enter_context(relay()).link(host, int(at))
                    server = f"https://{host}:{found.links[name].port}"
                config = kubeconfig(found, f"penstock-{name}", folder / f"{name}.kubeconfig", server)
                variables["PENSTOCK_KUBECONFIG"] = str(config)
            ready = folder / f"{name}.ready"
            found.processes[name] = stack.enter_context(process(words, variables, found.logs[name], ready))
        for name, one in found.processes.items():
            until(lambda one=one, name=name: _started(one, folder / f"{name}.ready"), f"{name} is ready", pause=0.2)  # type: ignore[misc]
            assert one.poll() is None, found.logs[name].read_text()
        if "kubelet" not in processes:
            yield found
            return
        # What the node controller does for a ready node. No scheduler is here either: the kubelet takes every pod.
        until(lambda: found.ask("/api/v1/nodes")["items"], "the node is registered")
        found.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready-")
        yield found


def kubeconfig(running: Running, account: str, file: Path, server: str | None = None) -> Path:
    """Writes the kubeconfig of a service account of ours. server: instead of the API server's own address."""
    content = yaml.safe_load(running.config.read_text())
    content["users"][0]["user"] = {"token": running.token(account)}
    if server:
        trust = content["clusters"][0]["cluster"] if server.startswith("https:") else {}
        content["clusters"][0]["cluster"] = {**trust, "server": server}
    file.write_text(yaml.safe_dump(content))
    return file


@contextmanager
def without_right(running: Running, account: str, resource: str, *verbs: str) -> Iterator[None]:
    """Takes these verbs on a resource, of whatever API group, from an account's ClusterRole; gives them back."""
    path = f"{RBAC}/clusterroles/{account}"
    whole = running.ask(path)["rules"]
    less = []
    for rule in whole:
        others = [one for one in rule["resources"] if one != resource]
        kept = [one for one in rule["verbs"] if one not in verbs]
        less += [{**rule, "resources": others}] if others else []
        less += [{**rule, "resources": [resource], "verbs": kept}] if resource in rule["resources"] and kept else []
    assert less != whole, f"{account} has no such right"
    running.ask(path, {"rules": less})
    try:
        yield
    finally:
        running.ask(path, {"rules": whole})


@contextmanager
def without_bindings(running: Running, account: str) -> Iterator[None]:
    """Takes an account out of every binding, and puts it in again."""
    found = {}
    for plural in ("clusterrolebindings", "rolebindings"):
        for one in running.ask(f"{RBAC}/{plural}")["items"]:
            subjects = one.get("subjects") or []
            namespace = one["metadata"].get("namespace")
            place = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
            if account in (subject["name"] for subject in subjects):
                found[f"{place}/{plural}/{one['metadata']['name']}"] = subjects
    assert found, f"{account} has no rights"
    for path, subjects in found.items():
        running.ask(path, {"subjects": [subject for subject in subjects if subject["name"] != account]})
    try:
        yield
    finally:
        for path, subjects in found.items():
            running.ask(path, {"subjects": subjects})


def _started(process: subprocess.Popen[bytes], ready: Path) -> bool:
    return ready.exists() or process.poll() is not None


@contextmanager
def process(
    words: list[str], variables: Mapping[str, str], log: Path, ready: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes the file `ready` once it is; ended with the block."""
    if "--max-pods" in words:
        words += ["--ready-file", str(ready)]
    settings = environment(**variables, PENSTOCK_READY_FILE=str(ready))
    with log.open("wb") as output, subprocess.Popen(words, env=settings, stdout=output, stderr=output) as running:
        try:
            yield running
        finally:
            running.terminate()
            running.wait(90)
