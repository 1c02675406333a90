"""The manifests of the README, as they are printed there, do what it says."""

import re
import subprocess
from typing import Any

import pytest
import redis
import yaml

from tests.support.paths import ROOT
from tests.support.terminal import Terminal, until
from workers.api import conditions

MANIFESTS = {
    body["kind"]: text
    for text in re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if (body := yaml.safe_load(text))
}


def at(address: str, manifest: str) -> str:
    """The manifest for the tests' server, which has another port than the README's."""
    host, _, port = address.rpartition(":")
    return manifest.replace("127.0.0.1:6379", address).replace("redis.Redis()", f"redis.Redis('{host}', {port})")


@pytest.mark.timeout(300)
def test_the_scaledjob_runs_its_program_for_each_entry(
    up: subprocess.Popen[bytes], terminal: Terminal, redis_server: str
) -> None:
    address = redis_server.removeprefix("redis://").partition("/")[0]
    with redis.Redis.from_url(redis_server) as queue:
        queue.delete("work")
        queue.rpush("work", "one", "two", "three")
    terminal.type("apply", "-f", "-", stdin=at(address, MANIFESTS["ScaledJob"]))

    def complete() -> list[Any]:
        label = "scaledjob.keda.sh/name=work"
        jobs = yaml.safe_load(terminal.type("get", "jobs", "-l", label, "-o", "yaml"))["items"]
        return [job for job in jobs if conditions.finished(job) == "Complete"]

    until(lambda: len(complete()) == 3, "three Jobs are complete")
    said = sorted(line.partition("] ")[2] for line in terminal.type("logs", "scaledjob/work").splitlines())
    assert said == [f"worked on {item}" for item in ("one", "three", "two")]
    terminal.type("delete", "scaledjob", "work")


@pytest.mark.timeout(300)
def test_the_scheduledjob_runs_now_with_a_parameter(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    terminal.type("apply", "-f", "-", stdin=MANIFESTS["ScheduledJob"])
    said = terminal.type("run", "report", "--env", "DAY=2026-11-20", "--wait", "--timeout", "60")
    job = re.search(r"^job\.batch/(\S+) Succeeded$", said, re.MULTILINE)
    assert job, said
    assert terminal.type("logs", f"job/{job[1]}") == "report of 2026-11-20\n"
    terminal.type("delete", "scheduledjob", "report")


def test_the_gang_is_accepted(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    said = terminal.type("apply", "--dry-run", "-f", "-", stdin=MANIFESTS["Job"])
    assert said == "job.batch.volcano.sh/gang created (server dry run)\n"
