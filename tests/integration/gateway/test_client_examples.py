"""The clients in examples/clients push an event each, as their first lines say."""

import asyncio
import shutil

import pytest
from redis.asyncio import Redis

from tests.support.gateway_rig import KEYS, GatewayRig
from tests.support.paths import ROOT
from tests.support.tables import cases

CLIENTS = ROOT / "examples" / "clients"
TOKEN = "a-token-of-some-length"


async def _run(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said = (await asyncio.wait_for(process.communicate(), 120))[0].decode()
    assert process.returncode == 0, said
    return said


def _require(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: its example was NOT run")


@cases(
    ("python", "python3", ("python3", "push.py"), "python-1"),
    ("javascript", "node", ("node", "push.mjs"), "javascript-1"),
    ("go", "go", ("go", "run", "push.go"), "go-1"),
    ("bash", "curl", ("bash", "push.sh"), "bash-1"),
)
async def test_a_client_pushes_an_event_over_http(
    needed: str, words: tuple[str, ...], id: str, rig: GatewayRig
) -> None:
    _require(needed)
    rig.secrets["team/senders"] = {"token": TOKEN}
    await rig.event_job("orders", push={"auth": [{"bearer": {"name": "senders", "key": "token"}}]})
    *program, file = words
    said = await _run(*program, str(CLIENTS / file), f"{rig.url}/events/team/orders", TOKEN)
    assert "202" in said
    [event] = await rig.accepted("orders")
    assert (event["id"], event["type"], event["source"]) == (id, "order.placed", "/shop")
    assert event["data"].replace(" ", "") == '{"total":12}'


async def test_a_client_pushes_an_event_without_http(redis_url: str, real_redis: Redis) -> None:
    _require("redis-cli")
    stream = f"{KEYS.tag}:events:team/orders"
    await _run("bash", str(CLIENTS / "push-redis.sh"), redis_url, stream)
    [(_, fields)] = await real_redis.xrange(stream)
    assert {b"specversion", b"id", b"source", b"type", b"data"} <= fields.keys()
