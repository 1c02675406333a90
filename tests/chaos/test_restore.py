"""An installation at work loses its broker for good, and goes on from a backup, as docs/backup.md tells an operator."""

import asyncio
from pathlib import Path

import pytest
import redis.asyncio as redis

from tests.chaos.patience import beside
from tests.support.conditions import eventually
from tests.support.members import PARTS, Installation, installation
from tests.support.terminal import Terminal
from tests.support.workload import EVENTS, Workload, subject_of, workload
from workers.api.kinds import EVENT_JOB, Ref

pytestmark = pytest.mark.timeout(420)

#: Pods at once: of the events that come together, most wait when the backup is taken.
PODS = 3
BURST = 25
#: Pieces of work that are done after the backup, before the loss.
AFTER = 5


async def test_an_installation_that_lost_its_broker_goes_on_from_a_backup(tmp_path: Path) -> None:
    with installation(tmp_path, pods=PODS, lease="5") as made:
        terminal = Terminal({"PENSTOCK_BROKER": made.broker_url, "PENSTOCK_KUBECONFIG": str(made.kubeconfig)}, tmp_path)

        async def typed(*words: str, code: int = 0) -> str:
            return await asyncio.to_thread(terminal.type, *words, code=code)

        async with workload(made) as work:
            await work.cluster.patch(Ref(EVENT_JOB, "default", EVENTS), {"spec": {"concurrency": {"total": 2}}})
            await _started(made)
            async with beside(work.feed(0.3)):
                await work.probe()
                await asyncio.gather(*(work.event() for _ in range(BURST)))
                before = set(work.events)
                assert "deliver" in await typed("backup", "a.backup")
                # Of what comes later some is done, and some is under way.
                done = await work.done()
                await eventually(lambda: _more(work, done), told=lambda: "more is done after the backup")
            assert before - await work.done(), "all of it was done before the loss"

            await asyncio.to_thread(made.broker.terminate)
            await asyncio.to_thread(made.broker.start)
            # Processes work on with the new one, and accept what is pushed.
            await work.event()
            assert "processes of Penstock are connected" in await typed("restore", "a.backup", code=1)
            made.stop()
            assert "(FLUSHDB)" in await typed("restore", "a.backup", code=1)
            async with redis.Redis.from_url(made.broker_url) as client:
                await client.flushdb()
            assert "objects restored" in await typed("restore", "a.backup")

            # What was accepted after the backup is lost unless its Job is there.
            work.events &= before | {subject_of(job) for job in await work.jobs()}
            await _started(made)
            await work.probe()
            await work.settle()
            assert await work.faults() == []
            shown = await typed("events", "list", EVENTS, "--limit", "1000")
            assert all(name in shown for name in before)


async def _started(made: Installation) -> None:
    for part in PARTS:
        made.start(part, 1)
    await made.ready()


async def _more(work: Workload, done: set[str]) -> bool:
    return len(await work.done() - done) >= AFTER
