"""A watch process that is stopped and wakes up never passes off what it slept through as the present."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis.asyncio as redis_async

from scheduler.keys import Keys
from tests.support.conditions import eventually
from workers.api.kinds import JOB, Object, Ref
from workers.cache.observations import ObserveRequest
from workers.cache.store import Store
from workers.client.rest import Cluster


@contextmanager
def watching(kubeconfig: Path, broker: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A real ``penstock watch`` process."""
    settings = {"BROKER": broker, "KUBECONFIG": str(kubeconfig), "PREFIX": "test", "STALE": "2"}
    environment = {**os.environ, **{f"PENSTOCK_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "deploy.cli.main", "watch"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def job(namespace: str, name: str) -> Object:
    container = {"name": "main", "image": "none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


async def test_a_stopped_informer_never_looks_fresh(
    cluster_config: Path,
    cluster: Cluster,
    namespace: str,
    redis_url: str,
    real_redis: redis_async.Redis,
    tmp_path: Path,
) -> None:
    store = Store(real_redis, Keys("test"), {})
    ref = Ref(JOB, namespace, "slept-through")

    async def age() -> float:
        known = (await store.freshness([JOB]))[JOB.id]
        return float("inf") if known is None else known

    async def fresh() -> bool:
        return await age() < 1.5

    async def stale() -> bool:
        return await age() > 2

    async def honest() -> bool:
        """Answers whether the object has arrived; until then the kind must not be younger than its creation."""
        observed = await store.observe([ObserveRequest(ref)])
        entry = observed.observations[0].entry
        younger = observed.ages[JOB.id]
        assert entry is not None or younger is None or younger > 1.5, f"fresh by {younger} s without the object"
        return entry is not None

    with watching(cluster_config, redis_url, tmp_path / "watch.log") as process:
        await eventually(fresh, within=60)
        process.send_signal(signal.SIGSTOP)
        await cluster.create(JOB, job(namespace, "slept-through"))
        await eventually(stale)
        process.send_signal(signal.SIGCONT)
        await eventually(honest)
        await eventually(fresh)
