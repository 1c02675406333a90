"""`penstock up --single`, and the health of its one process."""

import json
from pathlib import Path

import pytest
import redis

from tests.acceptance.test_command import main, manifest
from tests.acceptance.test_gateway import post
from tests.support.ports import free_port
from tests.support.terminal import Terminal, running, until

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [main("/bin/sh", "-c", "echo done")]}}


@pytest.mark.timeout(300)
def test_one_process_runs_scaledjobs_cronjobs_and_eventjobs(tmp_path: Path, redis_server: str) -> None:
    port = free_port()
    terminal = Terminal.of(tmp_path)
    options = ("--single", "--health", f"127.0.0.1:{port}")
    with redis.Redis.from_url(redis_server) as queue, running(terminal, tmp_path / "up.log", *options):
        parts = (tmp_path / "up.log").read_text()
        assert "standalone" in parts
        assert not [name for name in ("worker-1", "scaler-1", "watch ", "beat ") if name in parts]
        terminal.type("healthy", "--ready", "--health", f"127.0.0.1:{port}")
        address = redis_server.removeprefix("redis://").partition("/")[0]
        work = {
            "jobTargetRef": {"template": TEMPLATE},
            "pollingInterval": 600,
            "triggers": [{"type": "redis", "metadata": {"address": address, "listName": "work", "listLength": "1"}}],
        }
        queue.rpush("work", "one")
        jobs = {"jobTemplate": {"spec": {"template": TEMPLATE}}}
        for body in (
            manifest("keda.sh/v1alpha1", "ScaledJob", "work", spec=work),
            manifest("batch/v1", "CronJob", "minutely", spec={"schedule": "* * * * *", **jobs}),
            manifest("penstock.dev/v1alpha1", "EventJob", "orders", spec={"push": {"anonymous": True}, **jobs}),
        ):
            terminal.type("apply", "-f", "-", stdin=body)
        url = (tmp_path / "home" / "gateway.url").read_text().strip()
        until(lambda: post(f"{url}/events/default/orders", b'{"n": 1}')[0] == 202, "the event is accepted")

        def succeeded() -> set[str]:
            found = json.loads(terminal.type("get", "jobs", "-o", "json"))["items"]
            return {job["metadata"]["name"].partition("-")[0] for job in found if job["status"].get("succeeded")}

        until(lambda: "work" in succeeded(), "the Job of the item is done")
        # It took nothing away: another one would follow, and so on.
        queue.delete("work")
        until(lambda: succeeded() >= {"orders", "minutely"}, "the others' Jobs are done")
    log = (tmp_path / "home" / "logs" / "standalone.log").read_text()
    assert '"level":"ERROR"' not in log
