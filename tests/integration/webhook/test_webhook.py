"""`penstock webhook` and a real kube-apiserver: it asks, it obeys, and it goes on trusting through every rotation."""

import asyncio
import base64
import itertools
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import yaml

from deploy.local.apiserver.patch.patches import json_patch
from deploy.processes import https
from deploy.webhook import certificate_rotation, review_lookups, serve
from deploy.webhook.certificate_keeper import Keeper
from deploy.webhook.certificates import LIFETIME
from deploy.webhook.registration import MUTATING, VALIDATING, Place, wanted
from tests.support import kube
from tests.support.conditions import eventually
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.unit.admission.bodies import CONTAINER, job, task
from workers import errors
from workers.admission.admission_options import AdmissionOptions
from workers.admission.volcano.job import defaulted
from workers.api import crds
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD, QUEUE, SECRET, Kind, Object, Ref
from workers.client.rest import Cluster

DEPLOY = ROOT / "deploy"

pytestmark = pytest.mark.real_apiserver

_numbers = itertools.count(1)
OPTIONS = AdmissionOptions(("volcano",), "plain")
BUDGET = "volcano.sh/jdb-min-available"
#: The pods of a Volcano Job are judged, and left as they are: an API server before 1.27 cannot choose pods.
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1", "controller": True}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a control plane of this module's own: what is configured here would be asked by others."""
    with kube.control_plane(kube.assets(), tmp_path_factory.mktemp("real")) as plane:
        yield plane.kubeconfig


@pytest.fixture
async def cluster(config: Path) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=config) as cluster:
        yield cluster


@pytest.fixture
async def namespace(cluster: Cluster) -> str:
    name = f"work-{next(_numbers)}"
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@dataclass
class Webhook:
    """One replica in this process, and the clock it is kept by."""

    keeper: Keeper
    place: Place
    cluster: Cluster
    now: datetime

    async def keep(self, **later: float) -> None:
        """Looks after the certificate, so much later."""
        self.now += timedelta(**later)
        await self.keeper.keep(self.now)

    async def material(self) -> certificate_rotation.Material:
        """What the replicas share."""
        found = certificate_rotation.material(
            await self.cluster.get(Ref(SECRET, self.place.namespace, "hook-certificate"))
        )
        assert found
        return found


@asynccontextmanager
async def replica(cluster: Cluster, namespace: str) -> AsyncIterator[Webhook]:
    """A replica that answers on a port of its own."""
    listener = https.listen("127.0.0.1:0", "--webhook-listen")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    place = Place(namespace, "hook", f"https://127.0.0.1:{listener.getsockname()[1]}", match_conditions=False)
    async with serve.served(cluster, OPTIONS, context, listener):
        # What is made later in a test must be good by the API server's clock: the test's own is behind.
        begin = datetime.now(UTC) - LIFETIME * 3 / 4 - timedelta(hours=2)
        yield Webhook(Keeper(cluster, place, OPTIONS, context), place, cluster, begin)
    for ref in wanted(place, OPTIONS, ""):
        await cluster.delete(ref)


@pytest.fixture
async def webhook(cluster: Cluster) -> AsyncIterator[Webhook]:
    own = f"penstock-{next(_numbers)}"
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}})
    async with replica(cluster, own) as found:
        await found.keep()
        yield found


def pod(namespace: str, scheduler: str = "volcano", **annotations: str) -> Object:
    metadata = {"generateName": "pod-", "namespace": namespace, "annotations": annotations, "ownerReferences": [OWNER]}
    spec = {"containers": [CONTAINER], "schedulerName": scheduler}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def refused(cluster: Cluster, namespace: str) -> bool:
    """Whether a pod is refused that the webhook refuses. Without an answer the API server lets it through."""
    return await _refusal(cluster, pod(namespace, **{BUDGET: "0"})) is not None


async def _refusal(cluster: Cluster, body: Object) -> errors.Invalid | None:
    try:
        await cluster.create(POD, body)
    except errors.Invalid as error:
        return error
    return None


async def test_pods_are_judged(cluster: Cluster, namespace: str, webhook: Webhook) -> None:
    await eventually(lambda: refused(cluster, namespace))
    found = await _refusal(cluster, pod(namespace, **{BUDGET: "0"}))
    assert found
    assert found.status == 422
    assert "denied the request" in str(found)
    assert found.body
    assert [each["field"] for each in found.body["details"]["causes"]] == [f"metadata.annotations[{BUDGET}]"]
    assert await _refusal(cluster, pod(namespace, **{BUDGET: "50%"})) is None
    assert await _refusal(cluster, pod(namespace, "mine", **{BUDGET: "0"})) is None


