"""The gateway while its broker, its disk or its certificates fail or change, and when it ends."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import redis.asyncio as redis

from deploy.processes import gateway as process
from scheduler.broker import clients
from tests.support.certificates import certificates
from tests.support.conditions import eventually
from tests.support.gateway_rig import GatewayRig, gateway_rig
from tests.support.valkeys import Server, server

FSYNC = {"push": {"anonymous": True, "durability": "fsync"}}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Server]:
    """A broker of the test's own that writes an append-only file."""
    async with server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as store:
        yield store


@pytest.fixture
async def durable(store: Server) -> AsyncIterator[GatewayRig]:
    url = f"redis://127.0.0.1:{store.port}/0"
    options = {"socket_timeout": 1, "socket_connect_timeout": 1}
    async with clients.client(url, **options) as client, gateway_rig(url, client) as rig:
        yield rig


async def _has_waitaof(store: Server) -> bool:
    try:
        await store.ask("WAITAOF", 0, 0, 1)
    except redis.ResponseError:
        return False
    return True


async def test_an_event_that_must_be_durable_is_on_the_disk_when_it_is_acknowledged(
    durable: GatewayRig, store: Server, tmp_path: Path
) -> None:
    if not await _has_waitaof(store):
        await durable.event_job("orders", **FSYNC)
        assert (await durable.push("team/orders"))[0] == 503
        return
    await durable.event_job("orders", **FSYNC)
    status, _, _ = await durable.push("team/orders", headers={"Idempotency-Key": "unmistakable"})
    assert status == 202
    assert any(b"unmistakable" in path.read_bytes() for path in tmp_path.rglob("*.aof"))


async def test_without_replicas_an_event_that_needs_one_is_not_acknowledged_and_said_to_be_in_memory(
    durable: GatewayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalers.gateway.group_commit.DURABLE_PATIENCE", 20)
    await durable.event_job("orders", push={"anonymous": True, "replicas": 1})
    status, answer, headers = await durable.push("team/orders", headers={"Idempotency-Key": "1"})
    assert (status, answer["type"], headers["Retry-After"]) == (503, "urn:penstock:problem:not-durable", "1")
    assert [event["id"] for event in await durable.accepted("orders")] == ["1"]
    await durable.event_job("plain")
    assert (await durable.push("team/plain"))[0] == 202


async def test_a_broker_that_is_away_is_told_and_found_again(durable: GatewayRig, store: Server) -> None:
    await durable.event_job("orders")
    assert (await durable.push("team/orders", headers={"Idempotency-Key": "1"}))[0] == 202
    store.pause()
    status, answer, headers = await durable.push("team/orders", headers={"Idempotency-Key": "2"})
    assert (status, headers["Retry-After"]) == (503, "1")
    assert answer["type"] == "urn:penstock:problem:broker-away"

    async def unready() -> bool:
        return (await durable.ask("GET", "/readyz"))[0] == 503

    await eventually(unready)
    store.resume()

    async def accepted() -> bool:
        return (await durable.push("team/orders", headers={"Idempotency-Key": "2"}))[0] == 202

    await eventually(accepted)
    assert [event["id"] for event in await durable.accepted("orders")] == ["1", "2"]


async def test_a_broker_without_memory_accepts_nothing_and_is_told(durable: GatewayRig, store: Server) -> None:
    await durable.event_job("orders")
    assert (await durable.push("team/orders"))[0] == 202
    await store.ask("CONFIG", "SET", "maxmemory", "1")
    status, answer, _ = await durable.push("team/orders")
    assert (status, answer["type"]) == (503, "urn:penstock:problem:broker-refuses")
    await store.ask("CONFIG", "SET", "maxmemory", "0")
    assert len(await durable.accepted("orders")) == 1


async def test_what_has_arrived_is_answered_before_the_end(durable: GatewayRig, store: Server) -> None:
    await durable.event_job("orders", maxEvents=100_000)
    assert (await durable.push("team/orders", headers={"Idempotency-Key": "warm"}))[0] == 202
    store.pause()
    pushes = [
        asyncio.create_task(durable.push("team/orders", headers={"Idempotency-Key": str(number)}))
        for number in range(10)
    ]
    await eventually(lambda: durable.load.requests == 10)
    durable.gateway.ready.ending = True
    assert (await durable.ask("GET", "/readyz"))[0] == 503
    durable.stop.set()
    store.resume()
    assert {answer[0] for answer in await asyncio.gather(*pushes)} == {202}
    assert len(await durable.accepted("orders")) == 11


async def test_new_connections_get_new_certificates(
    redis_url: str, real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOOK", 0.02)
    made = [certificates("first"), certificates("second")]
    cert, key, clients = (tmp_path / name for name in ("tls.crt", "tls.key", "clients.crt"))

    def write(which: int) -> None:
        cert.write_text(made[which].server)
        key.write_text(made[which].server_key)
        clients.write_text(made[which].authority)

    def context(which: int, shown: int | None = None) -> ssl.SSLContext:
        found = ssl.create_default_context(cadata=made[which].authority)
        if shown is not None:
            mine = tmp_path / f"client-{shown}.pem"
            mine.write_text(f"{made[shown].client}\n{made[shown].client_key}\n")
            found.load_cert_chain(mine)
        return found

    write(0)
    files = process.CertificateFiles(cert, key, clients)
    async with gateway_rig(redis_url, real_redis, certificates=files) as rig:
        assert (await rig.ask("GET", "/readyz", ssl=context(0)))[0] == 200
        assert (await rig.ask("GET", "/readyz", ssl=context(0, shown=0)))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await rig.ask("GET", "/readyz", ssl=context(0, shown=1))
        key.write_text("broken")
        write(1)

        async def renewed() -> bool:
            try:
                return (await rig.ask("GET", "/readyz", ssl=context(1, shown=1)))[0] == 200
            except aiohttp.ClientError:
                return False

        await eventually(renewed)
        with pytest.raises(aiohttp.ClientError):
            await rig.ask("GET", "/readyz", ssl=context(1, shown=0))
