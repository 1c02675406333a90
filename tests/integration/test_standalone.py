"""`penstock standalone` on a real broker and the embedded API server: alone, beside a pool, and killed."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis

from deploy.processes import command_lines
from penstock import _healthy
from penstock._broker_format import FORMAT
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.benchmarks.manifests import TEMPLATE, body, scaled_job
from tests.support.broker_servers import certificates, options, tls_front
from tests.support.conditions import eventually
from tests.support.sites import LONG, Site
from workers.api.kinds import CRON_JOB, SCALED_JOB
from workers.lanes import queue_key
from workers.runtime.lane_runners import InProcessNotifier, LaneRunner
from workers.runtime.notifier import Notifier

pytestmark = pytest.mark.timeout(300)

log = logging.getLogger(__name__)


async def test_one_process_does_the_work_of_four_and_ends_in_order(site: Site) -> None:
    process = await site.start(command_lines.standalone(), "single", forked=False)
    assert await process.failed("/readyz") == {}
    await site.cluster.create(SCALED_JOB, scaled_job("work", site.address, most=10, polling=30))
    schedule = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    await site.cluster.create(CRON_JOB, body(CRON_JOB, "minutely", spec=schedule))
    await site.client.rpush("work", "one", "two", "three")
    await eventually(lambda: site.has_jobs("work-", 3), LONG)
    # As processes that notify by Celery send them; no Celery worker takes them here.
    await site.client.lpush(queue_key("penstock", "poll"), b"{}", b"{}")
    await eventually(lambda: site.jobs("minutely-"), LONG)

    async def taken() -> bool:
        return not await site.client.exists(queue_key("penstock", "poll"), queue_key("penstock", "reconcile"))

    # The minute may begin right after they were sent.
    await eventually(taken)
    assert process.end() == 0
    assert "Traceback" not in process.log.read_text()
    assert '"level":"ERROR"' not in process.log.read_text()


async def test_beside_a_pool_nothing_is_lost_and_nothing_done_twice(site: Site) -> None:
    # No pool's watch and beat: what its workers do is found and told by the single process.
    single = await site.start(command_lines.standalone(), "single", slots="1")
    worker = await site.start(command_lines.worker(), "worker", slots="1")
    scaler = await site.start(command_lines.scaler(), "scaler", slots="1")
    for each in (single, worker, scaler):
        await eventually(lambda each=each: _is({}, each.failed("/readyz")), LONG)
    names = [f"work-{number}" for number in range(20)]
    for name in names:
        await site.cluster.create(SCALED_JOB, scaled_job(name, site.address, most=5, polling=30))
    for name in names:
        await site.client.rpush(name, *range(5))
    await eventually(lambda: site.has_jobs("work-", 100), LONG)
    assert single.end() == 0
    # What the pool has is enough to go on: its workers sweep.
    lane = Lane(site.client, "reconcile", Keys())
    await lane.mark([f"{SCALED_JOB.id}/default/work-0"])
    await eventually(lambda: _drained(lane), LONG)
    assert await site.has_jobs("work-", 100)


async def test_what_a_busy_process_does_not_get_round_to_moves_a_pool(site: Site) -> None:
    class Busy:
        async def consume(self) -> None:
            await asyncio.sleep(3600)

        async def close(self, grace: float) -> None:
            """Has nothing in the background."""

    worker = await site.start(command_lines.worker(), "worker")
    runner = LaneRunner("reconcile", Busy(), slots=1)  # type: ignore[arg-type]
    runner.start(1)
    lane = Lane(site.client, "reconcile", Keys())
    notifier = InProcessNotifier(Notifier(site.client, "penstock").notify)
    notifier.add(runner)
    marked = await lane.mark([f"{SCALED_JOB.id}/default/gone"])
    assert marked.notifications == 1
    await notifier.notify({"reconcile": marked.notifications})
    await eventually(lambda: _drained(lane), LONG)
    await runner.stop(0.0)
    assert worker.end() == 0


async def test_a_pool_and_a_single_process_speak_tls_to_their_broker(site: Site, tmp_path: Path) -> None:
    plain, files = site.address, certificates(tmp_path / "tls")
    with tls_front(files, int(plain.partition(":")[2])) as port:
        site.broker = f"rediss://127.0.0.1:{port}/0{options(files, ssl_server_name='broker.example')}"
        processes = [
            await site.start(command_lines.watch(), "watch"),
            await site.start(command_lines.beat(), "beat"),
            await site.start(command_lines.scaler(), "scaler"),
            await site.start(command_lines.worker(), "worker"),
        ]
        await site.cluster.create(SCALED_JOB, scaled_job("work", plain, most=20, polling=2))
        await site.client.rpush("work", *range(3))
        await eventually(lambda: site.has_jobs("work-", 3), LONG)
        assert [each.end() for each in processes] == [0] * 4
        single = await site.start(command_lines.standalone(), "single")
        await site.client.rpush("work", *range(2))
        await eventually(lambda: site.has_jobs("work-", 5), LONG)
        assert single.end() == 0
    for each in (*processes, single):
        assert '"level":"ERROR"' not in each.log.read_text()


async def test_of_two_processes_one_is_killed_and_the_other_takes_over(site: Site) -> None:
    first = await site.start(command_lines.standalone(), "first")
    second = await site.start(command_lines.standalone(), "second")
    await site.cluster.create(SCALED_JOB, scaled_job("work", site.address, most=50, polling=2))
    await site.client.rpush("work", *range(10))
    await eventually(lambda: site.has_jobs("work-", 10), LONG)
    first.end(signal.SIGKILL)
    await site.client.rpush("work", *range(5))
    await eventually(lambda: site.has_jobs("work-", 15), LONG)
    await eventually(lambda: _is({}, second.failed("/readyz")), LONG)
    assert second.end() == 0


async def test_of_two_processes_one_stands_still_beyond_its_lease_and_nothing_is_made_twice(site: Site) -> None:
    both = [await site.start(command_lines.standalone(), name) for name in ("first", "second")]
    await site.cluster.create(SCALED_JOB, scaled_job("work", site.address, most=500, polling=2))
    pushed = 0
    for each in both:
        await site.client.rpush("work", *range(40))
        # In the middle of what it creates, if the work is its.
        await eventually(lambda made=pushed: _more(site, made), LONG)
        os.kill(each.popen.pid, signal.SIGSTOP)
        began, pushed = time.monotonic(), pushed + 40
        try:
            await eventually(lambda made=pushed: site.has_jobs("work-", made), LONG)
            log.warning("done by the other one after %.1f s", time.monotonic() - began)
        finally:
            os.kill(each.popen.pid, signal.SIGCONT)
        await eventually(lambda each=each: _is({}, each.failed("/readyz")), LONG)
    await site.client.rpush("work", *range(5))
    await eventually(lambda: site.has_jobs("work-", pushed + 5), LONG)
    assert [each.end() for each in both] == [0, 0]
    assert await site.has_jobs("work-", pushed + 5)


async def test_data_of_a_newer_release_end_it_with_the_code_of_its_next_start(site: Site) -> None:
    process = await site.start(command_lines.standalone(), "single")
    await site.client.set(Keys().format, FORMAT + 1)
    assert await asyncio.to_thread(process.popen.wait, LONG) == 1
    assert process.log.read_text().splitlines()[-1].startswith(f"penstock: the broker's data has format {FORMAT + 1}")


async def test_an_outage_makes_it_unready_and_ends_nothing(site: Site) -> None:
    process = await site.start(command_lines.standalone(), "single")
    worker = await site.start(command_lines.worker(), "worker")
    beat = await site.start(command_lines.beat(), "beat")
    (broker,) = {each for each in [await _pid(site.client)] if each}
    os.kill(broker, signal.SIGSTOP)
    try:
        for each in (process, worker, beat):
            await eventually(lambda each=each: _names("broker", each.failed("/readyz")), LONG)
            assert await each.failed("/healthz") == {}
        variables = {"PENSTOCK_HEALTH": process.health}
        assert await asyncio.to_thread(_healthy.main, [], variables) == 0
        assert await asyncio.to_thread(_healthy.main, ["--ready"], variables) == 1
    finally:
        os.kill(broker, signal.SIGCONT)
    for each in (process, worker, beat):
        await eventually(lambda each=each: _is({}, each.failed("/readyz")), LONG)
        assert each.popen.poll() is None
        assert each.end() == 0


async def test_an_api_server_that_stands_still_makes_it_unready_and_its_cache_stale(site: Site) -> None:
    process = await site.start(command_lines.standalone(), "single")
    worker = await site.start(command_lines.worker(), "worker")
    server = site.server.process
    assert server is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for each in (process, worker):
            await eventually(lambda each=each: _names("API server", each.failed("/readyz")), LONG)
            await eventually(lambda each=each: _names("cache", each.failed("/readyz")), LONG)
            assert await each.failed("/healthz") == {}
    finally:
        os.kill(server.pid, signal.SIGCONT)
    for each in (process, worker):
        await eventually(lambda each=each: _is({}, each.failed("/readyz")), LONG)
        assert each.end() == 0


HANGING = """
import sys, time
from workers.runtime.health import Health
Health.pulse.__defaults__ = (3.0,)
import workers.app
from celery import bootsteps
class Hanging(bootsteps.StartStopStep):
    requires = ("celery.worker.consumer.tasks:Tasks",)
    def start(self, consumer):
        consumer.timer.call_after(1.0, time.sleep, (3600,))
