"""Strategy claim from the manifest to what ran, with every process of ours on the embedded API server."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import JOB, SCALED_JOB, Object, Ref
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.decision.claims import LEDGER
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "2"}

#: Seconds that eight processes on a busy machine may take for anything.
LONG = 60.0
#: Longer than any test: what happens did not wait for a poll.
NEVER = 3600

_numbers = itertools.count(1)

#: Says what it was given, by variable and by file, and does what the item asks for.
SCRIPT = """
file=$(cat "$PENSTOCK_VOLUME_PENSTOCK_ITEM/item")
echo "$PENSTOCK_CLAIM|$PENSTOCK_ITEM_ENCODING|$PENSTOCK_ITEM|$file" >> "{truth}"
case "$PENSTOCK_ITEM" in
  fail*) exit 3 ;;
  wait*) while [ ! -e "{truth}.go" ]; do sleep 0.1; done ;;
esac
"""


@pytest.fixture(scope="module")
def source() -> Iterator[ValkeyServer]:
    """A server that tells of pushes to lists and streams."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "Klt"}) as server:
        yield server


class Work:
    """One ScaledJob that claims, its queue, and what its Jobs were given."""

    def __init__(self, cluster: Cluster, client: redis.Redis, port: int, truth: Path) -> None:
        self.cluster, self.client, self.port, self.truth = cluster, client, port, truth
        self.name = f"claim-{next(_numbers)}"
        self.ref = Ref(SCALED_JOB, "default", self.name)

    async def apply(
        self, trigger: Object | None = None, *, most: int = 100, polling: int = NEVER, **claim: Any
    ) -> None:
        container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", self.script]}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
        spec = {
            "pollingInterval": polling,
            "maxReplicaCount": most,
            "scalingStrategy": {"strategy": "claim", "claim": claim},
            "rollout": {"strategy": "gradual"},
            "jobTargetRef": {"backoffLimit": 0, "template": {"spec": pod}},
            "triggers": [trigger or self.list_trigger(self.name)],
        }
        metadata = {"namespace": "default", "name": self.name}
        body = {"apiVersion": SCALED_JOB.api_version, "kind": "ScaledJob", "metadata": metadata, "spec": spec}
        await self.cluster.create(SCALED_JOB, body)

    @property
    def script(self) -> str:
        return SCRIPT.replace("{truth}", str(self.truth))

    def list_trigger(self, name: str) -> Object:
        return {"type": "redis", "metadata": {"address": f"127.0.0.1:{self.port}", "listName": name}}

    def given(self) -> list[tuple[str, ...]]:
        """Claim, encoding, variable and file of every process that ran."""
        lines = self.truth.read_text().splitlines() if self.truth.exists() else []
        return [tuple(line.split("|")) for line in lines]

    def ran(self) -> list[str]:
        return sorted(item for _, _, item, _ in self.given())

    def go_on(self) -> None:
        """What waits may finish."""
        Path(f"{self.truth}.go").touch()

    async def jobs(self) -> list[Object]:
        selector = f"scaledjob.keda.sh/name={self.name}"
        return (await self.cluster.list(JOB, "default", label_selector=selector))[0]

    async def held(self) -> int:
        """Claims that are not settled."""
        keys = [key async for key in self.client.scan_iter(match=f"*{self.name}*:penstock:*")]
        return sum([sum(name.startswith(b"i:") for name in await self.client.hkeys(key)) for key in keys])

    async def settled(self, items: int) -> None:
        """Waits until so many have run, nothing is claimed, and no Job waits for its claim."""

        async def so() -> bool:
            bound = [job for job in await self.jobs() if job["metadata"].get("finalizers")]
            return len(self.given()) >= items and not await self.held() and not bound

        await eventually(so, LONG)
        assert len(self.given()) == items

    async def parked(self) -> list[dict[bytes, bytes]]:
        return [fields for _, fields in await self.client.xrange(f"{{{self.name}}}:parked")]

    async def becomes(self, type_: str, status: str) -> str:
        """Waits for a condition; its message."""

        async def so() -> bool:
            return conditions.status_of(await self.cluster.get(self.ref), type_) == status

        await eventually(so, LONG)
        return str((conditions.find(await self.cluster.get(self.ref), type_) or {}).get("message"))

    async def running(self, items: int) -> None:
        async def so() -> bool:
            return len(self.given()) >= items

        await eventually(so, LONG)

    async def is_gone(self) -> bool:
        try:
            await self.cluster.get(self.ref)
        except NotFound:
            return True
        return False


@pytest.fixture
async def work(running: House, source: ValkeyServer, tmp_path: Path) -> AsyncIterator[Work]:
    async with (
        await Cluster.connect(kubeconfig=running.kubeconfig) as cluster,
        redis.Redis(port=source.port) as client,
    ):
        work = Work(cluster, client, source.port, tmp_path / "truth")
        yield work
        work.go_on()
        if not await work.is_gone():
            await cluster.delete(work.ref)
        await eventually(work.is_gone, LONG)


async def test_every_item_runs_once_with_what_it_says(work: Work) -> None:
    await work.apply(most=2)
    items = ["plain", "two words", "$(HOME) and $$", '{"json": 1}', "é"]
    await work.client.rpush(work.name, *items)
    await work.settled(5)
    assert work.ran() == sorted(items)
    assert all(item == file and encoding == "text" for _, encoding, item, file in work.given())
    assert len({claim for claim, *_ in work.given()}) == 5
    assert await work.becomes("Ready", "True")


