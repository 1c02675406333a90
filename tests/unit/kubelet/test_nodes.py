"""The nodes that the kubelet presents: their shares, the pods they take, and the node a pod goes to."""

from typing import Any

from deploy.local.kubelet.presented_nodes import GPU, NodeOptions, PresentedNodes, mismatch
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import Object, Ref

WISHED = NodeOptions(3, "64", "256Gi", 8, ("zone=a/b", "rack=1"))


def test_nodes_offer_what_was_wished_for_and_share_the_pods() -> None:
    assert WISHED.names("local") == ["local", "local-2", "local-3"]
    offered = [WISHED.capacity(index, 8) for index in range(3)]
    assert [each.pop("pods") for each in offered] == ["3", "3", "2"]
    assert offered == [{"cpu": "64", "memory": "256Gi", GPU: "8"}] * 3
    assert [WISHED.labels_of(index) for index in range(3)] == [{"zone": zone, "rack": "1"} for zone in "aba"]


def test_a_node_without_wishes_offers_the_machine() -> None:
    assert NodeOptions().capacity(0, 4).keys() == {"cpu", "memory", "pods"}


def node(name: str, spec: Object | None = None, **labels: str) -> Object:
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec or {}}


def required(key: str, *values: str) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


TAINTED = node("c", {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, disk="ssd")
CORDONED = node("d", {"unschedulable": True}, disk="ssd")


@cases(
    ("no demands", {}, [node("a")], None),
    ("the label", {"nodeSelector": {"disk": "ssd"}}, [node("a"), node("b", disk="ssd")], None),
    (
        "labels that no node has",
        {"nodeSelector": {"disk": "ssd", "os": "linux"}},
        [node("a", os="linux"), node("b", os="linux")],
        "0/2 nodes are available: 2 without the labels of spec.nodeSelector: disk=ssd",
    ),
    ("affinity that holds", {"affinity": required("disk", "ssd")}, [node("b", disk="ssd")], None),
    (
        "affinity that does not",
        {"affinity": required("disk", "hdd")},
        [node("b", disk="ssd"), CORDONED],
        "0/2 nodes are available: 1 without the labels that the required node affinity asks for; 1 cordoned",
    ),
    ("a taint", {}, [TAINTED], "0/1 nodes are available: 1 with a taint that the pod does not tolerate"),
    ("a tolerated taint", {"tolerations": [{"operator": "Exists"}]}, [TAINTED], None),
)
def test_which_nodes_may_take_a_pod(spec: Object, nodes: list[Object], reason: str | None) -> None:
    assert mismatch(pod(**spec), nodes) == reason


class Server:
    """An API server with nodes; a patch changes nothing but what `changes` holds."""

    def __init__(self, *names: str) -> None:
        self.changes: dict[str, Object] = {}
        self.nodes = {name: node(name) for name in names}

    async def patch(self, ref: Ref, body: Object, **_: Any) -> Object:
        known = self.nodes.setdefault(ref.name, {"metadata": {"name": ref.name}, "spec": {}})
        labels = {**known["metadata"].get("labels", {}), **body.get("metadata", {}).get("labels", {})}
        self.nodes[ref.name] = {**known, **body, "metadata": {"name": ref.name, "uid": ref.name, "labels": labels}}
        self.nodes[ref.name] |= self.changes.get(ref.name, {})
        return self.nodes[ref.name]

    async def list(self, _kind: Any) -> tuple[list[Object], str]:
        return list(self.nodes.values()), "1"

    async def delete(self, ref: Ref, **_: Any) -> None:
        del self.nodes[ref.name]


def asking(name: str, **requests: str) -> Object:
    amounts = {key.replace("gpu", GPU): text for key, text in requests.items()}
    meta = {"name": name, "uid": name}
    return pod(box("main", resources={"requests": amounts}), meta=meta)


@cases(
    ("the first with room", [{"cpu": "3"}, {"cpu": "2"}, {"cpu": "1"}], ["n", "n-2", "n"]),
    ("one per GPU", [{"gpu": "1"}] * 3, ["n", "n", "n-2"]),
    ("one that fits on no node goes to the one with the fewest pods", [{"cpu": "4"}, {"cpu": "9"}], ["n", "n-2"]),
    ("a share of the pods each", [{}] * 4, ["n", "n", "n-2", "n-2"]),
)
def test_where_pods_go(pods: list[dict[str, str]], placed: list[str]) -> None:
    nodes = PresentedNodes(Server(), "n", 4, NodeOptions(2, "4", "1Gi", 2))  # type: ignore[arg-type]
    found = []
    for number, requests in enumerate(pods):
        body = asking(f"p{number}", **requests)
        found.append(nodes.choose(body))
        nodes.hold(body, found[-1])
    assert found == placed
    nodes.free("p0")
    assert nodes.choose(asking("again", **pods[0])) == placed[0]


@cases(
    ("not ready, says the node controller", "node.kubernetes.io/not-ready", True),
    ("unreachable", "node.kubernetes.io/unreachable", True),
    ("somebody's own", "dedicated", False),
)
async def test_taints_of_the_node_controller_do_not_count(key: str, allowed: bool) -> None:
    server = Server()
    server.changes["n"] = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
    nodes = PresentedNodes(server, "n", 4, NodeOptions())  # type: ignore[arg-type]
    await nodes.report()
    assert (nodes.mismatch(pod()) is None) is allowed


async def test_a_change_of_a_node_is_noticed_and_nodes_of_an_earlier_run_go() -> None:
    server = Server("n", "n-2", "n-3", "other")
    for name in ("n-3", "other"):
        server.nodes[name]["status"] = {"nodeInfo": {"containerRuntimeVersion": "process://1"}}
    nodes = PresentedNodes(server, "n", 4, NodeOptions(2))  # type: ignore[arg-type]
    wanting = pod(nodeSelector={"disk": "ssd"})
    assert await nodes.report() is False
    assert sorted(server.nodes) == ["n", "n-2", "other"]
    assert ("n-3" in nodes, "other" in nodes) == (True, False)
    assert nodes.mismatch(wanting)
    server.changes["n-2"] = {"metadata": {"name": "n-2", "labels": {"disk": "ssd"}}}
    assert [await nodes.report() for _ in range(2)] == [True, False]
    assert nodes.mismatch(wanting) is None
    assert nodes.choose(wanting) == "n-2"