workers.app.app.steps["consumer"].add(Hanging)
from deploy.processes import celery_process
words = ["worker", "-P", "threads", "-Q", "penstock.reconcile", "-I", "deploy.processes.worker_signals"]
celery_process.run("workers.app:app", words)
"""


async def test_a_worker_whose_celery_consumer_hangs_is_not_alive(site: Site) -> None:
    worker = await site.start([sys.executable, "-c", HANGING], "hanging")
    await eventually(lambda: _names("Celery's consumer", worker.failed("/healthz")), LONG)


FAILING = """
import asyncio
from workers import settings
from deploy.processes import standalone, watch
async def broken(*_):
    await asyncio.sleep(0.5)
    raise RuntimeError("no way on")
watch.run_informers = broken
from deploy.cli.main import run
import sys
sys.exit(run(["standalone"]))
"""


async def test_a_part_that_nothing_repairs_ends_the_process_with_a_reason(site: Site) -> None:
    environment = {**os.environ, "PENSTOCK_BROKER": site.broker, "PENSTOCK_KUBECONFIG": str(site.server.kubeconfig)}
    ended = await asyncio.to_thread(
        lambda: subprocess.run(
            [sys.executable, "-c", FAILING], env=environment, capture_output=True, text=True, timeout=120
        )
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("penstock: the part informers ended:"), ended.stderr
    assert '"level":"CRITICAL"' in ended.stderr
    assert "no way on" in ended.stderr


async def _pid(client: redis.Redis) -> int:
    return int((await client.info("server"))["process_id"])


async def _more(site: Site, than: int) -> bool:
    return len(await site.jobs("work-")) > than


async def _is(wanted: object, asked: Any) -> bool:
    return bool(await asked == wanted)


async def _names(check: str, asked: Any) -> bool:
    return check in (await asked or {})


async def _drained(lane: Lane) -> bool:
    stats = await lane.stats()
    return stats.ready == stats.leased == 0
