"""ScalePolicies with every process of ours, on the embedded API server: never more Jobs than allowed."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio as redis

from tests.integration.controllers.keda_objects import LONG, job_template, manifest, remove, unfinished_jobs
from tests.support.conditions import eventually
from tests.support.tables import cases
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import SCALE_POLICY, SCALED_JOB, Object, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "2", "policies": "true"}

_numbers = itertools.count(1)


class Team:
    """ScaledJobs under one policy, their lists, and what their Jobs wrote."""

    def __init__(self, cluster: Cluster, client: redis.Redis, port: int, folder: Path) -> None:
        self.cluster, self.client, self.port, self.folder = cluster, client, port, folder
        self.name = f"team-{next(_numbers)}"
        self.policy = Ref(SCALE_POLICY, "", self.name)
        self.members: list[Ref] = []

    async def may(self, most: int) -> None:
        spec = {"maxJobs": most, "selector": {"matchLabels": {"team": self.name}}}
        await self.cluster.create(SCALE_POLICY, manifest(self.policy, spec))

    async def add(self, name: str, queue: str, *, claims: bool) -> Ref:
        ref = Ref(SCALED_JOB, "default", f"{self.name}-{name}")
        script = f'echo "${{PENSTOCK_ITEM-none}}" >> "{self.folder / name}"; sleep 0.3'
        trigger = {"address": f"127.0.0.1:{self.port}", "listName": f"{self.name}-{queue}", "listLength": "1"}
        spec = {
            "pollingInterval": 1,
            "maxReplicaCount": 6,
            "scalingStrategy": {"strategy": "claim" if claims else "default"},
            "jobTargetRef": job_template("/bin/sh", "-c", script),
            "triggers": [{"type": "redis", "metadata": trigger}],
        }
        await self.cluster.create(SCALED_JOB, manifest(ref, spec, metadata={"labels": {"team": self.name}}))
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


@pytest.fixture
async def team(cluster: Cluster, queue: redis.Redis, source: ValkeyServer, tmp_path: Path) -> AsyncIterator[Team]:
    team = Team(cluster, queue, source.port, tmp_path)
    yield team
    for ref in (*team.members, team.policy):
        await remove(cluster, ref)


@cases(("two lists", ("one", "two")), ("one list", ("one", "one")))
async def test_claimers_and_one_that_does_not_claim_never_have_more_jobs_than_the_limit(
    queues: tuple[str, str], team: Team
) -> None:
    await team.may(4)
    for name, queue in zip("ab", queues, strict=True):
        await team.add(name, queue, claims=True)
    await team.add("plain", "plain", claims=False)
    items = dict.fromkeys((*queues, "plain"), 8)
    async with unfinished_jobs(team.cluster, f"team={team.name}") as counts:
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
