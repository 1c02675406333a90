"""Pushes over HTTP: from a socket to the broker, and what senders are told."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from scalers.gateway import body_reader
from scalers.gateway.destinations import Destinations
from scalers.triggers.parse import Triggers
from scheduler.queue import Lane
from tests.support.conditions import eventually
from tests.support.gateway_rig import KEYS, GatewayRig
from tests.support.redis_calls import rounds_of
from tests.support.tables import cases, for_each
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Ref
from workers.cache.store import ObjectVersion

BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "placed"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "placed"}
STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
TOKEN = "a-token-of-some-length"
AUTH = {"push": {"auth": [{"bearer": {"name": "senders", "key": "token"}}]}}


async def raw(rig: GatewayRig, *pieces: bytes) -> bytes:
    """Sends these bytes on a connection of their own; returns everything that comes back."""
    port = int(rig.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_every_mode_reaches_the_channel(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    status, answer, headers = await rig.push("team/orders", headers=BINARY, data=b"text")
    [first] = await rig.accepted("orders")
    assert (status, answer["id"], answer["source"], answer["duplicate"]) == (202, "1", "/shop", False)
    assert headers["Location"] == "/events/team/orders/1?source=%2Fshop"
    assert first["data"] == "text"
    assert (await rig.push("team/orders", headers=STRUCTURED, data=json.dumps({**EVENT, "id": "2"})))[0] == 202
    batch = [{**EVENT, "id": "2"}, {**EVENT, "id": "3", "data": {"a": 1}}]
    status, answer, _ = await rig.push("team/orders", headers=BATCH, data=json.dumps(batch))
    assert [(one["id"], one["duplicate"], one["entry"] is None) for one in answer] == [
        ("2", True, True),
        ("3", False, False),
    ]
    status, answer, headers = await rig.push("team/orders", json={"a": 1}, headers={"Idempotency-Key": '"k 1"'})
    assert (answer["id"], answer["source"], headers["Location"]) == (
        "k 1",
        "/events/team/orders",
        "/events/team/orders/k%201",
    )
    assert [event["id"] for event in await rig.accepted("orders")] == ["1", "2", "3", "k 1"]
    assert (await rig.accepted("orders"))[3]["type"] == "dev.penstock.push"


@for_each("", " ", '""')
async def test_a_delivery_with_an_empty_name_has_none(name: str, rig: GatewayRig) -> None:
    await rig.event_job("orders")
    answers = [(await rig.push("team/orders", headers={"Idempotency-Key": name}))[1] for _ in range(2)]
    assert [answer["duplicate"] for answer in answers] == [False, False]


@cases(("UTF-8", "ü/☃".encode(), "ü/☃"), ("Latin-1", b"\xfc", "ü"))
async def test_a_delivery_has_the_name_that_its_sender_gave_it(sent: bytes, id: str, rig: GatewayRig) -> None:
    await rig.event_job("orders")
    head = b"POST /events/team/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nIdempotency-Key: %s\r\n" % sent
    assert b"HTTP/1.1 202" in await raw(rig, head + b"Connection: close\r\n\r\n")
    assert [event["id"] for event in await rig.accepted("orders")] == [id]
    assert (await rig.ask("GET", f"/events/team/orders/{quote(id, safe='')}"))[0] == 200


async def test_all_event_jobs_of_the_channel_are_marked_and_notified(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    await rig.event_job("audit", channel="orders")
    await rig.event_job("orders", "other")
    await rig.push("team/orders", headers=BINARY)
    claimed = await Lane(rig.client, "poll", KEYS).claim(10)
    assert {lease.key for lease in claimed.leases} == {
        f"{EVENT_JOB.id}/team/orders",
        f"{EVENT_JOB.id}/team/audit",
    }
    await eventually(lambda: rig.notified == [{"poll": 1}])


@for_each(True, False)
async def test_a_scaled_jobs_trigger_takes_pushes_on_our_own_broker_and_on_another(own: bool, rig: GatewayRig) -> None:
    with ValkeyServer(config={"save": ""}) as other:
        address = other.connection_url.removeprefix("redis://")
        elsewhere = {} if own else {"address": address, "stream": "work"}
        await rig.scaled_job("orders", maxEvents="2", **elsewhere)
        assert (await rig.push("team/orders", headers=BINARY))[0] == 202
        assert (await rig.push("team/orders", headers=BINARY))[1]["duplicate"] is True
        assert (await rig.push("team/orders", data=b"x", headers={"content-type": "a/b"}))[0] == 202
        assert (await rig.push("team/orders"))[0] == 429
        assert len(await rig.accepted("orders")) == (2 if own else 0)
        leases = (await Lane(rig.client, "poll", KEYS).claim(10)).leases
        assert [lease.key for lease in leases] == ["scaledjobs.keda.sh/team/orders"] * own
        status, answer, _ = await rig.ask("GET", "/events/team/orders/1?source=/shop")
        assert (status, answer["deliveries"]) == (200, [])
        assert answer["accepted"] is not None


@for_each(True, False)
async def test_a_scaled_job_keeps_pushes_from_an_event_job_of_its_name_on_our_own_broker_alone(
    own: bool, rig: GatewayRig
) -> None:
    await rig.event_job("orders")
    # The trigger's stream has the channel's name on either server.
    await rig.scaled_job("orders", **({} if own else {"address": "127.0.0.1:1"}))
    assert (await rig.push("team/orders", headers=BINARY))[0] == 202
    leases = (await Lane(rig.client, "poll", KEYS).claim(10)).leases
    assert [lease.key for lease in leases] == [f"{(SCALED_JOB if own else EVENT_JOB).id}/team/orders"]


async def test_a_change_of_the_object_counts_within_a_second(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    assert (await rig.push("team/orders"))[0] == 202
    await rig.event_job("orders", push={})

    async def refused() -> bool:
        return (await rig.push("team/orders"))[0] == 401

    await eventually(refused, 5)


async def test_what_takes_no_pushes_is_told_apart_by_no_one(rig: GatewayRig) -> None:
    rig.secrets["team/senders"] = {"token": TOKEN}
    await rig.event_job("orders", **AUTH)
    await rig.event_job("elsewhere", channel="orders")
    await rig.event_job("broken", push={"auth": 1})
    await rig.event_job("closed", push={})
    answers = []
    for path in ("team/orders", "team/unknown", "other/orders", "team/elsewhere", "team/broken", "team/closed", "X/Y_"):
        for headers in ({}, {"Authorization": "Bearer wrong-token-of-some-length"}):
            status, answer, found = await rig.push(path, json={}, headers=headers)
            kept = {name: found[name] for name in found if name != "Date"}
            answers.append((status, answer, kept, await rig.ask("OPTIONS", f"/events/{path}")))
    assert answers[0][0] == 401
    assert all(each[:3] == answers[0][:3] for each in answers)
    assert len({str(each[3][:2]) for each in answers}) == 1
    assert (await rig.push("team/orders", json={}, headers={"Authorization": f"Bearer {TOKEN}"}))[0] == 202
    assert await rig.accepted("orders") != []


async def test_an_event_that_cannot_be_waited_for_is_refused(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    await rig.scaled_job("work")
    for text, reason in (("3026-01-01T00:00:00Z", "is more than 366 days after"), ("soon", "is no RFC 3339 instant")):
        status, answer, _ = await rig.push("team/orders", headers={**BINARY, "ce-notbefore": text})
        assert (status, answer["detail"].startswith("notbefore: "), reason in answer["detail"]) == (400, True, True)
        batch = json.dumps([EVENT, {**EVENT, "id": "2", "notbefore": text}])
        status, answer, _ = await rig.push("team/orders", headers=BATCH, data=batch)
        assert (status, answer["index"], "event 1: notbefore: " in answer["detail"]) == (400, 1, True)
        # To a ScaledJob the attribute means nothing.
        assert (await rig.push("team/work", headers={**BINARY, "ce-notbefore": text, "ce-id": text}))[0] == 202
    assert await rig.accepted("orders") == []


@for_each(
    ("GET", "/events/team/orders", 405),
    ("PUT", "/events/team/orders", 405),
    ("POST", "/events/team/orders/1", 405),
    ("GET", "/events/team/orders/unknown", 404),
    ("GET", "/events/team/orders/line%0Aend", 404),
    ("HEAD", "/events/team/orders/unknown", 404),
    ("POST", "/events/team", 404),
    ("POST", "/events/", 404),
    ("POST", "/events", 404),
    ("POST", "/healthz", 405),
    ("GET", "/healthz", 200),
    ("GET", "/readyz", 200),
    ("GET", "/openapi.json", 200),
)
async def test_paths_and_methods(method: str, path: str, status: int, rig: GatewayRig) -> None:
    await rig.event_job("orders")
    found, answer, headers = await rig.ask(method, path)
    assert found == status
    if status >= 400:
        assert headers["Content-Type"] == "application/problem+json"
        # The answer to HEAD has no body.
        assert answer is None if method == "HEAD" else answer["status"] == status and answer["detail"]


async def test_the_state_of_an_event_is_there_for_head_too(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    _, pushed, _ = await rig.push("team/orders", json={})
    path = f"/events/team/orders/{pushed['id']}"
    [_, told, by_get], [status, nothing, by_head] = await rig.ask("GET", path), await rig.ask("HEAD", path)
    assert (status, nothing, by_head["Content-Length"]) == (200, None, by_get["Content-Length"])
    assert told["id"] == pushed["id"]


async def test_an_event_that_is_too_large_is_refused_while_it_comes(rig: GatewayRig) -> None:
    await rig.event_job("orders", push={"anonymous": True, "maxBytes": 10})
    text = {"content-type": "text/plain"}
    assert (await rig.push("team/orders", data=b"x" * 10, headers=text))[0] == 202
    assert (await rig.push("team/orders", data=b"x" * 11, headers=text))[0] == 413

    async def pieces() -> Any:
        for _ in range(3):
            yield b"12345"

    assert (await rig.push("team/orders", data=pieces(), headers=text))[0] == 413
    head = b"POST /events/team/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    assert b" 413 " in await raw(rig, head)
    # Written as a whole before the answer is read, as most clients do.
    head = b"POST /events/team/orders HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (5 << 20)
    assert b" 413 " in await raw(rig, head + b"x" * (5 << 20))
    await rig.event_job("usual")
    for data in ("x" * 300_000, "é" * 150_000):
        big = json.dumps([EVENT, {**EVENT, "id": "2", "data": data}])
        status, answer, _ = await rig.push("team/usual", headers=BATCH, data=big)
        assert (status, answer["index"]) == (413, 1)
    assert await rig.accepted("usual") == []


async def test_a_body_that_does_not_come_ends_with_408(rig: GatewayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.event_job("orders")
    monkeypatch.setattr(body_reader.read_body, "__kwdefaults__", {"seconds": 0.05})
    head = b"POST /events/team/orders HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n"
    answer = await raw(rig, head, b"ab")
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in answer.lower()
    assert await rig.accepted("orders") == []


async def test_what_is_in_flight_is_bounded_and_let_go(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    text = {"content-type": "text/plain"}
    rig.load.most_bytes = 100
    assert (await rig.push("team/orders", data=b"x" * 101, headers=text))[0] == 503
    assert (await rig.push("team/orders", data=b"x" * 100, headers=text))[0] == 202
    rig.load.most_requests = 1
    slow = asyncio.create_task(raw(rig, b"POST /events/team/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na"))
    await eventually(lambda: rig.load.bytes == 1)
    assert (await rig.push("team/orders", json={}))[0] == 202, "a request that is still read takes no place"
    slow.cancel()
    rig.load.most_requests = 0
    status, answer, headers = await rig.push("team/orders")
    assert (status, headers["Retry-After"], answer["type"]) == (503, "1", "urn:penstock:problem:overloaded")
    await eventually(lambda: (rig.load.requests, rig.load.bytes) == (0, 0))


async def test_slow_bodies_of_strangers_make_room_for_others(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    rig.load.most_bytes, rig.load.grace = 1_000, 0.0
    head = b"POST /events/team/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n"
    strangers = [asyncio.create_task(raw(rig, head, b"x" * size)) for size in (100, 300, 300, 300)]
    await eventually(lambda: rig.load.bytes == 1_000)
    text = {"content-type": "text/plain"}
    assert (await rig.push("team/orders", data=b"x" * 500, headers=text))[0] == 202
    ended, waiting = await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
    for answer in [each.result() for each in ended]:
        assert b" 408 " in answer
        assert b"had no room" in answer
    await eventually(lambda: rig.load.bytes == 400)
    assert strangers[0] in waiting, "the largest go first"
    for each in strangers:
        each.cancel()


async def test_a_body_that_has_only_begun_is_not_ended_for_another_one(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    rig.load.most_bytes, rig.load.grace = 100, 3600.0
    begun = asyncio.create_task(raw(rig, b"POST /events/team/a HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\na"))
    await eventually(lambda: rig.load.bytes == 1)
    assert (await rig.push("team/orders", data=b"x" * 100, headers={"content-type": "text/plain"}))[0] == 503
    assert (rig.load.bytes, begun.done()) == (1, False)
    begun.cancel()


async def test_the_handshake_of_web_hooks(rig: GatewayRig) -> None:
    await rig.event_job("orders", push={"anonymous": True, "webhookOrigins": ["Shop.example"]})
    asked = {"WebHook-Request-Origin": "shop.EXAMPLE", "WebHook-Request-Rate": "120"}
    status, _, headers = await rig.ask("OPTIONS", "/events/team/orders", headers=asked)
    assert (status, headers["WebHook-Allowed-Origin"], headers["WebHook-Allowed-Rate"]) == (204, "shop.EXAMPLE", "*")
    other = {"WebHook-Request-Origin": "evil.example"}
    _, _, headers = await rig.ask("OPTIONS", "/events/team/orders", headers=other)
    assert "WebHook-Allowed-Origin" not in headers
    assert headers["Allow"] == "POST, OPTIONS"


async def test_while_the_api_server_is_away_no_one_is_let_through(rig: GatewayRig) -> None:
    await rig.event_job("orders", **AUTH)
    rig.away = True
    status, _, headers = await rig.push("team/orders", json={}, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (status, "Retry-After" in headers) == (503, True)


async def test_many_requests_at_once_are_each_accepted_once_and_in_order_per_sender(rig: GatewayRig) -> None:
    await rig.event_job("orders", maxEvents=5000)

    async def sender(name: int) -> None:
        for number in range(20):
            headers = {**BINARY, "ce-id": f"{name}-{number}", "ce-source": "/s"}
            assert (await rig.push("team/orders", headers=headers))[0] == 202

    await asyncio.gather(*(sender(name) for name in range(20)))
    ids = [event["id"] for event in await rig.accepted("orders")]
    assert len(ids) == len(set(ids)) == 400
    for name in range(20):
        assert [id for id in ids if id.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(20)]


async def test_two_requests_on_one_connection_without_waiting(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    request = "POST /events/team/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nIdempotency-Key: {}\r\n{}\r\n"
    answer = await raw(rig, request.format("a", "").encode(), request.format("b", "Connection: close\r\n").encode())
    assert answer.count(b"HTTP/1.1 202") == 2
    assert [event["id"] for event in await rig.accepted("orders")] == ["a", "b"]


async def test_a_target_that_is_looked_up_anew_is_waited_for_once(
    rig: GatewayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that comes alone waits for it."""
    await rig.event_job("orders")

    def destinations() -> Destinations:
        return Destinations(rig.store, KEYS, Triggers(broker=rig.broker, prefix=KEYS.prefix))

    # The first time connections are made.
    await destinations().find("team", "orders")
    with rounds_of(monkeypatch) as rounds:
        found = await destinations().find("team", "orders")
    assert found is not None
    assert found.channel.takers == (Ref(EVENT_JOB, "team", "orders").key,)
    assert len(rounds) == 1


async def test_a_deleted_target_takes_nothing(rig: GatewayRig) -> None:
    await rig.event_job("orders")
    await rig.store.apply(EVENT_JOB, [ObjectVersion.gone(Ref(EVENT_JOB, "team", "orders"), "uid-orders")])
    assert (await rig.push("team/orders"))[0] == 401


async def test_a_name_is_unknown_once_the_objects_were_listed(rig: GatewayRig) -> None:
    """A broker that is new or has lost its data knows no object: a sender that is told 401 may give up."""
    await rig.client.flushall()
    status, answer, headers = await rig.push("team/orders", headers=BINARY, data=b"text")
    assert (status, headers["Retry-After"]) == (503, "1")
    assert answer["detail"] == "the objects that take pushes are not known yet"
    await rig.list_nothing()
    assert (await rig.push("team/orders", headers=BINARY, data=b"text"))[0] == 401
