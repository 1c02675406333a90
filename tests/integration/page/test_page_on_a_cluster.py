"""The page beside an API server: its Events, its say about tokens, and changes with the visitor's own token."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis.asyncio as redis_async
import yaml

from deploy.page.authorization import PageAuthorization
from tests.support.page_server import PageServer, page_server
from workers.api import times
from workers.api.kinds import CRON_JOB, EVENT, SECRET, Object, Ref, reference
from workers.client.rest import Cluster


def cron_job(namespace: str) -> Object:
    container = {"name": "main", "image": "busybox", "env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}
    pod = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"namespace": namespace, "name": "nightly"},
        "spec": {"schedule": "0 2 * * *", "jobTemplate": {"spec": {"template": pod}}},
    }


@pytest.fixture
async def served(real_redis: redis_async.Redis, cluster: Cluster, embedded_config: Path) -> AsyncIterator[PageServer]:
    async with (
        await Cluster.connect(kubeconfig=embedded_config, anonymous=True) as visitors,
        page_server(real_redis, cluster=cluster, authorizer=PageAuthorization(visitors)) as served,
    ):
        yield served


@pytest.fixture
def cluster_config(embedded_config: Path) -> Path:
    return embedded_config


async def test_a_schedule_is_shown_and_steered_with_the_visitors_token(
    served: PageServer, cluster: Cluster, cluster_config: Path, namespace: str
) -> None:
    token = yaml.safe_load(cluster_config.read_text())["users"][0]["user"]["token"]
    created = await cluster.create(CRON_JOB, cron_job(namespace))
    now = times.render(datetime.now(UTC))
    happened: Object = {
        "metadata": {"namespace": namespace, "name": "it-happened"},
        "involvedObject": reference(CRON_JOB, created),
        "type": "Warning",
        "reason": "MissSchedule",
        "message": "Missed scheduled time",
        "count": 3,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "apiVersion": "v1",
        "kind": "Event",
    }
    await cluster.create(EVENT, happened)
    await served.list(CRON_JOB, created)

    path = f"/objects/{CRON_JOB.id}/{namespace}/nightly"
    _, shown = await served.get(path)
    assert [(event["reason"], event["count"]) for event in shown["events"]] == [("MissSchedule", 3)]
    assert "hunter2" not in str(shown)
    _, runs = await served.get(f"{path}/runs")
    assert len(runs["next"]) == 1

    action, visitor = f"/actions/{CRON_JOB.id}/{namespace}/nightly", {"Authorization": f"Bearer {token}"}
    _, allowed = await served.get(action, token=token)
    assert {each["action"]: each["allowed"] for each in allowed}["run"]
    assert (await served.get("/session", token=token))[1]["user"]
    assert (await served.post(f"{action}/suspend", {}, Authorization="Bearer stranger"))[0] == 401
    status, answer = await served.post(f"{action}/suspend", {}, **visitor)
    assert (status, answer) == (200, {"done": f"CronJob {namespace}/nightly suspended"})
    asked = {"parameters": {"environment": {"DAY": "2026-03-01"}}}
    assert (await served.post(f"{action}/run", asked, **visitor))[0] == 200
    body = await cluster.get(Ref(CRON_JOB, namespace, "nightly"))
    assert body["spec"]["suspend"]
    [request] = [
        value for name, value in body["metadata"]["annotations"].items() if name.startswith("penstock.dev/run.")
    ]
    assert request == '{"env": {"DAY": "2026-03-01"}}'

    # The name stands for another object now: the visitor did not mean this one.
    await cluster.delete(Ref(CRON_JOB, namespace, "nightly"))
    await cluster.create(CRON_JOB, cron_job(namespace))
    assert (await served.post(f"{action}/delete", {}, **visitor))[0] == 409
    assert (await served.post(f"{action}/resume", {}, **visitor))[0] in (409, 422)


async def test_secrets_are_no_kind_of_the_page(served: PageServer) -> None:
    assert (await served.get(f"/objects?kind={SECRET.id}"))[0] == 404


async def test_a_log_that_cannot_be_read_is_a_problem_not_a_stream(served: PageServer, namespace: str) -> None:
    for query in ("", "?follow=1"):
        status, answer = await served.get(f"/pods/{namespace}/missing/log{query}")
        assert (status, answer["status"]) == (404, 404)
