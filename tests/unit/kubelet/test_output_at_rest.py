"""Copying the output of containers, and the rest between two of them."""

import asyncio
from pathlib import Path
from typing import Any

from deploy.local.kubelet.pods.host import Host
from tests.support.conditions import eventually


class _Output:
    def __init__(self) -> None:
        self.pumped = 0

    def pump(self) -> None:
        self.pumped += 1


def _host(folder: Path) -> Host:
    nothing: Any = None
    return Host("local", folder, folder, *[nothing] * 8)


async def test_it_sets_no_timer_while_no_container_runs(tmp_path: Path) -> None:
    host, output = _host(tmp_path), _Output()
    copying = asyncio.create_task(host.copy_output())
    loop: Any = asyncio.get_running_loop()

    async def timers() -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        return len([timer for timer in loop._scheduled if not timer.cancelled()])

    assert await timers() == 0
    with host.following(output):  # type: ignore[arg-type]
        assert await timers() == 1
        await eventually(lambda: output.pumped > 1)
    # The pause that has begun ends, and no other one begins.
    await eventually(lambda: not [timer for timer in loop._scheduled if not timer.cancelled()])
    assert await timers() == 0
    copying.cancel()
