"""The last release and this one side by side, with work in flight: up, and down again; and a format of the future."""

import signal
from pathlib import Path

import pytest
import redis.asyncio as redis

from penstock._broker_format import FORMAT
from scheduler.keys import Keys
from tests.chaos.patience import beside
from tests.support.conditions import eventually
from tests.support.members import PARTS, PATIENCE, Installation, Member, installation
from tests.support.workload import workload
from tests.upgrade.releases import definitions, last_release

pytestmark = pytest.mark.timeout(420)

KEY = Keys().format
NEWER = FORMAT + 1


async def start_all(made: Installation, tree: Path | None = None) -> list[Member]:
    members = [made.start(part, 1, tree=tree) for part in PARTS]
    await made.ready()
    return members


def stop_all(members: list[Member]) -> None:
    for member in members:
        member.process.send_signal(signal.SIGTERM)
    for member in members:
        member.process.wait(PATIENCE)


async def test_releases_share_a_broker_up_and_down_and_everything_is_done_once(tmp_path: Path):
    tree = last_release(tmp_path)
    with installation(tmp_path) as made:
        async with workload(made, definitions(tree)) as work, redis.Redis.from_url(made.broker_url) as broker:
            old = await start_all(made, tree)
            async with beside(work.feed(0.5)) as [feeding]:
                await work.probe()
                assert await broker.get(KEY) == str(FORMAT).encode()
                new = await start_all(made)
                await work.probe()
                stop_all(old)
                # The definitions follow the processes here; before them is as good: `work` began with those of old.
                await work.define()
                await work.probe()

                old = await start_all(made, tree)
                # A release of the future raises the format under both.
                await broker.set(KEY, NEWER)
                await eventually(lambda: not any(member.alive for member in (*old, *new)), PATIENCE)
                refusal = f"has format {NEWER}; this release reads 0, 1, 2 and {FORMAT}"
                for member in (*old, *new):
                    assert refusal in member.output, member.output
                    assert (member.process.returncode == 0) is (member.part in ("worker", "scaler")), member.output
                    del made.members[member.name]
                refused = made.start("worker", 2)
                await eventually(lambda: not refused.alive, PATIENCE)
                assert refused.process.returncode != 0
                assert "A newer release wrote it: start that release" in refused.output
                del made.members[refused.name]
                await broker.set(KEY, FORMAT)
                await start_all(made, tree)
                await work.probe()
                assert not feeding.done()
            await work.settle()
            assert await work.faults() == []