async def test_nobody_waits_for_the_webhook_in_its_own_namespace(cluster: Cluster, webhook: Webhook) -> None:
    """It must be able to start."""
    own = webhook.place.namespace
    # Since 1.21 the API server puts this label on itself.
    await cluster.patch(Ref(NAMESPACE, "", own), {"metadata": {"labels": {"kubernetes.io/metadata.name": own}}})

    async def free() -> bool:
        return not await refused(cluster, own)

    await eventually(lambda: refused(cluster, "default"))
    await eventually(free)


async def test_the_certificate_is_replaced_and_not_one_request_goes_without_an_answer(
    cluster: Cluster, namespace: str, webhook: Webhook
) -> None:
    await eventually(lambda: refused(cluster, namespace))
    first = await webhook.material()
    answers: list[bool] = []
    asking = asyncio.create_task(_always(lambda: refused(cluster, namespace), answers))

    async def asked() -> None:
        """Waits until the API server has asked some times more."""
        before = len(answers)
        await eventually(lambda: len(answers) >= before + 5 or asking.done())

    await webhook.keep(seconds=LIFETIME.total_seconds() / 2)
    assert await webhook.material() == first
    await webhook.keep(seconds=LIFETIME.total_seconds() / 4)
    introduced = await webhook.material()
    assert introduced.certificate == first.certificate
    assert introduced.authorities[0] == first.bundle
    assert len(introduced.authorities) == 2
    await asked()
    await webhook.keep(minutes=1)
    assert await webhook.material() == introduced
    await webhook.keep(seconds=certificate_rotation.INTRODUCTION.total_seconds())
    shown = await webhook.material()
    assert shown.certificate == introduced.successor != first.certificate
    assert shown.authorities == introduced.authorities
    await asked()
    await webhook.keep(seconds=certificate_rotation.RETIREMENT.total_seconds())
    settled = await webhook.material()
    assert settled.authorities == introduced.authorities[1:]
    await asked()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    for kind in (VALIDATING, MUTATING):
        name = f"penstock-{webhook.place.namespace}-hook"
        found = await cluster.get(Ref(kind, "", name))
        bundles = {each["clientConfig"]["caBundle"] for each in found["webhooks"]}
        assert bundles == {certificate_rotation.secret("", "", settled)["data"]["ca.crt"]}


async def _always(condition: Callable[[], Awaitable[bool]], answers: list[bool]) -> None:
    """Asks again and again; ends with an error as soon as it does not hold."""
    while True:
        answers.append(await condition())
        assert answers[-1], "a request went without the webhook's answer"


async def test_replicas_share_one_certificate_whoever_is_first(cluster: Cluster, webhook: Webhook) -> None:
    own = f"penstock-{next(_numbers)}"
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}})
    place = Place(own, "hook", "https://127.0.0.1:1", match_conditions=False)
    replicas = [Keeper(cluster, place, OPTIONS, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) for _ in range(5)]
    answers = await asyncio.gather(*(each.keep(webhook.now) for each in replicas), return_exceptions=True)
    # Whoever meets another at the configurations looks again.
    assert all(answer is None or isinstance(answer, errors.ClusterError) for answer in answers)
    for each in replicas:
        await each.keep(webhook.now)
    assert len({each.shown for each in replicas}) == 1
    for ref in wanted(place, OPTIONS, ""):
        await cluster.delete(ref)


async def test_what_somebody_deletes_or_spoils_is_made_again(cluster: Cluster, webhook: Webhook) -> None:
    place = webhook.place
    (mutating, validating) = wanted(place, OPTIONS, "")
    await cluster.delete(validating)
    spoilt = await cluster.get(mutating)
    spoilt["webhooks"][0]["clientConfig"]["caBundle"] = ""
    await cluster.replace(mutating, {**spoilt, "webhooks": spoilt["webhooks"][:1]})
    before = await webhook.material()
    await webhook.keep(seconds=30)
    assert await webhook.material() == before
    for ref in (mutating, validating):
        assert (await cluster.get(ref))["webhooks"][0]["clientConfig"]["caBundle"]
    secret = Ref(SECRET, place.namespace, "hook-certificate")
    await cluster.patch(secret, {"data": {"ca.crt": "bm8="}})
    await webhook.keep(seconds=30)
    assert (await webhook.material()).certificate != before.certificate


