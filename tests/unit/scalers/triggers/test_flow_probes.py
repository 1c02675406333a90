"""Probes of flows: which are asked, of which pods, and what their answers say."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from scalers.triggers import flow_probes
from scalers.triggers.flow_probes import PodProbe
from tests.support.servers import LOOPBACK, behaving
from tests.support.tables import cases, for_each
from workers.api.kinds import POD, VC_JOB, Kind, Object, Ref
from workers.api.volcano.jobflow import Header, HttpGet, TcpSocket
from workers.decision.snapshot import CachedObject


class Mirror:
    """Children by kind and owner."""

    def __init__(self, **children: Sequence[tuple[Kind, Object]]) -> None:
        self.children = children

    async def children_many(self, owners: Sequence[tuple[Kind, str]]) -> list[tuple[CachedObject, ...]]:
        return [
            tuple(
                CachedObject(Ref(kind, "default", body["metadata"]["name"]), body, 0)
                for kind, body in self.children.get(uid, ())
                if kind == wanted
            )
            for wanted, uid in owners
        ]


def flow(probe: Object, **status: Any) -> Object:
    entries = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]
    return {"metadata": {"name": "f", "namespace": "default", "uid": "f"}, "spec": {"flows": entries}, "status": status}


def pod(name: str, address: str = LOOPBACK, phase: str = "Running", task: str = "server") -> tuple[Kind, Object]:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {"volcano.sh/task-spec": task}}
    return POD, {"metadata": metadata, "status": {"phase": phase, "podIP": address}}


def job(**task: Any) -> tuple[Kind, Object]:
    tasks = [{"name": "server", "replicas": 2, **task}, {"name": "other", "replicas": 1}]
    return VC_JOB, {"metadata": {"name": "f-a", "namespace": "default", "uid": "j"}, "spec": {"tasks": tasks}}


def items(body: Object) -> Object:
    """The flow, with one Job for each item of its second entry."""
    first, second = body["spec"]["flows"]
    return {**body, "spec": {"flows": [first, {**second, "forEach": {"count": 2}}]}}


def deleted(body: Object) -> Object:
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}}


TCP = {"tcpSocketList": [{"taskName": "server", "port": 80}]}
BOTH = {**TCP, "httpGetList": [{"taskName": "other", "port": 8080, "path": "/ready"}]}


@cases(
    ("nothing has begun", flow(TCP), True),
    ("the target runs", flow(TCP, entries={"a": {"phase": "Running"}}), True),
    ("the entry has begun", flow(TCP, entries={"b": {"phase": "Pending"}}), False),
    ("an item of the entry has begun", items(flow(TCP, entries={"b-0": {"phase": "Running"}})), False),
    ("another entry has begun", items(flow(TCP, entries={"b": {"phase": "Running"}})), True),
    ("it is being deleted", deleted(flow(TCP)), False),
    ("the flow is over", flow(TCP, state={"phase": "Failed"}), False),
    ("nothing is asked", flow({}), False),
    ("it runs nothing itself", {**flow(TCP), "spec": {**flow(TCP)["spec"], "schedule": "@hourly"}}, False),
)
def test_pods_are_asked_while_an_entry_waits_for_them(body: Object, asked: bool) -> None:
    assert flow_probes.is_probed(body) == asked


@cases(
    ("no Job yet", TCP, {}, {}),
    ("no pods yet", TCP, {"f": [job()]}, {"tcp://f-a/server:80": ((), 2)}),
    (
        "running pods of the task",
        TCP,
        {
            "f": [job()],
            "j": [
                *(pod("p"), pod("q", "127.0.0.2"), pod("r", phase="Pending"), pod("s", task="other")),
                (POD, deleted(pod("t", "127.0.0.3")[1])),
            ],
        },
        {"tcp://f-a/server:80": ((LOOPBACK, "127.0.0.2"), 2)},
    ),
    ("the gang is enough", TCP, {"f": [job(minAvailable=1)]}, {"tcp://f-a/server:80": ((), 1)}),
    ("several", BOTH, {"f": [job()]}, {"tcp://f-a/server:80": ((), 2), "http://f-a/other:8080/ready": ((), 1)}),
)
async def test_what_is_asked_of_whom(probe: Object, children: Any, expected: Any) -> None:
    parsed = await flow_probes.parse(flow(probe), Mirror(**children))  # type: ignore[arg-type]
    assert parsed.problem is None
    scalers = {each.name: each.scaler for each in parsed.probes}
    assert {name: (each.addresses, each.wanted) for name, each in scalers.items()} == expected  # type: ignore[attr-defined]
    types = {"tcp": "tcpSocket", "http": "httpGet"}
    assert {each.name: each.type for each in parsed.probes} == {
        name: types[name.partition(":")[0]] for name in expected
    }


async def test_a_flow_that_cannot_be_read_is_a_problem() -> None:
    parsed = await flow_probes.parse({**flow(TCP), "spec": {"flows": 5}}, Mirror())  # type: ignore[arg-type]
    assert (parsed.probes, parsed.problem) == ((), "JobFlow default/f: spec.flows: must be a list")


def server(answer: bytes = b"") -> AbstractAsyncContextManager[int]:
    """A server that closes every connection, or answers a request on it with this first."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

    return behaving(serve)


def http(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@cases(
    ("success", http("200 OK"), True),
    ("elsewhere, which is not followed", http("302 Found\r\nLocation: http://127.0.0.1:1/"), True),
    ("not yet", http("503 Busy"), False),
    ("no HTTP", b"nonsense\r\n\r\n", False),
)
async def test_http(answer: bytes, ready: bool) -> None:
    async with server(answer) as port:
        asked = HttpGet(task_name="server", port=port, path="/ready")
        measure = await PodProbe(asked=asked, addresses=(LOOPBACK,), wanted=1).measure()
    assert (measure.active, measure.value) == (ready, float(ready))


async def test_a_request_has_the_header_and_path_that_are_asked_for() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(http("200 OK"))
        await writer.drain()

    async with behaving(serve) as port:
        header = Header(name="X-Probe", value="yes")
        probe = HttpGet(task_name="server", port=port, path="/ready?a=1", http_header=header)
        assert (await PodProbe(asked=probe, addresses=(LOOPBACK,), wanted=1).measure()).active
    [request] = asked
    assert request.startswith(b"GET /ready?a=1 HTTP/1.1\r\n")
    assert b"\r\nX-Probe: yes\r\n" in request


@for_each(((), 1, False), ((LOOPBACK,), 1, True), ((LOOPBACK,), 2, False))
async def test_so_many_pods_must_listen_as_the_gang_has(addresses: tuple[str, ...], wanted: int, ready: bool) -> None:
    async with server() as port:
        measure = await PodProbe(
            asked=TcpSocket(task_name="s", port=port), addresses=addresses, wanted=wanted
        ).measure()
    assert measure.active is ready


async def test_who_does_not_listen_is_not_ready_and_is_asked_again_soon() -> None:
    async with server() as port:
        pass
    measure = await PodProbe(asked=TcpSocket(task_name="s", port=port), addresses=(LOOPBACK,), wanted=1).measure()
    assert measure.active is False
    assert measure.again == flow_probes.AGAIN
