"""Two of each process, and one of them is killed, stands still or is cut off: the other one does the work, once.

CI runs one case of each sort; `CHAOS_MATRIX=full` runs every process under every disaster.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.chaos.disasters import API_DEAF, DISASTERS, FROZEN, KILLED, MUTE, NO_BROKER, Disaster, victim
from tests.chaos.patience import beside
from tests.support.members import PARTS, Installation, installation
from tests.support.workload import Workload, workload

pytestmark = pytest.mark.timeout(1800 if os.environ.get("CHAOS_MATRIX") else 420)

log = logging.getLogger(__name__)

#: Each step is a set of processes and what comes upon them at once.
FULL = [{part: disaster} for part in PARTS for disaster in DISASTERS]
SOME = [
    {"watch": KILLED},
    {"worker": KILLED, "scaler": KILLED, "beat": KILLED, "gateway": KILLED},
    {"watch": FROZEN, "worker": FROZEN, "scaler": FROZEN},
    {"watch": NO_BROKER, "worker": API_DEAF},
    {"worker": NO_BROKER, "scaler": MUTE},
]


async def strike(made: Installation, work: Workload, step: dict[str, Disaster]) -> float:
    """Returns the seconds until work passes through what is left. Undoes the step then."""
    struck = [(await victim(made, work, part), disaster) for part, disaster in step.items()]
    for member, disaster in struck:
        disaster.begin(member)
    began = time.monotonic()
    # Nothing is mended before others have done the work.
    await work.probe()
    await work.event()
    took = time.monotonic() - began
    for member, disaster in struck:
        if disaster.end:
            disaster.end(member)
        else:
            made.start(member.part, int(member.name.partition("-")[2]))
    await made.ready()
    return took


async def test_the_other_one_takes_over_and_everything_is_done_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    steps: Sequence[dict[str, Disaster]] = FULL if os.environ.get("CHAOS_MATRIX") == "full" else SOME
    with installation(tmp_path) as made:
        async with workload(made) as work:
            for part in PARTS:
                for number in (1, 2):
                    made.start(part, number)
            await made.ready()
            await work.probe()
            async with beside(work.feed(0.5)) as [feeding]:
                for step in steps:
                    named = ", ".join(f"{part} {disaster.name}" for part, disaster in step.items())
                    took = await strike(made, work, step)
                    log.warning("%s: %.1f s", named, took)
                    record_property(named, round(took, 1))
                assert not feeding.done()
            await work.settle()
            assert await work.faults() == []