async def test_kinds_of_volcano_are_judged_by_what_the_cluster_has(
    cluster: Cluster, namespace: str, webhook: Webhook
) -> None:
    """Asked as the API server asks."""
    for crd in crds.all_crds():
        if crd["metadata"]["name"] in ("queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"):
            await cluster.create(CUSTOM_RESOURCE_DEFINITION, crd)
    await eventually(lambda: _served(cluster))
    bundle = (await webhook.material()).bundle
    trusting = ssl.create_default_context(cadata=bundle)
    body = job(task(minAvailable=2, template={"spec": {"containers": [{"name": "main"}]}}))
    body["metadata"]["namespace"] = namespace
    question = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1-2-3",
            "operation": "CREATE",
            "resource": {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
            "object": body,
            "oldObject": None,
        },
    }
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{webhook.place.url}/validate", json=question, ssl=trusting) as response:
            answer = (await response.json())["response"]
        assert (answer["uid"], answer["allowed"], answer["status"]["code"]) == ("1-2-3", False, 422)
        assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == [
            "spec.tasks[0].minAvailable",
            "spec.queue",
            "spec.tasks[0].template.spec.containers[0].image",
        ]
        question["request"] |= {"operation": "CREATE", "object": job(task("", 3))}
        async with session.post(f"{webhook.place.url}/mutate", json=question, ssl=trusting) as response:
            answer = (await response.json())["response"]
        assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")
        changed = json_patch(job(task("", 3)), json.loads(base64.b64decode(answer["patch"])))
        assert changed == defaulted(job(task("", 3)))
        for nonsense in (b"", b"{}", b'{"kind": "Pod"}', b"[" * 100_000):
            async with session.post(f"{webhook.place.url}/mutate", data=nonsense, ssl=trusting) as response:
                assert response.status == 400
        async with session.get(f"{webhook.place.url}/healthz", ssl=trusting) as response:
            assert response.status == 200


async def _served(cluster: Cluster) -> bool:
    try:
        await cluster.list(QUEUE)
    except errors.NotFound:
        return False
    return True


async def test_its_rights_are_enough(cluster: Cluster, config: Path, tmp_path: Path) -> None:
    for file in ("rbac", "volcano"):
        for body in yaml.safe_load_all((DEPLOY / f"{file}.yaml").read_text()):
            kind = Kind(body["apiVersion"].rpartition("/")[0], "v1", body["kind"], f"{body['kind'].lower()}s")
            with suppress(errors.AlreadyExists):
                await cluster.request("POST", kind.path(body["metadata"].get("namespace", "")), body=body)
    account = "/api/v1/namespaces/penstock/serviceaccounts/penstock-webhook/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await cluster.request("POST", account, body=asked))["status"]["token"]
    own = yaml.safe_load(config.read_text())
    own["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(own))
    place = Place("penstock", "hook", "https://127.0.0.1:1", match_conditions=False)
    async with await Cluster.connect(kubeconfig=kubeconfig) as ours:
        keeper = Keeper(ours, place, OPTIONS, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        for days in (0, 61, 62, 63):
            await keeper.keep(datetime.now(UTC) + timedelta(days=days))
        namespace = Ref(NAMESPACE, "", "penstock")
        found = await review_lookups.known(ours, (namespace,))
        assert found.get(namespace)
        [wrong], _ = await review_lookups.templates(ours, "default", [("here", {"spec": {"containers": []}})])
        assert wrong.field == "here.spec.containers"
        with pytest.raises(errors.Forbidden):
            await ours.list(SECRET)
    for ref in wanted(place, OPTIONS, ""):
        await cluster.delete(ref)


async def test_the_command_serves_until_it_is_told_to_stop(
    cluster: Cluster, namespace: str, config: Path, tmp_path: Path
) -> None:
    port = free_port()
    ready = tmp_path / "ready"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deploy.cli.main", "webhook", "--kubeconfig", str(config)),
        *("--webhook-listen", f"127.0.0.1:{port}", "--webhook-url", f"https://127.0.0.1:{port}"),
        *("--own-namespace", namespace, "--pod-scheduler", "plain"),
        env={**os.environ, "PENSTOCK_READY_FILE": str(ready)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        await eventually(lambda: ready.exists() or process.returncode is not None, within=60)
        assert process.returncode is None
        await eventually(lambda: refused(cluster, "default"))
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        place = Place(namespace, "penstock-webhook")
        for ref in wanted(place, OPTIONS, ""):
            await cluster.delete(ref)
    assert process.returncode == 0, output.decode()
    assert all(json.loads(line)["level"] == "INFO" for line in output.decode().splitlines())
