"""ScalePolicies with every process of ours, on the embedded API server: never more Jobs than allowed."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio as redis

from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import JOB, SCALE_POLICY, SCALED_JOB, Object, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "2", "policies": "true"}

#: Seconds that eight processes on a busy machine may take for anything.
LONG = 90.0

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def source() -> Iterator[ValkeyServer]:
    """A server that tells of pushes."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "Kl"}) as server:
        yield server


class Team:
    """ScaledJobs under one policy, their lists, and what their Jobs wrote."""

    def __init__(self, cluster: Cluster, client: redis.Redis, port: int, folder: Path) -> None:
        self.cluster, self.client, self.port, self.folder = cluster, client, port, folder
        self.name = f"team-{next(_numbers)}"
        self.policy = Ref(SCALE_POLICY, "", self.name)
        self.members: list[Ref] = []

    async def may(self, most: int) -> None:
        spec = {"maxJobs": most, "selector": {"matchLabels": {"team": self.name}}}
        body = {"apiVersion": SCALE_POLICY.api_version, "kind": "ScalePolicy", "metadata": {"name": self.name}}
        await self.cluster.create(SCALE_POLICY, {**body, "spec": spec})

    async def add(self, name: str, queue: str, *, claims: bool) -> Ref:
        ref = Ref(SCALED_JOB, "default", f"{self.name}-{name}")
        script = f'echo "${{PENSTOCK_ITEM-none}}" >> "{self.folder / name}"; sleep 0.3'
        container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
        trigger = {"address": f"127.0.0.1:{self.port}", "listName": f"{self.name}-{queue}", "listLength": "1"}
        spec = {
            "pollingInterval": 1,
            "maxReplicaCount": 6,
            "scalingStrategy": {"strategy": "claim" if claims else "default"},
            "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
            "triggers": [{"type": "redis", "metadata": trigger}],
        }
        metadata = {"namespace": ref.namespace, "name": ref.name, "labels": {"team": self.name}}
        body = {"apiVersion": SCALED_JOB.api_version, "kind": "ScaledJob", "metadata": metadata, "spec": spec}
        await self.cluster.create(SCALED_JOB, body)
        self.members.append(ref)

        async def under_it() -> bool:
            return (await self.capped(ref)).get("reason") == "WithinLimits"

        await eventually(under_it, LONG)
        return ref

    async def push(self, queues: dict[str, int]) -> None:
        """All at one moment."""
        async with self.client.pipeline() as pipe:
            for queue, number in queues.items():
                pipe.rpush(f"{self.name}-{queue}", *(f"{queue}-{each}" for each in range(number)))
            await pipe.execute()

    async def capped(self, ref: Ref) -> Object:
        return conditions.find(await self.cluster.get(ref), "Capped") or {}

    def ran(self, name: str) -> list[str]:
        """The items of every process that ran, or a word for one without."""
        path = self.folder / name
        return sorted(path.read_text().split()) if path.exists() else []

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[list[int]]:
        """How many unfinished Jobs there are, at every resourceVersion from now on."""
        selector = f"team={self.name}"
        there, version = await self.cluster.list(JOB, "default", label_selector=selector)
        assert not there
        counts: list[int] = []
        follower = asyncio.create_task(self._count(selector, version, counts))
        try:
            yield counts
        finally:
            assert not follower.done(), "the watch ended early"
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)

    async def _count(self, selector: str, version: str, counts: list[int]) -> None:
        unfinished: set[str] = set()
        events = self.cluster.watch(JOB, "default", resource_version=version, label_selector=selector, timeout=LONG * 3)
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            name = event.object["metadata"]["name"]
            if event.type == "DELETED" or conditions.finished(event.object):
                unfinished.discard(name)
            else:
                unfinished.add(name)
            counts.append(len(unfinished))

    async def leave(self) -> None:
        for ref in self.members:
            await self.cluster.delete(ref)
        await self.cluster.delete(self.policy)

        async def gone() -> bool:
            left, _ = await self.cluster.list(SCALED_JOB, "default", label_selector=f"team={self.name}")
            return not left

        await eventually(gone, LONG)


@pytest.fixture
async def team(running: House, source: ValkeyServer, tmp_path: Path) -> AsyncIterator[Team]:
    async with (
        await Cluster.connect(kubeconfig=running.kubeconfig) as cluster,
        redis.Redis(port=source.port) as client,
    ):
        team = Team(cluster, client, source.port, tmp_path)
        yield team
        await team.leave()


@pytest.mark.parametrize("queues", [("one", "two"), ("one", "one")], ids=["two lists", "one list"])
async def test_claimers_and_one_that_does_not_claim_never_have_more_jobs_than_the_limit(
    team: Team, queues: tuple[str, str]
) -> None:
    await team.may(4)
    for name, queue in zip("ab", queues, strict=True):
        await team.add(name, queue, claims=True)
    await team.add("plain", "plain", claims=False)
    items = dict.fromkeys((*queues, "plain"), 8)
    async with team.counted() as counts:
        await team.push(items)

        async def claimed_items_ran() -> bool:
            return len(team.ran("a")) + len(team.ran("b")) >= 8 * len(set(queues))

        await eventually(claimed_items_ran, LONG)
        assert team.ran("plain"), "it had its share"
        await team.client.delete(f"{team.name}-plain")
        assert sorted(team.ran("a") + team.ran("b")) == sorted(
            f"{queue}-{each}" for queue in set(queues) for each in range(8)
        )
    assert max(counts) == 4


async def test_one_that_claims_says_what_keeps_it(team: Team) -> None:
    await team.may(0)
    ref = await team.add("a", "one", claims=True)
    await team.push({"one": 3})

    async def held() -> bool:
        return (await team.capped(ref)).get("status") == "True"

    await eventually(held, LONG)
    assert (await team.capped(ref))["message"] == f"3 Jobs are wanted and 0 allowed by ScalePolicy {team.name}"
    assert team.ran("a") == []
    await team.cluster.patch(team.policy, {"spec": {"maxJobs": 2}})

    async def all_ran() -> bool:
        return len(team.ran("a")) == 3

    await eventually(all_ran, LONG)
    assert team.ran("a") == ["one-0", "one-1", "one-2"]