async def test_what_is_no_text_comes_in_base64(work: Work) -> None:
    await work.apply()
    await work.client.rpush(work.name, b"\xff\xfe")
    await work.settled(1)
    assert [given[1:] for given in work.given()] == [("base64", "//4=", "//4=")]


async def test_a_failing_item_is_tried_again_and_parked_then(work: Work) -> None:
    await work.apply(retries=1)
    await work.client.rpush(work.name, "fail", "fine")
    await work.settled(3)
    assert work.ran() == ["fail", "fail", "fine"]
    [parked] = await work.parked()
    assert (parked[b"item"], parked[b"owner"]) == (b"fail", f"default/{work.name}".encode())
    assert b"BackoffLimitExceeded" in parked[b"reason"]


async def test_the_item_of_a_deleted_job_goes_back_and_runs_again(work: Work) -> None:
    await work.apply(most=1)
    await work.client.rpush(work.name, "wait")
    await work.running(1)
    [job] = await work.jobs()
    await work.cluster.delete(Ref(JOB, "default", job["metadata"]["name"]))
    await work.running(2)
    work.go_on()
    await work.settled(2)
    claims = [claim for claim, *_ in work.given()]
    assert len(set(claims)) == 2, "it is another claim"


async def test_a_deleted_scaled_job_gives_back_what_is_unfinished(work: Work) -> None:
    await work.apply(most=2)
    await work.client.rpush(work.name, "wait-1", "wait-2", "wait-3")
    await work.running(2)
    await work.cluster.delete(work.ref)
    await eventually(work.is_gone, LONG)
    assert sorted(await work.client.lrange(work.name, 0, -1)) == [b"wait-1", b"wait-2", b"wait-3"]

    async def no_jobs() -> bool:
        return not await work.jobs()

    await eventually(no_jobs, LONG)


async def test_another_list_is_taken_from_when_the_old_one_is_settled(work: Work, running: House) -> None:
    await work.apply(most=1)
    await work.client.rpush(work.name, "wait-1", "wait-2")
    await work.running(1)
    await work.client.rpush(f"{work.name}-next", "next")
    changed = await work.cluster.patch(work.ref, {"spec": {"triggers": [work.list_trigger(f"{work.name}-next")]}})
    async with redis.Redis.from_url((running.home / "broker.url").read_text().strip()) as broker:
        store = Store(broker, Keys("penstock"), {})

        async def known() -> bool:
            # Whoever has not heard of the change yet takes the next item from the old list, and rightly so.
            entry = await store.get(work.ref)
            generation = changed["metadata"]["generation"]
            return bool(entry and entry.body and entry.body["metadata"]["generation"] == generation)

        await eventually(known, LONG)
    work.go_on()
    await work.running(2)
    assert work.ran() == ["next", "wait-1"]
    assert await work.client.lrange(work.name, 0, -1) == [b"wait-2"]
    text = (await work.cluster.get(work.ref))["metadata"]["annotations"][LEDGER]
    assert orjson.loads(text)["metadata"]["listName"] == f"{work.name}-next"


async def test_entries_of_a_stream_run_once_each(work: Work) -> None:
    metadata = {"address": f"127.0.0.1:{work.port}", "stream": work.name}
    await work.apply({"type": "redis-streams", "metadata": metadata})
    for number in range(3):
        await work.client.xadd(work.name, {"n": number})

    async def acknowledged() -> bool:
        if len(work.given()) < 3:
            return False
        pending: Any = await work.client.xpending(work.name, "penstock")
        return bool(pending["pending"] == 0)

    await eventually(acknowledged, LONG)
    assert work.ran() == ['{"n":"0"}', '{"n":"1"}', '{"n":"2"}']
    assert {encoding for _, encoding, _, _ in work.given()} == {"json"}


@pytest.mark.parametrize(
    ("triggers", "message"),
    [
        (["list", "list"], "items are claimed from one trigger, and there are several"),
        (["cron"], "items of trigger type cron cannot be claimed"),
    ],
    ids=["several triggers", "a trigger without items"],
)
async def test_what_cannot_be_claimed_is_said(work: Work, triggers: list[str], message: str) -> None:
    cron = {"timezone": "UTC", "start": "0 0 * * *", "end": "59 23 * * *", "desiredReplicas": "1"}
    known = {"list": work.list_trigger(work.name), "cron": {"type": "cron", "metadata": cron}}
    await work.apply()
    await work.becomes("Ready", "True")
    await work.cluster.patch(work.ref, {"spec": {"triggers": [known[each] for each in triggers]}})
    assert message in await work.becomes("Ready", "False")
    assert await work.jobs() == []


async def test_an_emptied_broker_loses_no_item_and_runs_none_twice(work: Work, running: House) -> None:
    await work.apply(most=2, polling=1)
    await work.client.rpush(work.name, "wait-1", "wait-2", "later")
    await work.running(2)
    async with redis.Redis.from_url((running.home / "broker.url").read_text().strip()) as broker:
        # Not all of it: the embedded cluster has its objects there too.
        for key in [key async for key in broker.scan_iter(match="{penstock}:*")]:
            await broker.delete(key)
    work.go_on()
    await work.settled(3)
    assert work.ran() == ["later", "wait-1", "wait-2"]
