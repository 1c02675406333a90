"""``penstock push --gateway``: what arrives, and what is refused before a token is sent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deploy.cli.main import run
from deploy.cli.objects import gateway_push
from deploy.cli.objects.gateway_push import GatewayTarget
from tests.support.gateway_rig import GatewayRig
from tests.support.servers import answering
from tests.support.tables import cases
from workers.errors import UserError

TOKEN = "a-token-of-some-length"
AUTH = {"auth": [{"bearer": {"name": "senders", "key": "token"}}]}


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return str(file)


async def penstock(*words: str) -> int:
    """Runs the command beside the gateway's event loop; returns its code."""

    return await asyncio.to_thread(run, list(words))


async def test_an_event_arrives_as_it_was_given(rig: GatewayRig, token: str, capfd: pytest.CaptureFixture[str]) -> None:
    rig.secrets["team/senders"] = {"token": TOKEN}
    await rig.event_job("orders", push=AUTH)
    words = ["push", "orders", "-n", "team", "--gateway", rig.url, "--token-file", token, "--id", "7"]
    words += ["--subject", 'Grüße, "100 %"', "--data", '{"n": 1.0}', "--content-type", "application/json"]
    assert await penstock(*words) == 0
    assert await penstock("push", "orders", "-n", "team", "--gateway", rig.url, "--token-file", token) == 0
    first, second = await rig.accepted("orders")
    assert capfd.readouterr().out.split() == ["7", second["id"]]
    assert first["subject"] == 'Grüße, "100 %"'
    assert (first["data"], first["datacontenttype"]) == ('{"n": 1.0}', "application/json")
    assert not {"data", "data_base64", "datacontenttype"} & set(second)


async def test_a_refusal_is_told_without_the_token(
    rig: GatewayRig, token: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.secrets["team/senders"] = {"token": "another-token-of-some-length"}
    await rig.event_job("orders", push=AUTH)
    assert await penstock("push", "orders", "-n", "team", "--gateway", rig.url, "--token-file", token) == 1
    told = capfd.readouterr()
    assert "team/orders: the event: 401 " in told.err
    assert TOKEN not in told.err + told.out
    unused = "http://127.0.0.1:1"
    assert await penstock("push", "orders", "--gateway", unused) == 1
    assert unused in capfd.readouterr().err


async def _silent(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(60)
    raise AssertionError


async def _broken(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def _unsure(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"detail": "the broker does not answer"}, status=503)


async def _sure(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"detail": "there is no room"}, status=429)


@cases(
    ("no answer", _silent, "no answer within 0.3 s", True),
    ("a connection that breaks", _broken, "", True),
    ("an answer that does not know", _unsure, "503 the broker does not answer", True),
    ("a refusal", _sure, "429 there is no room", False),
)
async def test_what_may_have_been_taken_is_told_with_its_id(answer: Any, said: str, unsure: bool) -> None:
    """The command makes the id; with another one the event would run twice."""
    event = {"specversion": "1.0", "id": "made-by-the-command", "source": "/s", "type": "t"}
    async with answering(answer) as url, gateway_push.connected(GatewayTarget(url, "a", "b", patience=0.3)) as push:
        refusal = await push(event)
    assert said in refusal
    assert ("pushed again with its id, made-by-the-command" in refusal) == unsure


@cases(
    ("https", "https://events.example.org", TOKEN, True),
    ("this machine", "http://127.0.0.1:8080", TOKEN, True),
    ("localhost", "http://localhost:8080/", TOKEN, True),
    ("in the clear", "http://events.example.org", TOKEN, False),
    ("in the clear without a token", "http://events.example.org", "", True),
    ("another scheme", "ftp://events.example.org", "", False),
    ("no host", "https://", "", False),
    ("a password", "https://me:secret@events.example.org", "", False),
)
def test_tokens_are_not_sent_in_the_clear(url: str, token: str, allowed: bool) -> None:
    target = GatewayTarget(url, "team", "orders", token)
    if allowed:
        gateway_push.check(target)
        return
    with pytest.raises(UserError, match="--gateway"):
        gateway_push.check(target)


@cases(("empty", b"\n"), ("two lines", b"a\nb"), ("no text", b"\xff\xfe"), ("not ASCII", "ü".encode()))
def test_a_file_without_a_token_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    for each in (str(file), str(tmp_path / "missing")):
        with pytest.raises(UserError, match=f"--token-file: {each}"):
            gateway_push.read_token(each)
