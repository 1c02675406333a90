"""The embedded API server: the time until it answers, and its memory at rest, with Jobs, and after they are deleted."""

import asyncio
import os
import tempfile
from pathlib import Path
from time import perf_counter

import psutil

from deploy.local.apiserver.storage import paging
from tests.benchmarks.harness import IN_FLIGHT, Figure, broker, side_by_side
from tests.benchmarks.manifests import body
from tests.support.embedded import Embedded, embedded_apiserver
from workers.api.kinds import JOB, Object
from workers.client.rest import Cluster
from workers.runtime import free_memory

#: BENCH_OBJECTS shortens a run.
OBJECTS = int(os.environ.get("BENCH_OBJECTS", "10000"))
#: A Job of 3 kB as the server answers it.
_ENV = [{"name": f"NAME_{number}", "value": "x" * 60} for number in range(25)]
_CONTAINER: Object = {"name": "main", "image": "none", "command": ["true"], "env": _ENV}
_SPEC: Object = {"template": {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}}


async def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, broker() as store:
        begun = perf_counter()
        with embedded_apiserver(Path(folder), store, forked=False) as server:
            ready = perf_counter() - begun
            sizes = await _sizes(server)
    group = f"embedded API server, {OBJECTS:,} Jobs of 3 kB"
    return [Figure(group, "ready", ready, "s"), *(Figure(group, name, size, "MB") for name, size in sizes.items())]


async def _sizes(server: Embedded) -> dict[str, float]:
    """Resident memory at several moments."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    found: dict[str, float] = {}

    def note(moment: str) -> None:
        found[moment] = process.memory_info().rss / 1e6

    connected = await Cluster.connect(kubeconfig=server.kubeconfig, context=None, timeout=120.0, in_flight=IN_FLIGHT)
    async with connected as cluster:

        async def post(number: int) -> None:
            await cluster.create(JOB, body(JOB, f"job-{number}", spec=_SPEC))

        await post(OBJECTS)
        note("at rest")
        await side_by_side(post, OBJECTS)
        note("with them")
        await cluster.list(JOB)
        note("listed")
        await cluster.request("DELETE", JOB.path("default"), query={"propagationPolicy": "Background"})
        note("deleted")
        # The pages of the list are forgotten, and then what was freed goes back to the system.
        await asyncio.sleep(paging.AGE_READ + 2 * free_memory.INTERVAL)
        note("a while later")
    await asyncio.sleep(2 * free_memory.INTERVAL)
    note("without clients")
    return found
