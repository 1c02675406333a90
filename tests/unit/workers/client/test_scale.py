"""Reading workloads through their scale subresource: what is found, what is missing, what is not known."""

import asyncio

from tests.support.tables import cases
from workers.api.kinds import POD, POD_METRICS, Kind, Ref
from workers.client.scale_client import AUTOSCALERS, FORGOTTEN, Scales
from workers.decision.controller import ScaleTarget
from workers.decision.snapshot import Scalable
from workers.errors import Forbidden, NotFound, Unavailable

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
POOL = Ref(DEPLOYMENT, "team", "pool")
TARGET = ScaleTarget("apps/v1", "Deployment", "pool")

APPS = {
    "resources": [
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
        {"name": "daemonsets", "kind": "DaemonSet", "namespaced": True},
    ]
}
CORE = {
    "resources": [
        {"name": "replicationcontrollers", "kind": "ReplicationController", "namespaced": True},
        {"name": "replicationcontrollers/scale", "kind": "Scale", "namespaced": True},
    ]
}


def scale(replicas, selector=None):
    status = {"replicas": 1, "selector": selector} if selector else {"replicas": 1}
    return {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": replicas}, "status": status}


def pod(*, ready="True", phase="Running", **metadata):
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}


class Server:
    """Answers by path, or raises; remembers what it was asked."""

    def __init__(self, answers, pods=(), metrics=()):
        self.answers = {"/apis/apps/v1": APPS, "/api/v1": CORE, **answers}
        self.pods = list(pods)
        self.metrics = metrics
        self.autoscalers = NotFound("404", status=404)
        self.asked = []

    async def request(self, method, path):
        assert method == "GET"
        self.asked.append(path)
        answer = self.answers.get(path, NotFound(f"{path}: 404", status=404))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def list(self, kind, namespace, *, label_selector=""):
        self.asked.append(f"{kind.id} {namespace} {label_selector}")
        answer = {POD: self.pods, POD_METRICS: self.metrics}.get(kind, self.autoscalers)
        if isinstance(answer, Exception):
            raise answer
        return answer, "9"


POOL_SCALE = "/apis/apps/v1/namespaces/team/deployments/pool/scale"


@cases(
    ("there", scale(4), Scalable(POOL, 4, None, "7")),
    ("zero is left out", {"metadata": {"resourceVersion": "7"}}, Scalable(POOL, 0, None, "7")),
)
async def test_replicas(answer, found):
    assert await Scales(Server({POOL_SCALE: answer})).read("team", TARGET) == found


@cases(
    ("no such object", {}, TARGET, "Deployment team/pool does not exist", True),
    ("no group", {}, ScaleTarget("apps/v2", "Deployment", "pool"), "knows no Deployment of apps/v2", True),
    ("no such kind", {}, ScaleTarget("apps/v1", "Crane", "pool"), "knows no Crane", True),
    ("not scalable", {}, ScaleTarget("apps/v1", "DaemonSet", "pool"), "cannot be scaled", True),
    ("not allowed", {POOL_SCALE: Forbidden("no", status=403)}, TARGET, "no", False),
    ("away", {POOL_SCALE: Unavailable("away")}, TARGET, "away", False),
    ("discovery is away", {"/apis/apps/v1": Unavailable("away")}, TARGET, "away", False),
    ("too slow", {POOL_SCALE: TimeoutError()}, TARGET, "too long", False),
    ("not JSON", {"/apis/apps/v1": "<html>"}, TARGET, "Deployment team/pool: an answer cannot be read", False),
    ("half of JSON", {POOL_SCALE: ValueError("unexpected end")}, TARGET, "unexpected end", False),
    ("without metadata", {POOL_SCALE: {"spec": {"replicas": 1}}}, TARGET, "KeyError", False),
)
async def test_what_cannot_be_read_is_not_zero(answers, target, error, missing):
    found = await Scales(Server(answers)).read("team", target)
    assert error in found.error
    assert found.missing == missing


async def test_one_that_hangs_is_given_up():
    server = Server({})

    async def hang(method, path):
        await asyncio.sleep(3600)

    server.request = hang
    assert (await Scales(server, patience=0.01).read("team", TARGET)).error == "the API server took too long"


async def test_the_core_group_is_read_too():
    server = Server({"/api/v1/namespaces/team/replicationcontrollers/pool/scale": scale(2)})
    assert (await Scales(server).read("team", ScaleTarget("v1", "ReplicationController", "pool"))).replicas == 2


async def test_ready_pods_are_counted_as_an_autoscaler_counts_them():
    pods = [pod(), pod(ready="False"), pod(phase="Pending"), pod(deletionTimestamp="now"), pod()]
    server = Server({POOL_SCALE: scale(5, "app=pool")}, pods)
    found = await Scales(server).read("team", ScaleTarget("apps/v1", "Deployment", "pool", ready=True))
    assert found.ready == 2
    assert "pods team app=pool" in server.asked


CONSUMING = ScaleTarget("apps/v1", "Deployment", "pool", usage=True)


