"""Who may push, over HTTP: signed deliveries, service accounts and Secrets of a real API server, and other tenants."""

import asyncio
import hashlib
import hmac
import itertools
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.gateway_rig import KEYS, GatewayRig, gateway_rig
from workers.api.kinds import NAMESPACE, SECRET, SERVICE_ACCOUNT
from workers.client.rest import Cluster
from workers.errors import AlreadyExists

SECRET_TEXT = "It's a Secret to Everybody"
ISSUE = json.dumps({"action": "opened", "repository": {"html_url": "https://github.com/o/r"}}).encode()
HOOKS = {"auth": [{"signature": {"scheme": "github", "secret": {"name": "hooks", "key": "github"}}}]}


def delivered(id_: str, body: bytes = ISSUE, event: str = "issues") -> dict[str, str]:
    signature = hmac.new(SECRET_TEXT.encode(), body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-github-delivery": id_,
        "x-github-event": event,
        "x-hub-signature-256": f"sha256={signature}",
    }


async def test_a_delivery_of_github_becomes_one_event_however_often_it_is_sent(rig: GatewayRig) -> None:
    rig.secrets["team/hooks"] = {"github": SECRET_TEXT}
    await rig.event_job("issues", push=HOOKS)
    for duplicate in (False, True):
        status, answer, _ = await rig.push("team/issues", headers=delivered("d-1"), data=ISSUE)
        assert (status, answer["id"], answer["duplicate"]) == (202, "d-1", duplicate)
    [event] = await rig.accepted("issues")
    assert (event["type"], event["source"]) == ("com.github.issues.opened", "https://github.com/o/r")
    # GitHub signs the body alone: two deliveries with one body are the first one, under whatever id.
    for again in (delivered("d-2"), delivered("d-1", event="deployment")):
        status, answer, _ = await rig.push("team/issues", headers=again, data=ISSUE)
        assert (status, answer["id"], answer["duplicate"]) == (202, "d-1", True)
    forged: tuple[Mapping[str, str], ...] = (
        {**delivered("d-1"), "x-hub-signature-256": "sha256=" + "0" * 64},
        {name: text for name, text in delivered("d-1").items() if name != "x-hub-signature-256"},
    )
    statuses = [(await rig.push("team/issues", headers=each, data=ISSUE))[0] for each in forged]
    assert statuses == [401, 401]
    # Headers that the signature does not cover name no other event.
    more = {**delivered("d-1"), "ce-id": "x", "ce-source": "/x", "ce-type": "x", "ce-specversion": "1.0"}
    status, answer, _ = await rig.push("team/issues", headers={**more, "idempotency-key": "y"}, data=ISSUE)
    assert (status, answer["id"], answer["duplicate"]) == (202, "d-1", True)


@pytest.mark.parametrize("dedup", [{"windowSeconds": 0}, {"limit": 1}, {"windowSeconds": 3600}], ids=str)
async def test_a_signed_request_that_is_repeated_is_one_event_whatever_the_channel_remembers(
    rig: GatewayRig, dedup: Mapping[str, int]
) -> None:
    rig.secrets["team/hooks"] = {"github": SECRET_TEXT}
    await rig.event_job("issues", push=HOOKS, dedup=dedup)
    answers = await asyncio.gather(
        *(rig.push("team/issues", headers=delivered("d-1"), data=ISSUE) for _ in range(5)),
        *(rig.push("team/issues", headers=delivered("d-2", b"{}"), data=b"{}") for _ in range(5)),
    )
    assert [status for status, _, _ in answers] == [202] * 10
    assert sum(not answer["duplicate"] for _, answer, _ in answers) == 2
    assert sorted(event["id"] for event in await rig.accepted("issues")) == ["d-1", "d-2"]
    signed = f"{KEYS.channel('team', 'issues')}:signed"
    assert 3_590_000 < await rig.client.pttl(signed) <= 3_600_000


async def test_a_signed_request_for_which_there_was_no_room_may_come_again(rig: GatewayRig) -> None:
    rig.secrets["team/hooks"] = {"github": SECRET_TEXT}
    await rig.event_job("issues", push=HOOKS, dedup={"windowSeconds": 0}, maxEvents=1)
    assert (await rig.push("team/issues", headers=delivered("d-1"), data=ISSUE))[0] == 202
    assert (await rig.push("team/issues", headers=delivered("d-2", b"{}"), data=b"{}"))[0] == 429
    await rig.client.delete(f"{KEYS.channel('team', 'issues')}:accepted")
    status, answer, _ = await rig.push("team/issues", headers=delivered("d-2", b"{}"), data=b"{}")
    assert (status, answer["duplicate"]) == (202, False)


