"""examples/scaledjob-celery.yaml as it stands: workers come with the tasks, do each once, and go."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis
import yaml
from celery import Celery

from tests.support.conditions import eventually
from tests.support.house import House, house
from tests.support.paths import ROOT
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import JOB, SCALED_JOB, Object
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

#: Seconds that eight processes on a busy machine may take for anything.
LONG = 90.0
EXAMPLE = ROOT / "examples" / "scaledjob-celery.yaml"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[House]:
    with house("embedded", tmp_path / "house", polling="2") as house_:
        yield house_


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of the application's broker."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "Kl"}) as server:
        yield f"{server.connection_url}/0"


def example(broker: str) -> Object:
    """With this broker, and with the Python that has Celery; what a task prints goes to the broker as well."""
    body: Any = yaml.safe_load(EXAMPLE.read_text())
    body["metadata"]["namespace"] = "default"
    (container,) = body["spec"]["jobTargetRef"]["template"]["spec"]["containers"]
    container["command"][0] = sys.executable
    container["env"][0]["value"] = broker
    container["args"][0] = "import redis\n" + container["args"][0].replace(
        "    print(", "    redis.Redis.from_url(os.environ['CELERY_BROKER_URL']).hincrby('done', number)\n    print("
    )
    return dict(body)


async def test_workers_come_with_the_tasks_and_go(running: House, server: str) -> None:
    app = Celery(broker=server)
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster, redis.Redis.from_url(server) as client:
        await cluster.create(SCALED_JOB, example(server))

        async def jobs() -> list[Object]:
            return (await cluster.list(JOB, "default", label_selector="scaledjob.keda.sh/name=reports"))[0]

        for number in range(8):
            app.send_task("report", (number,), queue="reports")
        await eventually(lambda: _all_done(client, 8), LONG)

        async def gone() -> bool:
            found = await jobs()
            return bool(found) and all(conditions.finished(job) for job in found)

        await eventually(gone, LONG)
        found = await jobs()
        assert [conditions.finished(job) for job in found] == ["Complete"] * len(found)
        assert len(found) == 2, "four tasks each"
        assert await client.hgetall("done") == {str(number).encode(): b"1" for number in range(8)}
        assert await client.hlen("unacked") == 0
    app.close()


async def _all_done(client: redis.Redis, number: int) -> bool:
    return await client.hlen("done") == number
