"""A user of the broker with the least rights, on a real server: it is enough, and a right that is missing is named."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis.asyncio as redis
from redis import exceptions

from deploy import broker_acl
from penstock.connections import Connections
from scalers.claimable import ClaimRequest
from scheduler.broker import address, clients, permissions
from scheduler.last_runs import LastRuns
from scheduler.queue import Done, Lane
from tests.integration.scalers.test_push import Intake
from tests.integration.scheduler.test_brokers import exchanged
from tests.support.event_jobs import KEYS, PolledEventJob
from tests.support.paths import ROOT
from tests.support.tables import for_each
from tests.support.valkeys import server
from tests.unit.scalers.sources.test_push_parameters import GOOD
from workers.decision.claims import ClaimOrder, ClaimSettlement
from workers.handoff.claim_orders import ClaimOrders
from workers.runtime import broker_info

pytestmark = pytest.mark.broker


@asynccontextmanager
async def user(admin: redis.Redis, url: str, *changes: str) -> AsyncIterator[tuple[redis.Redis, str]]:
    """A client of the user with our rules and these changes to them, and its URL."""
    await admin.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">pw", *permissions.rules(), *changes)
    await admin.execute_command("ACL", "LOG", "RESET")
    at = f"redis://limited:pw@127.0.0.1:{urlsplit(url).port}/0"
    try:
        async with clients.client(at, client_name="penstock/test") as client:
            yield client, at
    finally:
        await admin.execute_command("ACL", "DELUSER", "limited")


async def test_the_rules_are_enough_for_queues_deliveries_beats_and_celery(
    real_redis: redis.Redis, redis_url: str
) -> None:
    async with user(real_redis, redis_url) as (client, url):
        assert await permissions.lacking(client, KEYS) == permissions.Permissions()
        lane = Lane(client, "reconcile", KEYS)
        await lane.mark(["a/b", "a/c"])
        await lane.open()
        leases = (await lane.claim(5)).leases
        await lane.renew(leases)
        await lane.finish([(lease, Done()) for lease in leases])
        await lane.sweep()
        await lane.stats()
        runs = LastRuns(client, KEYS)
        await runs.load({"nightly": 1})
        job = PolledEventJob(client)
        await job.push("1", "2")
        await job.poll(2)
        await job.settle("done", "1")
        await job.settle("parked", "2", reason="it failed")
        await client.wait(0, 1)
        pubsub = client.pubsub()
        await pubsub.subscribe("__keyspace@0__:{penstock}:events:default/orders")
        await pubsub.aclose()
        assert exchanged(url)
        # ACL LOG tells of everything that was refused.
        refused = await real_redis.execute_command("ACL", "LOG")
        assert not refused, refused


async def test_the_rules_are_enough_for_claims_and_for_pushes_to_scaledjobs(
    real_redis: redis.Redis, redis_url: str
) -> None:
    async with AsyncExitStack() as stack:
        client, url = await stack.enter_async_context(user(real_redis, redis_url))
        connections = Connections()
        stack.push_async_callback(connections.close)
        pushed = Intake(url, client, connections)
        await client.execute_command(*pushed.scaler.question.push({**GOOD, "id": "1"}))
        assert await pushed.waiting() == 1
        lane, orders = Lane(client, "poll", KEYS), ClaimOrders(client, KEYS)
        key = "scaledjobs.keda.sh/team/orders"
        await orders.put(key, ClaimOrder(1, "ledger", 2), lane)
        [order] = await orders.get_many([key])
        found = await pushed.scaler.carry_out(ClaimRequest("team/orders", "u1", order), connections)
        [claim] = found.claims
        for how, id in (("returned", 2), ("done", 4)):
            last = ClaimOrder(id, "ledger", 0, settlements=(ClaimSettlement(claim.id, how),))
            await pushed.scaler.carry_out(ClaimRequest("team/orders", "u1", last), connections)
            again = ClaimRequest("team/orders", "u1", ClaimOrder(id + 1, "ledger", 1))
            await pushed.scaler.carry_out(again, connections)
        await orders.drop([key])
        refused = await real_redis.execute_command("ACL", "LOG")
        assert not refused, refused


async def test_a_write_is_confirmed_on_the_disk_where_the_rules_have_waitaof(tmp_path: Path) -> None:
    async with server(tmp_path, "--appendonly", "yes") as durable:
        url = f"redis://127.0.0.1:{durable.port}/0"
        version = (await durable.client.info("server"))["redis_version"]
        if version.startswith("7.0."):
            with pytest.raises(exceptions.ResponseError, match="Unknown command"):
                await durable.client.execute_command("ACL", "SETUSER", "limited", "+waitaof")
            return
        async with user(durable.client, url) as (client, _):
            with pytest.raises(exceptions.NoPermissionError, match="may not run waitaof"):
                await client.waitaof(1, 0, 5000)
        async with user(durable.client, url, "+waitaof") as (client, _):
            await client.set("{penstock}:here", "1")
            assert await client.waitaof(1, 0, 5000) == [1, 0]


async def test_no_key_of_others_may_be_touched(real_redis: redis.Redis, redis_url: str) -> None:
    async with user(real_redis, redis_url) as (client, _):
        for command in (("GET", "theirs"), ("FLUSHALL",), ("CONFIG", "SET", "maxmemory", "1"), ("KEYS", "*")):
            with pytest.raises(exceptions.NoPermissionError, match="the broker's user limited may not"):
                await client.execute_command(*command)


@for_each("evalsha", "brpop", "xadd", "zrange", "script|load", "multi")
async def test_a_command_that_is_taken_away_is_named_before_it_is_needed(
    command: str, real_redis: redis.Redis, redis_url: str
) -> None:
    async with user(real_redis, redis_url, f"-{command}") as (client, _):
        assert await permissions.lacking(client, KEYS) == permissions.Permissions((command,))
        assert not await real_redis.keys("*permissions*")


async def test_other_keys_and_channels_are_named(real_redis: redis.Redis, redis_url: str) -> None:
    async with user(real_redis, redis_url, "resetkeys", "~{other}:*") as (client, _):
        assert (await permissions.lacking(client, KEYS)).needed == ("keys",)
    async with user(real_redis, redis_url, "resetchannels") as (client, _):
        assert await permissions.lacking(client, KEYS) == permissions.Permissions(("channels",), ("subscribe",))


async def test_a_command_that_a_script_may_not_run_is_an_error_that_names_the_user(
    real_redis: redis.Redis, redis_url: str
) -> None:
    async with user(real_redis, redis_url, "-zadd") as (client, _):
        with pytest.raises(exceptions.NoPermissionError, match=r"user limited may not .*docs/brokers[.]md"):
            await Lane(client, "poll", KEYS).mark(["a/b"])


async def test_a_service_that_forbids_what_is_not_needed_is_told_once_and_works(
    real_redis: redis.Redis, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    forbidden = ("info", "config|get", "client|setname", "client|list", "subscribe", "wait")
    async with user(real_redis, redis_url, *(f"-{name}" for name in forbidden)) as (client, url):
        await broker_info.report_problems(client, KEYS, address.parse(url))
        assert [vars(record)["command"] for record in caplog.records] == list(forbidden)
        lane = Lane(client, "reconcile", KEYS)
        await lane.mark(["a/b"])
        await lane.open()
        assert len((await lane.claim(1)).leases) == 1
        assert exchanged(url)


async def test_commands_that_a_service_renamed_are_missing_too(tmp_path: Path) -> None:
    renamed = [word for name in ("CONFIG", "CLIENT", "WAIT") for word in ("--rename-command", name, "")]
    async with server(tmp_path, *renamed) as service:
        url = f"redis://127.0.0.1:{service.port}/0"
        async with clients.client(url, client_name="penstock/test") as client:
            found = await permissions.lacking(client, KEYS)
            assert found == permissions.Permissions((), ("config|get", "client|setname", "client|list", "wait"))
            assert await Lane(client, "reconcile", KEYS).mark(["a/b"])
        assert exchanged(url)


async def test_a_broker_that_evicts_is_told_of(
    real_redis: redis.Redis, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    at = address.parse(redis_url)
    for limit, policy, told in (("0", "allkeys-lru", 0), ("500mb", "noeviction", 0), ("500mb", "volatile-lru", 1)):
        await real_redis.config_set("maxmemory", limit)
        await real_redis.config_set("maxmemory-policy", policy)
        caplog.clear()
        try:
            await broker_info.report_problems(real_redis, KEYS, at)
        finally:
            await real_redis.config_set("maxmemory", "0")
            await real_redis.config_set("maxmemory-policy", "noeviction")
        assert len(["forgets work" in record.message for record in caplog.records]) == told


def test_every_command_of_our_scripts_is_in_the_rules() -> None:
    named = re.compile(r"redis\.p?call\('([A-Z]+)'|redis\.p?call\([^')]*'([A-Z]+)' or '([A-Z]+)'|_many\('([A-Z]+)'")
    used = {
        word.lower()
        for folder in ("scheduler", "workers", "scalers", "deploy/backup")
        for file in (ROOT / folder).rglob("*.lua")
        for match in named.findall(file.read_text())
        for word in match
        if word
    }
    assert "zadd" in used
    assert "rpop" in used
    assert used <= {name.partition("|")[0] for name in (*permissions.NEEDED, *permissions.OPTIONAL)}


def test_the_file_of_rules_is_that_of_the_code() -> None:
    assert broker_acl.FILE.read_text() == broker_acl.render(), "python -m deploy.broker_acl"
