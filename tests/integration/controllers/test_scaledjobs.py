"""A ScaledJob from its manifest to its Jobs, with every process of ours on the embedded API server and a real one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.integration.controllers.keda_objects import (
    EMBEDDED_ONLY,
    LONG,
    NEVER,
    KedaObject,
    job_template,
    manifest,
    running_on_both,
)
from tests.support import valkeys
from tests.support.conditions import eventually
from tests.support.ports import free_port
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import POD, SCALED_JOB, SECRET, TRIGGER_AUTHENTICATION, Ref
from workers.client.rest import Cluster
from workers.handoff.readings import Readings

pytestmark = pytest.mark.timeout(300)

#: The setting also limits how long a server that failed is left alone.
running = running_on_both({"polling": "2"})

SILENT = {"save": "", "notify-keyspace-events": ""}


class Work(KedaObject):
    """A ScaledJob whose Jobs take no items."""

    def __init__(self, cluster: Cluster, broker: redis.Redis, port: int) -> None:
        super().__init__(cluster, port, SCALED_JOB)
        self._readings = Readings(broker, Keys("penstock"))
        self._lanes = [Lane(broker, lane, Keys("penstock")) for lane in ("poll", "reconcile")]

    async def apply(
        self, *, polling: int = NEVER, most: int = 100, authentication: str | None = None, **metadata: str
    ) -> None:
        """Creates the ScaledJob: one Job per item."""
        reference = {"authenticationRef": {"name": authentication}} if authentication else {}
        spec = {
            "pollingInterval": polling,
            "maxReplicaCount": most,
            "jobTargetRef": job_template("sleep", "600"),
            "triggers": [{**self.trigger(**metadata), **reference}],
        }
        await self.create(spec)

    async def settled(self, items: float | None) -> None:
        """Waits until so many items were read (None: nothing is read), and nothing is left to be decided on that."""

        async def so() -> bool:
            (reading,) = await self._readings.get_many([self.ref.key])
            seen = reading.samples[0].value if reading and reading.samples else None
            stats = [await lane.stats() for lane in self._lanes]
            return seen == items and not any(one.ready or one.leased for one in stats)

        await eventually(so, LONG)


@pytest.fixture
async def work(cluster: Cluster, broker: redis.Redis, source: ValkeyServer) -> AsyncIterator[Work]:
    work = Work(cluster, broker, source.port)
    yield work
    await work.remove()


async def test_a_push_makes_jobs_without_waiting_for_a_poll(work: Work) -> None:
    await work.apply()
    await work.becomes("Ready", "True", "ScaledJobReady")
    await work.settled(0)
    await work.push(3)
    await work.has_jobs(3)
    await work.push(2)
    await work.has_jobs(5)
    await work.becomes("Active", "True", "ScalerActive")
    await work.has_told("KEDAJobsCreated", type="Normal", message="Created 3 jobs")


async def test_where_the_server_tells_nothing_polling_finds_the_work(cluster: Cluster, broker: redis.Redis) -> None:
    with ValkeyServer(config=SILENT) as silent:
        work = Work(cluster, broker, silent.port)
        await work.apply(polling=1)
        await work.settled(0)
        await work.push(2)
        await work.has_jobs(2)
        await work.remove()


async def test_there_are_never_more_jobs_than_allowed(work: Work) -> None:
    await work.apply(most=2)
    await work.push(5)
    await work.settled(5)
    assert len(await work.jobs()) == 2
    await work.push(5)
    await work.settled(10)
    assert len(await work.jobs()) == 2


async def test_a_wrong_setting_is_named_and_once_it_is_right_work_begins_at_once(work: Work) -> None:
    await work.push(1)
    await work.apply(listLength="many")
    message = await work.becomes("Ready", "False", "ScaledJobCheckFailed")
    assert "trigger 0 (redis): listLength" in message
    await work.has_told("ScaledJobCheckFailed", type="Warning", message=message)
    assert await work.jobs() == []
    await work.patch({"spec": {"triggers": [work.trigger()]}})
    await work.becomes("Ready", "True", "ScaledJobReady")
    await work.has_jobs(1)


@EMBEDDED_ONLY  # garbage collection
async def test_a_deleted_scaled_job_goes_and_takes_its_jobs_and_pods_with_it(work: Work) -> None:
    await work.apply()
    await work.push(2)
    await work.has_jobs(2)
    names = [job["metadata"]["name"] for job in await work.jobs()]
    assert (await work.body())["metadata"]["finalizers"] == ["finalizer.keda.sh"]
    await work.remove()

    async def nothing_left() -> bool:
        selector = f"job-name in ({','.join(names)})"
        pods, _ = await work.cluster.list(POD, "default", label_selector=selector)
        return not pods and not await work.jobs()

    await eventually(nothing_left, LONG)


async def test_a_paused_scaled_job_makes_nothing_until_it_goes_on(work: Work) -> None:
    await work.apply()
    await work.settled(0)
    await work.annotate(paused="true")
    await work.becomes("Paused", "True", "ScaledJobPaused")
    await work.settled(None)
    await work.push(2)
    await work.settled(None)
    assert await work.jobs() == []
    await work.annotate(paused=None)
    await work.becomes("Paused", "False", "ScaledJobUnpaused")
    await work.has_jobs(2)


async def test_a_key_of_another_type_is_an_error_until_it_is_a_list(work: Work) -> None:
    await work.ask("SET", "no list")
    await work.apply(polling=1)
    message = await work.becomes("Ready", "False", "TriggerError")
    assert f"{work.name}: WRONGTYPE" in message
    assert await work.jobs() == []
    await work.ask("DEL")
    await work.push(1)
    await work.has_jobs(1)
    await work.becomes("Ready", "True", "ScaledJobReady")


async def everything(broker: redis.Redis) -> bytes:
    """All that is kept in the broker, as one text."""
    parts: list[Any] = []
    async for key in broker.scan_iter():
        read = {
            b"string": lambda key: broker.get(key),
            b"hash": lambda key: broker.hgetall(key),
            b"list": lambda key: broker.lrange(key, 0, -1),
            b"set": lambda key: broker.smembers(key),
            b"zset": lambda key: broker.zrange(key, 0, -1),
            b"stream": lambda key: broker.xrange(key),
            b"none": lambda _: asyncio.sleep(0),
        }[await broker.type(key)]
        parts += (key, await read(key))
    return repr(parts).encode()


async def test_credentials_come_from_a_secret_and_follow_it_and_are_copied_nowhere(
    cluster: Cluster, broker: redis.Redis, tmp_path: Path
) -> None:
    async with valkeys.server(tmp_path, "--notify-keyspace-events", "Kl", password="hunter2") as server:
        work = Work(cluster, broker, server.port)
        secret, login = Ref(SECRET, "default", work.name), Ref(TRIGGER_AUTHENTICATION, "default", work.name)
        entry = {"parameter": "password", "name": work.name, "key": "pw"}
        await work.apply(polling=1, authentication=work.name)
        message = await work.becomes("Ready", "False", "ScaledJobCheckFailed")
        assert message == f"trigger 0 (redis): authenticationRef: {login} does not exist"

        await cluster.create(TRIGGER_AUTHENTICATION, manifest(login, {"secretTargetRef": [entry]}))
        missing = f"trigger 0 (redis): {login}: spec.secretTargetRef[0]: {secret} does not exist"

        async def told() -> bool:
            return await work.becomes("Ready", "False") == missing

        await eventually(told, LONG)

        await cluster.create(SECRET, manifest(secret, stringData={"pw": "hunter2"}))
        await work.becomes("Ready", "True", "ScaledJobReady")
        assert (await work.status())["authenticationsTypes"] == work.name
        await server.ask("RPUSH", work.name, 1, 2)
        await work.has_jobs(2)

        await cluster.patch(secret, {"stringData": {"pw": "swordfish"}})
        await server.ask("CONFIG", "SET", "requirepass", "swordfish")
        await server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await server.ask("CLIENT", "KILL", "TYPE", "pubsub")
        await server.ask("RPUSH", work.name, 3)
        await work.has_jobs(3)
        await work.becomes("Ready", "True", "ScaledJobReady")

        kept = await everything(broker)
        assert work.name.encode() in kept
        for word in (b"hunter2", b"swordfish", b"aHVudGVyMg", b"c3dvcmRmaXNo"):
            assert word not in kept
        shown = f"{await work.events()} {await work.body()}"
        assert not any(word in shown for word in ("hunter2", "swordfish"))
        await work.remove()


async def test_a_server_that_is_away_is_an_error_until_it_is_back(cluster: Cluster, broker: redis.Redis) -> None:
    port = free_port()
    with ValkeyServer(port=port, config=SILENT):
        work = Work(cluster, broker, port)
        await work.apply(polling=1)
        await work.becomes("Ready", "True", "ScaledJobReady")
    assert f"127.0.0.1:{port}" in await work.becomes("Ready", "False", "TriggerError")
    with ValkeyServer(port=port, config=SILENT):
        await work.push(1)
        await work.has_jobs(1)
        await work.becomes("Ready", "True", "ScaledJobReady")
        await work.remove()
