"""Gateways under kill -9 while senders push: every event that was acknowledged is in the channel, and none twice."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from redis.asyncio import Redis

from tests.support.conditions import eventually
from tests.support.gateway_rig import KEYS, GatewayRig
from tests.support.ports import free_port

pytestmark = pytest.mark.timeout(300)

SENDERS, EVENTS = 12, 60
#: Seconds that a process may take to start on a busy machine.
START = 90.0


@contextmanager
def process(folder: Path, broker: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A gateway."""
    kubeconfig = folder / "kubeconfig"
    cluster = {"server": "http://127.0.0.1:9"}
    context = {"cluster": "none", "user": "none"}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "none", "cluster": cluster}],
                "users": [{"name": "none", "user": {"token": "none"}}],
                "contexts": [{"name": "none", "context": context}],
                "current-context": "none",
            }
        )
    )
    variables = {"BROKER": broker, "PREFIX": KEYS.prefix, "KUBECONFIG": str(kubeconfig), "PAGE": "off"}
    variables["GATEWAY"] = f"127.0.0.1:{port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    environment = {**kept, **{f"PENSTOCK_{name}": value for name, value in variables.items()}}
    with (
        (folder / f"gateway-{port}.log").open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", "deploy.cli.main", "gateway"], env=environment, stdout=log, stderr=log
        ) as gateway,
    ):
        try:
            yield gateway
        finally:
            gateway.kill()


async def ready(http: aiohttp.ClientSession, port: int) -> None:
    async def answers() -> bool:
        try:
            async with http.get(f"http://127.0.0.1:{port}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    await eventually(answers, START)


async def test_what_was_acknowledged_is_there_once(redis_url: str, real_redis: Redis, tmp_path: Path) -> None:
    rig = GatewayRig(real_redis, redis_url)
    await rig.event_job("orders", maxEvents=100_000)
    ports = [free_port(), free_port()]
    acknowledged: Counter[str] = Counter()
    tried: set[str] = set()

    async def sender(http: aiohttp.ClientSession, number: int) -> None:
        for event in range(EVENTS):
            id_ = f"{number}-{event}"
            # Every third event is pushed once, whatever becomes of it.
            for attempt in range(1 if event % 3 == 0 else 10_000):
                tried.add(id_)
                url = f"http://127.0.0.1:{ports[(number + attempt) % 2]}/events/team/orders"
                try:
                    async with http.post(url, headers={"Idempotency-Key": id_}) as response:
                        if response.status == 202:
                            acknowledged[id_] += 1
                            break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)

    async with aiohttp.ClientSession() as http:
        with process(tmp_path, redis_url, ports[1]) as second:
            with process(tmp_path, redis_url, ports[0]) as first:
                await asyncio.gather(*(ready(http, port) for port in ports))
                senders = [asyncio.create_task(sender(http, number)) for number in range(SENDERS)]
                await eventually(lambda: acknowledged.total() > 100, START)
                first.kill()
            with process(tmp_path, redis_url, ports[0]):
                await ready(http, ports[0])
                second.kill()
                await asyncio.gather(*senders)
    accepted = Counter(event["id"] for event in await rig.accepted("orders"))
    assert set(accepted.values()) == {1}
    assert acknowledged.keys() <= accepted.keys() <= tried
    assert {f"{number}-{event}" for number in range(SENDERS) for event in range(EVENTS) if event % 3} <= accepted.keys()
