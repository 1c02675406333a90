"""The queue of waiting pods: membership and order."""

from deploy.local.kubelet import pod_order
from deploy.local.kubelet.pod_order import PodQueue
from tests.support.tables import cases
from tests.unit.kubelet.factories import pod
from workers.api.kinds import Object


def named(uid: str, created: str = "2024-01-01T00:00:00Z", **spec: object) -> Object:
    return pod(meta={"uid": uid, "creationTimestamp": created}, **spec)


def drain(queue: PodQueue) -> list[str]:
    taken = []
    while (one := queue.take()) is not None:
        taken.append(one["metadata"]["uid"])
    return taken


def queued(*pods: Object) -> PodQueue:
    """These pods arrived one second after the other."""
    queue = PodQueue()
    for number, one in enumerate(pods):
        queue.put(one, float(number))
    return queue


@cases(
    ("arrival decides among equals", [named("a"), named("b"), named("c")], "abc"),
    ("older first", [named("young", "2024-01-02T00:00:00Z"), named("old")], ["old", "young"]),
    ("priority before age", [named("a"), named("b", priority=5), named("c", priority=-1)], "bac"),
)
def test_order(pods: list[Object], order: str | list[str]) -> None:
    assert drain(queued(*pods)) == list(order)


def test_a_pod_that_changes_keeps_its_place_and_is_taken_in_its_newest_version() -> None:
    queue = queued(named("a"), named("b"), named("a", hostname="new"))
    taken = queue.take()
    assert taken is not None
    assert taken["spec"]["hostname"] == "new"
    assert drain(queue) == ["b"]


def test_a_pod_that_is_gone_is_not_taken() -> None:
    queue = queued(*map(named, "abc"))
    queue.discard("a")
    queue.keep({"b"})
    assert len(queue) == 1
    assert drain(queue) == ["b"]


def test_a_pod_that_left_and_came_back_is_taken_once() -> None:
    queue = queued(named("a"))
    queue.discard("a")
    queue.put(named("a"), 1.0)
    assert drain(queue) == ["a"]


def test_waiting_pods_are_overdue_once_and_some_at_a_time() -> None:
    queue = queued(*map(named, "abc"))
    told = [[one["metadata"]["uid"] for one in queue.overdue(2.5, 1.0, limit)] for limit in (1, 5, 5)]
    assert told == [["a"], ["b"], []]


@cases(
    ("unassigned", {}, True),
    ("by name", {"schedulerName": "default-scheduler"}, True),
    ("another scheduler's", {"schedulerName": "volcano"}, False),
    ("assigned here", {"schedulerName": "volcano", "nodeName": "local"}, True),
    ("assigned elsewhere", {"nodeName": "other"}, False),
    ("gated", {"schedulingGates": [{"name": "wait"}]}, False),
)
def test_which_pods_are_ours(spec: Object, ours: bool) -> None:
    assert pod_order.is_ours(pod(**spec), {"local"}) is ours


def test_a_binding_names_exactly_this_pod() -> None:
    made = pod_order.binding(named("u1"), "local")
    assert made["metadata"] == {"name": "p", "namespace": "ns", "uid": "u1"}
    assert made["target"]["name"] == "local"


def test_the_limit_is_named_with_its_setting() -> None:
    assert "this node runs 4 at once (`penstock up --pods 4`" in pod_order.limit(4)