async def test_what_the_pods_consume_is_read_by_their_selector():
    metrics = [{"metadata": {"name": "a"}, "containers": []}]
    server = Server({POOL_SCALE: scale(5, "app=pool")}, [pod(name="a"), pod(name="b")], metrics)
    found = await Scales(server).read("team", CONSUMING)
    assert [each["metadata"]["name"] for each in found.pods] == ["a", "b"]
    assert found.usage == {"a": metrics[0]}
    assert {"pods team app=pool", "pods.metrics.k8s.io team app=pool"} <= set(server.asked)
    assert found.ready is None


@cases(
    ("no such API", "app=pool", NotFound("404", status=404), "no resource metrics API"),
    ("away", "app=pool", Unavailable("503"), "the resource metrics API: 503"),
    ("not allowed", "app=pool", Forbidden("no", status=403), "the resource metrics API: no"),
    ("no selector", None, [], "no selector"),
    ("metrics of no pod", "app=pool", [{"containers": []}], "the resource metrics API: an answer cannot be read"),
)
async def test_without_metrics_the_replicas_are_known_all_the_same(selector, answer, error):
    found = await Scales(Server({POOL_SCALE: scale(5, selector)}, [], answer)).read("team", CONSUMING)
    assert (found.replicas, found.error, found.usage) == (5, None, None)
    assert error in found.usage_error


async def test_without_a_selector_no_pod_is_ready():
    server = Server({POOL_SCALE: scale(5)}, [pod()])
    assert (await Scales(server).read("team", ScaleTarget("apps/v1", "Deployment", "pool", ready=True))).ready == 0


async def test_which_resource_a_kind_is_is_remembered_for_a_while():
    server, now = Server({POOL_SCALE: scale(1)}), [0.0]
    scales = Scales(server, seconds=60, clock=lambda: now[0])
    for _ in range(3):
        await scales.read("team", TARGET)
    assert server.asked.count("/apis/apps/v1") == 1
    now[0] = 60.0
    await scales.read("team", TARGET)
    assert server.asked.count("/apis/apps/v1") == 2


async def test_a_kind_that_comes_later_is_found():
    server = Server({"/apis/example.com/v1/namespaces/team/cranes/c/scale": scale(3)})
    scales, target = Scales(server), ScaleTarget("example.com/v1", "Crane", "c")
    assert (await scales.read("team", target)).missing
    resources = [{"name": name, "kind": "Crane", "namespaced": True} for name in ("cranes", "cranes/scale")]
    server.answers["/apis/example.com/v1"] = {"resources": resources}
    assert (await scales.read("team", target)).replicas == 3


def autoscaler(name, target="pool", kind="Deployment", api_version="apps/v1"):
    reference = {"apiVersion": api_version, "kind": kind, "name": target}
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": reference}}


async def test_autoscalers_of_the_same_target_are_seen():
    server = Server({POOL_SCALE: scale(1)})
    server.autoscalers = [
        autoscaler("same"),
        autoscaler("older API", api_version="apps/v1beta2"),
        autoscaler("another", target="other"),
        autoscaler("another kind", kind="StatefulSet"),
        autoscaler("another group", api_version="example.com/v1"),
        {"metadata": {"name": "malformed"}},
    ]
    found = await Scales(server).read("team", TARGET)
    assert [each["metadata"]["name"] for each in found.autoscalers] == ["same", "older API"]


async def test_a_namespaces_autoscalers_are_remembered_for_a_while():
    server, now = Server({POOL_SCALE: scale(1)}), [0.0]
    server.autoscalers = [autoscaler("same")]
    scales = Scales(server, clock=lambda: now[0])
    for moment, expected in ((0.0, ["same"]), (14.9, ["same"]), (15.0, [])):
        now[0] = moment
        found = await scales.read("team", TARGET)
        assert [each["metadata"]["name"] for each in found.autoscalers] == expected
        server.autoscalers = []


async def test_namespaces_that_were_not_asked_about_for_long_are_forgotten():
    server, now = Server({POOL_SCALE: scale(1)}), [0.0]
    scales = Scales(server, clock=lambda: now[0])
    for namespace in ("team", "other"):
        await scales.read(namespace, TARGET)
    now[0] = FORGOTTEN + 1
    await scales.read("team", TARGET)
    assert list(scales._listed) == ["team"]


@cases(
    ("no such API", NotFound("404", status=404), None),
    ("not allowed", Forbidden("403", status=403), None),
    ("away", Unavailable("away"), "away"),
)
async def test_autoscalers_that_cannot_be_seen(answer, error):
    """Clusters need not have them nor let them be seen; but what is unknown for a moment is not none."""
    server = Server({POOL_SCALE: scale(1)})
    server.autoscalers = answer
    found = await Scales(server).read("team", TARGET)
    assert (found.error, found.autoscalers) == (error, ())


async def test_autoscalers_that_were_seen_count_as_there_once_they_may_not_be_listed_and_the_right_is_told(caplog):
    server, now = Server({POOL_SCALE: scale(1)}), [0.0]
    scales = Scales(server, clock=lambda: now[0])

    async def seen():
        now[0] += AUTOSCALERS
        return len((await scales.read("team", TARGET)).autoscalers)

    server.autoscalers = [autoscaler("rival")]
    assert await seen() == 1
    server.autoscalers = Forbidden("its Role must allow: list horizontalpodautoscalers", status=403)
    assert [await seen(), await seen()] == [1, 1]
    [record] = caplog.records
    assert record.error == "its Role must allow: list horizontalpodautoscalers"
    server.autoscalers = []
    assert await seen() == 0
