"""Strategy claim from the manifest to what ran, with every process of ours on the embedded API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from tests.integration.controllers.keda_objects import LONG, NEVER, KedaObject, job_template
from tests.support.conditions import eventually
from tests.support.tables import cases
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import JOB, SCALED_JOB, Object, Ref
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.decision.claims import LEDGER

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "2"}

#: Says what it was given, by variable and by file, and does what the item asks for.
SCRIPT = """
file=$(cat "$PENSTOCK_VOLUME_PENSTOCK_ITEM/item")
echo "$PENSTOCK_CLAIM|$PENSTOCK_ITEM_ENCODING|$PENSTOCK_ITEM|$file" >> "{truth}"
case "$PENSTOCK_ITEM" in
  fail*) exit 3 ;;
  wait*) while [ ! -e "{truth}.go" ]; do sleep 0.1; done ;;
esac
"""


class Work(KedaObject):
    """A ScaledJob that claims, its queue, and what its Jobs were given."""

    def __init__(self, cluster: Cluster, client: redis.Redis, port: int, truth: Path) -> None:
        super().__init__(cluster, port, SCALED_JOB, "claim")
        self.client, self.truth = client, truth
        self.script = SCRIPT.replace("{truth}", str(truth))

    async def apply(
        self, trigger: Object | None = None, *, most: int = 100, polling: int = NEVER, **claim: Any
    ) -> None:
        spec = {
            "pollingInterval": polling,
            "maxReplicaCount": most,
            "scalingStrategy": {"strategy": "claim", "claim": claim},
            "rollout": {"strategy": "gradual"},
            "jobTargetRef": job_template("/bin/sh", "-c", self.script, terminationGracePeriodSeconds=1),
            "triggers": [trigger or self.trigger()],
        }
        await self.create(spec)

    def given(self) -> list[tuple[str, ...]]:
        """Claim, encoding, variable and file of every process that ran."""
        lines = self.truth.read_text().splitlines() if self.truth.exists() else []
        return [tuple(line.split("|")) for line in lines]

    def ran(self) -> list[str]:
        return sorted(item for _, _, item, _ in self.given())

    def go_on(self) -> None:
        """What waits may finish."""
        Path(f"{self.truth}.go").touch()

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

    async def running(self, items: int) -> None:
        async def so() -> bool:
            return len(self.given()) >= items

        await eventually(so, LONG)


@pytest.fixture
async def work(cluster: Cluster, queue: redis.Redis, source: ValkeyServer, tmp_path: Path) -> AsyncIterator[Work]:
    work = Work(cluster, queue, source.port, tmp_path / "truth")
    yield work
    work.go_on()
    await work.remove()


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


async def test_another_list_is_taken_from_when_the_old_one_is_settled(work: Work, broker: redis.Redis) -> None:
    await work.apply(most=1)
    await work.client.rpush(work.name, "wait-1", "wait-2")
    await work.running(1)
    await work.client.rpush(f"{work.name}-next", "next")
    changed = await work.patch({"spec": {"triggers": [work.trigger(listName=f"{work.name}-next")]}})
    store = Store(broker, Keys("penstock"), {})

    async def known() -> bool:
        # A process that has not observed the change yet takes the next item from the old list, as it must.
        entry = await store.get(work.ref)
        generation = changed["metadata"]["generation"]
        return bool(entry and entry.body and entry.body["metadata"]["generation"] == generation)

    await eventually(known, LONG)
    work.go_on()
    await work.running(2)
    assert work.ran() == ["next", "wait-1"]
    assert await work.client.lrange(work.name, 0, -1) == [b"wait-2"]
    text = (await work.body())["metadata"]["annotations"][LEDGER]
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


@cases(
    ("several triggers", ["list", "list"], "items are claimed from one trigger, and there are several"),
    ("a trigger without items", ["cron"], "items of trigger type cron cannot be claimed"),
)
async def test_what_cannot_be_claimed_is_said(triggers: list[str], message: str, work: Work) -> None:
    cron = {"timezone": "UTC", "start": "0 0 * * *", "end": "59 23 * * *", "desiredReplicas": "1"}
    known = {"list": work.trigger(), "cron": {"type": "cron", "metadata": cron}}
    await work.apply()
    await work.becomes("Ready", "True")
    await work.patch({"spec": {"triggers": [known[each] for each in triggers]}})
    assert message in await work.becomes("Ready", "False")
    assert await work.jobs() == []


async def test_an_emptied_broker_loses_no_item_and_runs_none_twice(work: Work, broker: redis.Redis) -> None:
    await work.apply(most=2, polling=1)
    await work.client.rpush(work.name, "wait-1", "wait-2", "later")
    await work.running(2)
    # Not all of it: the embedded cluster has its objects there too.
    for key in [key async for key in broker.scan_iter(match="{penstock}:*")]:
        await broker.delete(key)
    work.go_on()
    await work.settled(3)
    assert work.ran() == ["later", "wait-1", "wait-2"]