async def test_the_handshake_of_slack_is_answered_and_is_no_event(rig: GatewayRig) -> None:
    rig.secrets["team/hooks"] = {"slack": SECRET_TEXT}
    auth = [{"signature": {"scheme": "slack", "secret": {"name": "hooks", "key": "slack"}}}]
    await rig.event_job("mentions", push={"auth": auth})
    body, now = b'{"type":"url_verification","challenge":"3eZbrw1aB"}', str(int(time()))
    signature = hmac.new(SECRET_TEXT.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": now, "x-slack-signature": f"v0={signature}"}
    assert (await rig.push("team/mentions", headers=headers, data=body))[:2] == (200, "3eZbrw1aB")
    assert (await rig.push("team/mentions", headers={**headers, "x-slack-signature": "v0=00"}, data=body))[0] == 401
    assert await rig.accepted("mentions") == []


async def prepared(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Makes a tenant; returns the tokens of its Secret and of its account, for the gateway and for the API server."""
    with suppress(AlreadyExists):
        await cluster.create(NAMESPACE, {"metadata": {"name": namespace}})
    token = f"token-of-{namespace}-000000"
    secret = {"metadata": {"name": "pushers", "namespace": namespace}, "stringData": {"ci": token}}
    account = {"metadata": {"name": "builder", "namespace": namespace}}
    await cluster.create(SECRET, secret)
    await cluster.create(SERVICE_ACCOUNT, account)

    async def issued(*audiences: str) -> str:
        path = SERVICE_ACCOUNT.path(namespace, "builder", "token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}}
        return str((await cluster.request("POST", path, body=body))["status"]["token"])

    return {"bearer": token, "account": await issued("penstock"), "api": await issued()}


WAYS: Mapping[str, Any] = {
    "bearer": {"auth": [{"bearer": {"name": "pushers", "key": "ci"}}]},
    "account": {"auth": [{"serviceAccount": {"name": "builder"}}]},
    "nothing": {},
}


async def test_no_token_reaches_what_it_is_not_for(
    cluster: Cluster, redis_url: str, real_redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tenants = ("one", "two")
    tokens = {(tenant, way): token for tenant in tenants for way, token in (await prepared(cluster, tenant)).items()}
    answers, bodies = {}, set()
    async with gateway_rig(redis_url, real_redis, cluster=cluster) as rig:
        for tenant, way in itertools.product(tenants, WAYS):
            await rig.event_job(way, tenant, push=WAYS[way])
        for owner, target in itertools.product(tokens, itertools.product(tenants, (*WAYS, "missing"))):
            headers = {"authorization": f"Bearer {tokens[owner]}", "content-type": "text/plain"}
            status, answer, _ = await rig.push("/".join(target), headers=headers, data="x")
            answers[owner, target] = status
            if status != 202:
                bodies.add(json.dumps(answer))
        assert (await rig.push("one/account", data=b"x"))[0] == 401
    accepted = {(owner, target) for (owner, target), status in answers.items() if status == 202}
    assert accepted == {((tenant, way), (tenant, way)) for tenant in tenants for way in ("bearer", "account")}
    assert set(answers.values()) == {202, 401}
    # A refusal is the same for a target that exists and for one that does not.
    assert len(bodies) == 1
    told = [*bodies, *(str(vars(record)) for record in caplog.records if not record.name.startswith("asyncio"))]
    assert [token for token in tokens.values() for text in told if token in text] == []


async def test_a_missing_right_of_the_gateway_is_no_refusal_of_the_sender(
    embedded_config: Path, redis_url: str, real_redis: Redis, tmp_path: Path
) -> None:
    async with await Cluster.connect(kubeconfig=embedded_config) as admin:
        await prepared(admin, "rights")
        tokens = await prepared(admin, "rights-of-senders")
        own = tmp_path / "kubeconfig"
        config = json.loads(embedded_config.read_text())
        path = SERVICE_ACCOUNT.path("rights", "builder", "token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        config["users"][0]["user"]["token"] = (await admin.request("POST", path, body=body))["status"]["token"]
        own.write_text(json.dumps(config))
    async with (
        await Cluster.connect(kubeconfig=own) as cluster,
        gateway_rig(redis_url, real_redis, cluster=cluster) as rig,
    ):
        for way in ("bearer", "account"):
            await rig.event_job(way, "rights-of-senders", push=WAYS[way])
            headers = {"authorization": f"Bearer {tokens[way]}"}
            status, _, answered = await rig.push(f"rights-of-senders/{way}", headers=headers, data=b"x")
            assert (status, "Retry-After" in answered) == (503, True)
