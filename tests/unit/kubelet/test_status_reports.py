"""Statuses on their way: in order, the newest wins, nothing is lost while the API server is away."""

import asyncio
from typing import Any

import pytest

from deploy.local.kubelet.pods import status_reports
from deploy.local.kubelet.pods.status_reports import Reports
from tests.support.tables import cases
from workers.api.kinds import POD, Object, Ref
from workers.errors import ClusterError, Conflict, Invalid, NotFound, Unavailable

REF = Ref(POD, "ns", "p")


class Server:
    """Notes what arrives. Answers with what a test puts into `answers`, then with success; waits while `closed`."""

    def __init__(self, *answers: ClusterError, uid: str = "u") -> None:
        self.arrived: list[str] = []
        self.answers = list(answers)
        self.uid = uid
        self.open = asyncio.Event()
        self.open.set()
        self.conditions: list[Object] | None = None
        self.side_by_side = 0
        self.most = 0

    async def patch(self, ref: Ref, body: Any, *, type: str, subresource: str) -> Object:
        self.side_by_side += 1
        self.most = max(self.most, self.side_by_side)
        await self.open.wait()
        self.side_by_side -= 1
        assert (type, subresource) == ("application/strategic-merge-patch+json", "status")
        self.conditions = body["status"].get("conditions")
        assert body["metadata"]["uid"].startswith("u")
        if self.answers:
            raise self.answers.pop(0)
        self.arrived.append(body["status"]["phase"])
        return {}

    async def get(self, ref: Ref) -> Object:
        return {"metadata": {"uid": self.uid}}


def sender(server: Server, **more: int) -> Reports:
    return Reports(server, **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reports, "_FIRST", 0.001)


async def settle(one: Reports) -> None:
    await asyncio.wait_for(one.settled("u"), 30)


async def send(server: Server, **status: Any) -> None:
    """Sends one status, and waits for its end."""
    one = sender(server)
    one.put(REF, "u", {"phase": "Running", **status})
    await settle(one)


async def test_the_newest_wins_and_nothing_older_comes_after_it() -> None:
    server = Server()
    server.open.clear()
    one = sender(server)
    for phase in ("Pending", "Running", "Succeeded"):
        one.put(REF, "u", {"phase": phase})
        await asyncio.sleep(0)
    server.open.set()
    await settle(one)
    assert server.arrived == ["Pending", "Succeeded"]
    assert server.most == 1


@cases(("away", Unavailable("away")), ("conflict", Conflict("busy")))
async def test_a_refused_status_is_sent_again(failure: ClusterError) -> None:
    server = Server(failure, failure)
    await send(server)
    assert server.arrived == ["Running"]


async def test_while_it_is_sent_again_a_newer_one_takes_its_place() -> None:
    server = Server(Unavailable("away"))
    server.open.clear()
    one = sender(server)
    one.put(REF, "u", {"phase": "Running"})
    await asyncio.sleep(0)
    one.put(REF, "u", {"phase": "Failed"})
    server.open.set()
    await settle(one)
    assert server.arrived == ["Failed"]


@cases(
    ("the pod is gone", NotFound("gone"), "u"),
    ("another pod has its name", Conflict("precondition"), "other"),
    ("another pod has its name, in a real server's words", Invalid("metadata.uid"), "other"),
    ("it is not acceptable", Invalid("status.phase"), "u"),
)
async def test_a_status_that_can_never_arrive_is_given_up(failure: ClusterError, uid: str) -> None:
    server = Server(failure, uid=uid)
    await send(server)
    assert server.arrived == []


async def test_a_condition_arrives_as_a_whole() -> None:
    server = Server()
    await send(server, conditions=[{"type": "Ready", "status": "True", "reason": "R"}])
    assert server.conditions == [{"type": "Ready", "status": "True", "reason": "R", "message": None}]


async def test_a_bounded_number_is_on_its_way_at_once() -> None:
    server = Server()
    server.open.clear()
    one = sender(server, width=3)
    for number in range(10):
        one.put(REF, f"u{number}", {"phase": "Running"})
    while server.most < 3:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert server.most == 3
    await one.close()
