"""A ScaledJob from its manifest to its Jobs, with every process of ours on the embedded API server.

Not on a real one: kube-apiserver 1.20 built with Go 1.18 or newer dies on custom resources.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support import valkeys
from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.ports import free_port
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import EVENT, JOB, POD, SCALED_JOB, SECRET, TRIGGER_AUTHENTICATION, Object, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound
from workers.handoff.readings import Readings

pytestmark = pytest.mark.timeout(300)

#: The setting also limits how long a server that failed is left alone.
HOUSE = {"polling": "2"}

#: Seconds that eight processes on a busy machine may take for anything.
LONG = 60.0
#: Longer than any test: what happens did not wait for a poll.
NEVER = 3600

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def telling() -> Iterator[ValkeyServer]:
    """A server that tells of pushes."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "Kl"}) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[ValkeyServer]:
    """A server that tells nothing."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": ""}) as server:
        yield server


class Work:
    """One ScaledJob, its list, and what became of them."""

    def __init__(self, cluster: Cluster, broker: redis.Redis, port: int) -> None:
        self.cluster = cluster
        self.name = f"work-{next(_numbers)}"
        self.ref = Ref(SCALED_JOB, "default", self.name)
        self.port = port
        self._readings = Readings(broker, Keys("penstock"))
        self._lanes = [Lane(broker, lane, Keys("penstock")) for lane in ("poll", "reconcile")]

    async def apply(
        self, *, polling: int = NEVER, most: int = 100, authentication: str | None = None, **metadata: str
    ) -> None:
        """Creates the ScaledJob: one Job per item, and the Jobs take no items."""
        reference = {"authenticationRef": {"name": authentication}} if authentication else {}
        container = {"name": "main", "image": "none", "command": ["sleep", "600"]}
        spec = {
            "pollingInterval": polling,
            "maxReplicaCount": most,
            "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
            "triggers": [{**self.trigger(**metadata), **reference}],
        }
        metadata_ = {"namespace": "default", "name": self.name}
        body = {"apiVersion": SCALED_JOB.api_version, "kind": "ScaledJob", "metadata": metadata_, "spec": spec}
        await self.cluster.create(SCALED_JOB, body)

    def trigger(self, **metadata: str) -> Object:
        address = f"127.0.0.1:{self.port}"
        return {"type": "redis", "metadata": {"address": address, "listName": self.name, "listLength": "1", **metadata}}

    async def push(self, items: int) -> None:
        await self.ask("RPUSH", *range(items))

    async def ask(self, command: str, *words: Any) -> None:
        """One command about the list."""
        async with redis.Redis(port=self.port) as client:
            await client.execute_command(command, self.name, *words)

    async def patch(self, body: Object) -> None:
        await self.cluster.patch(self.ref, body)

    async def jobs(self) -> list[str]:
        selector = f"scaledjob.keda.sh/name={self.name}"
        jobs, _ = await self.cluster.list(JOB, "default", label_selector=selector)
        return [job["metadata"]["name"] for job in jobs]

    async def has_jobs(self, number: int) -> None:
        """Waits for so many Jobs."""

        async def there() -> bool:
            return len(await self.jobs()) >= number

        await eventually(there, LONG)
        assert len(await self.jobs()) == number

    async def condition(self, type_: str) -> Object:
        status = (await self.cluster.get(self.ref)).get("status") or {}
        return next((one for one in status.get("conditions") or () if one["type"] == type_), {})

    async def becomes(self, type_: str, status: str, reason: str) -> str:
        """Waits for a condition; its message."""

        known: Object = {}

        async def so() -> bool:
            nonlocal known
            known = await self.condition(type_)
            return (known.get("status"), known.get("reason")) == (status, reason)

        await eventually(so, LONG)
        return str(known.get("message"))

    async def settled(self, items: float | None) -> None:
        """Waits until so many items were read (None: nothing is read), and nothing is left to be decided on that."""

        async def so() -> bool:
            (reading,) = await self._readings.get_many([self.ref.key])
            seen = reading.samples[0].value if reading and reading.samples else None
            stats = [await lane.stats() for lane in self._lanes]
            return seen == items and not any(one.ready or one.leased for one in stats)

        await eventually(so, LONG)

    async def has_told(self, *wanted: str) -> None:
        """Waits for an Event about the ScaledJob: type, reason, message."""

        async def there() -> bool:
            events, _ = await self.cluster.list(EVENT, "default", field_selector=f"involvedObject.name={self.name}")
            return wanted in [(event["type"], event["reason"], event["message"]) for event in events]

        await eventually(there)


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


@pytest.fixture
async def broker(running: House) -> AsyncIterator[redis.Redis]:
    async with redis.Redis.from_url((running.home / "broker.url").read_text().strip()) as client:
        yield client


@pytest.fixture
async def work(cluster: Cluster, broker: redis.Redis, telling: ValkeyServer) -> AsyncIterator[Work]:
    work = Work(cluster, broker, telling.port)
    yield work
    await remove(work)


async def remove(work: Work) -> None:
    """Deletes the ScaledJob, if it is still there, and waits until it is gone."""

    async def gone() -> bool:
        try:
            await work.cluster.delete(work.ref)
        except NotFound:
            return True
        return False

    await eventually(gone, LONG)


async def test_a_push_makes_jobs_without_waiting_for_a_poll(work: Work) -> None:
    await work.apply()
    await work.becomes("Ready", "True", "ScaledJobReady")
    await work.settled(0)
    await work.push(3)
    await work.has_jobs(3)
    await work.push(2)
    await work.has_jobs(5)
    await work.becomes("Active", "True", "ScalerActive")
    await work.has_told("Normal", "KEDAJobsCreated", "Created 3 jobs")


async def test_where_the_server_tells_nothing_polling_finds_the_work(
    cluster: Cluster, broker: redis.Redis, silent: ValkeyServer
) -> None:
    work = Work(cluster, broker, silent.port)
    await work.apply(polling=1)
    await work.settled(0)
    await work.push(2)
    await work.has_jobs(2)
    await remove(work)


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
    await work.has_told("Warning", "ScaledJobCheckFailed", message)
    assert await work.jobs() == []
    await work.patch({"spec": {"triggers": [work.trigger()]}})
    await work.becomes("Ready", "True", "ScaledJobReady")
    await work.has_jobs(1)


async def test_a_deleted_scaled_job_goes_and_takes_its_jobs_and_pods_with_it(work: Work) -> None:
    await work.apply()
    await work.push(2)
    await work.has_jobs(2)
    names = await work.jobs()
    assert (await work.cluster.get(work.ref))["metadata"]["finalizers"] == ["finalizer.keda.sh"]
    await remove(work)

    async def nothing_left() -> bool:
        selector = f"job-name in ({','.join(names)})"
        pods, _ = await work.cluster.list(POD, "default", label_selector=selector)
        return not pods and not await work.jobs()

    await eventually(nothing_left, LONG)


async def test_a_paused_scaled_job_makes_nothing_until_it_goes_on(work: Work) -> None:
    await work.apply()
    await work.settled(0)
    await work.patch({"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}})
    await work.becomes("Paused", "True", "ScaledJobPaused")
    await work.settled(None)
    await work.push(2)
    await work.settled(None)
    assert await work.jobs() == []
    await work.patch({"metadata": {"annotations": {"autoscaling.keda.sh/paused": None}}})
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

        await cluster.create(TRIGGER_AUTHENTICATION, made(login, spec={"secretTargetRef": [entry]}))
        missing = f"trigger 0 (redis): {login}: spec.secretTargetRef[0]: {secret} does not exist"
        await eventually(lambda: told(work, missing), LONG)

        await cluster.create(SECRET, made(secret, stringData={"pw": "hunter2"}))
        await work.becomes("Ready", "True", "ScaledJobReady")
        assert (await cluster.get(work.ref))["status"]["authenticationsTypes"] == work.name
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
        events, _ = await cluster.list(EVENT, "default", field_selector=f"involvedObject.name={work.name}")
        shown = f"{events} {await cluster.get(work.ref)}"
        assert not any(word in shown for word in ("hunter2", "swordfish"))
        await remove(work)


async def told(work: Work, message: str) -> bool:
    return bool((await work.condition("Ready")).get("message") == message)


def made(ref: Ref, **rest: Any) -> Object:
    metadata = {"namespace": ref.namespace, "name": ref.name}
    return {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": metadata, **rest}


async def test_a_server_that_is_away_is_an_error_until_it_is_back(cluster: Cluster, broker: redis.Redis) -> None:
    port = free_port()
    config = {"save": "", "notify-keyspace-events": ""}
    with ValkeyServer(port=port, config=config):
        work = Work(cluster, broker, port)
        await work.apply(polling=1)
        await work.becomes("Ready", "True", "ScaledJobReady")
    assert f"127.0.0.1:{port}" in await work.becomes("Ready", "False", "TriggerError")
    with ValkeyServer(port=port, config=config):
        await work.push(1)
        await work.has_jobs(1)
        await work.becomes("Ready", "True", "ScaledJobReady")
        await remove(work)
