"""Every process behind sentinels, with the least rights, and the master is killed: no event is lost or has two Jobs."""

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest

from deploy.local import up
from deploy.local.parts import UpOptions
from scheduler.broker import clients, permissions
from tests.chaos.parts import Over, settings
from tests.chaos.patience import everything, until
from tests.support.broker_servers import trio
from tests.support.fork_parent import FORKS
from workers.api import conditions
from workers.api.job_annotations import EVENT
from workers.api.kinds import EVENT_JOB, JOB, Object
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(420)

EVENTS = 16
EVENT_JOB_BODY = {
    "apiVersion": "penstock.dev/v1alpha1",
    "kind": "EventJob",
    "metadata": {"name": "orders", "namespace": "default"},
    "spec": {
        "concurrency": {"total": 4},
        "jobTemplate": {
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none", "command": ["true"]}]}}}
        },
    },
}


def test_a_master_that_is_killed_loses_no_event_that_its_replica_has_and_makes_no_second_job(tmp_path: Path) -> None:
    with contextlib.suppress(Over):
        asyncio.run(_run(tmp_path))


async def _run(folder: Path) -> None:
    async with trio(folder / "servers") as servers:
        for each in (servers.master, servers.replica):
            await each.ask("ACL", "SETUSER", "penstock", "reset", "on", ">pw", *permissions.rules())
        url = servers.url.replace("//:hunter2@", "//penstock:pw@")

        async def happen(running: up.RunningPart) -> None:
            async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster, clients.client(url) as broker:
                await cluster.create(EVENT_JOB, EVENT_JOB_BODY)
                for number in range(EVENTS):
                    event = {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "placed"}
                    await broker.xadd("{penstock}:events:default/orders", event)  # type: ignore[arg-type]

                async def completed(number: int) -> bool:
                    return (
                        sum(conditions.finished(job) == "Complete" for job in await everything(cluster, JOB)) >= number
                    )

                await until(lambda: completed(3))
                assert await broker.wait(1, 10_000) == 1
                servers.master.kill()
                await until(lambda: completed(EVENTS))
                jobs = await everything(cluster, JOB)
                assert Counter(map(_event, jobs)) == Counter({str(number): 1 for number in range(EVENTS)})
                assert not await servers.replica.ask("ACL", "LOG"), "a command was refused"
            raise Over

        with FORKS.forking() as forks:
            await up.run(UpOptions(settings(folder / "home", broker=url)), started=happen, forks=forks)


def _event(job: Object) -> str:
    return str(json.loads(job["metadata"]["annotations"][EVENT])["id"])
