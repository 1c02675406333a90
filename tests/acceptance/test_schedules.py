"""Schedules as a user meets them: manifests in, Jobs that run as processes out, and the command to steer them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.tables import cases
from tests.support.terminal import Terminal, until
from workers.api import times

EXAMPLES = ROOT / "examples"


def scheduled_job(name: str, program: str, *, folder: Path | None = None, **spec: Any) -> str:
    """A ScheduledJob whose Jobs run a Python program. folder: of this machine, into which it may write."""
    container: dict[str, Any] = {"name": "main", "image": "none", "command": [sys.executable, "-c", program]}
    template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    if folder is not None:
        container["volumeMounts"] = [{"name": "folder", "mountPath": str(folder)}]
        template["spec"]["volumes"] = [{"name": "folder", "hostPath": {"path": str(folder)}}]
    return yaml.safe_dump(
        {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "ScheduledJob",
            "metadata": {"name": name},
            "spec": {"jobTemplate": {"spec": {"backoffLimit": 0, "template": template}}, **spec},
        }
    )


@pytest.fixture
def cluster(up: subprocess.Popen[bytes], terminal: Terminal) -> Iterator[Terminal]:
    """A terminal of a running Penstock; what the test applies is gone afterwards."""
    yield terminal
    for kind in ("scheduledjobs", "cronjobs"):
        terminal.type("delete", kind, "--all")


def read(terminal: Terminal, *what: str) -> Any:
    """An object as it is now."""
    return yaml.safe_load(terminal.type("get", *what, "-o", "yaml"))


def ended(terminal: Terminal, name: str) -> list[Any]:
    """The outcomes of a ScheduledJob."""
    outcomes: list[Any] = (read(terminal, "schj", name).get("status") or {}).get("outcomes") or []
    return outcomes


@pytest.mark.timeout(300)
def test_a_job_each_second_until_it_is_suspended_and_again_when_it_is_resumed(cluster: Terminal) -> None:
    manifest = scheduled_job("tick", "print('tock')", schedule="* * * * * *", successfulJobsHistoryLimit=2)
    assert cluster.type("apply", "-f", "-", stdin=manifest) == "scheduledjob.penstock.dev/tick created\n"
    assert cluster.type("apply", "-f", "-", stdin=manifest) == "scheduledjob.penstock.dev/tick unchanged\n"
    until(lambda: len(ended(cluster, "tick")) >= 3, "three runs have ended")
    outcomes = ended(cluster, "tick")
    assert {outcome["outcome"] for outcome in outcomes} == {"Succeeded"}
    slots = [outcome["scheduledTime"] for outcome in outcomes]
    assert len(set(slots)) == len(slots)
    assert cluster.type("suspend", "tick") == "scheduledjob.penstock.dev/tick suspended\n"

    def rests() -> bool:
        # Until the controller says that it knows of the suspension it may be about to start one run more.
        status = read(cluster, "schj", "tick")["status"]
        known = [each["reason"] for each in status["conditions"] if each["type"] == "Ready"]
        return known == ["Suspended"] and not status.get("active")

    until(rests, "it is suspended, and what was at work has ended")
    still = read(cluster, "schj", "tick")["status"]["lastScheduleTime"]
    described = cluster.type("describe", "scheduledjob", "tick")
    assert "Next runs:     none while it is suspended" in described
    assert "tock" in cluster.type("logs", "scheduledjob/tick")
    assert read(cluster, "schj", "tick")["status"]["lastScheduleTime"] == still
    assert cluster.type("resume", "tick") == "scheduledjob.penstock.dev/tick resumed\n"
    until(lambda: read(cluster, "schj", "tick")["status"]["lastScheduleTime"] > still, "it goes on")


@pytest.mark.timeout(300)
def test_a_run_now_gets_its_variables_and_tells_its_outcome_by_the_exit_code(cluster: Terminal) -> None:
    program = "import os, sys; print('day', os.environ['DAY']); sys.exit(int(os.environ.get('CODE', '0')))"
    # Suspended: nothing but what is asked for runs.
    manifest = scheduled_job("report", program, schedule="0 2 29 2 *", suspend=True)
    cluster.type("apply", "-f", "-", stdin=manifest)
    said = cluster.type("run", "report", "--env", "DAY=2026-03-01", "--wait", "--timeout", "60")
    job = re.search(r"^job\.batch/(\S+) Succeeded$", said, re.MULTILINE)
    assert job, said
    assert cluster.type("logs", f"job/{job[1]}") == "day 2026-03-01\n"
    failed = cluster.type("run", "schj/report", "-e", "DAY=x", "-e", "CODE=3", "--wait", "--timeout", "60", code=1)
    assert " Failed" in failed
    triggers = [(outcome["trigger"], outcome["outcome"]) for outcome in ended(cluster, "report")]
    assert triggers == [("manual", "Succeeded"), ("manual", "Failed")]

    def asked() -> list[str]:
        annotations = read(cluster, "schj", "report")["metadata"].get("annotations") or {}
        return [name for name in annotations if name.startswith("penstock.dev/run.")]

    until(lambda: not asked(), "nothing more is asked for")
    described = cluster.type("describe", "schj", "report")
    assert re.search(r"manual +Failed", described)
    assert "no ScheduledJob and no CronJob called nothing" in cluster.type("run", "nothing", code=1)


#: Fails until it was started so often.
FAILING = """
import pathlib, sys
with open({path!r}, "a") as starts:
    starts.write("x")
sys.exit(len(pathlib.Path({path!r}).read_text()) < {starts})
"""

#: ScheduledJobs that forget: the spec, and which of its starts succeeds.
FORGETFUL: dict[str, tuple[dict[str, Any], int]] = {
    "no history of failed attempts": ({"retry": {"limit": 2, "delaySeconds": 1}, "failedJobsHistoryLimit": 0}, 3),
    "no outcomes": ({"retry": {"limit": 2, "delaySeconds": 1}, "outcomesLimit": 0, "failedJobsHistoryLimit": 10}, 3),
    "no outcomes and no history": ({"outcomesLimit": 0, "successfulJobsHistoryLimit": 0}, 1),
    "one outcome, a run each second": ({"outcomesLimit": 1, "schedule": "* * * * * *", "suspend": False}, 1),
}


@pytest.mark.timeout(300)
@cases(FORGETFUL)
def test_the_exit_code_is_the_runs_whatever_is_forgotten(
    spec: dict[str, Any], starts: int, cluster: Terminal, tmp_path: Path
) -> None:
    program = FAILING.format(path=str(tmp_path / "starts"), starts=starts)
    spec = {"schedule": "0 2 29 2 *", "suspend": starts < 2, **spec}
    manifest = scheduled_job("forgetful", program, folder=tmp_path, **spec)
    cluster.type("apply", "-f", "-", stdin=manifest)
    said = cluster.type("run", "forgetful", "--wait", "--timeout", "60")
    assert re.search(r"^job\.batch/forgetful-\S+ (Succeeded|Complete)$", said, re.MULTILINE), said


@pytest.mark.timeout(300)
@cases(
    ("no history", {"successfulJobsHistoryLimit": 0}, {}, 0),
    ("gone when finished", {}, {"ttlSecondsAfterFinished": 0}, 0),
    ("no history of failures", {"failedJobsHistoryLimit": 0}, {"backoffLimit": 0}, 3),
)
def test_the_exit_code_of_a_cronjobs_run_is_the_runs(
    limits: dict[str, int], job: dict[str, int], code: int, cluster: Terminal
) -> None:
    body = yaml.safe_load(scheduled_job("brief", f"import sys; sys.exit({code})", schedule="0 2 29 2 *", **limits))
    body |= {"apiVersion": "batch/v1", "kind": "CronJob"}
    body["spec"]["jobTemplate"]["spec"] |= job
    cluster.type("apply", "-f", "-", stdin=yaml.safe_dump(body))
    said = cluster.type("run", "cronjob/brief", "--wait", "--timeout", "60", code=1 if code else 0)
    assert ("Failed" if code else "Complete") in said


@pytest.mark.timeout(300)
def test_a_cronjob_of_kubernetes_is_listed_described_and_run(cluster: Terminal) -> None:
    body = yaml.safe_load((EXAMPLES / "cronjob.yaml").read_text())
    cluster.type("apply", "-f", "-", stdin=yaml.safe_dump(body))
    header, row = cluster.type("get", "cronjobs").splitlines()
    assert header.split() == ["NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST", "SCHEDULE", "AGE"]
    assert row.startswith("good-night")
    described = cluster.type("describe", "cj", "good-night")
    # The next run on the clocks of Berlin.
    assert re.search(r"T02:00:00\+0[12]:00 +\S+", described)
    said = cluster.type("run", "cronjob/good-night", "--wait", "--timeout", "60")
    assert re.search(r"^job\.batch/good-night-\S+ Complete$", said, re.MULTILINE), said
    assert "good night" in cluster.type("logs", "cronjob/good-night")


@pytest.mark.timeout(300)
def test_every_example_of_a_schedule_can_be_applied_and_is_ready(cluster: Terminal) -> None:
    files = sorted(EXAMPLES.glob("scheduledjob-*.yaml"))
    words = [word for file in files for word in ("-f", str(file))]
    applied = cluster.type("apply", *words).splitlines()
    assert len(applied) == len(files)
    assert all(line.endswith(" created") for line in applied)

    def ready() -> bool:
        rows = cluster.type("get", "scheduledjobs").splitlines()
        header = rows[0].split()
        assert header == ["NAME", "SCHEDULE", "ZONE", "SUSPEND", "ACTIVE", "LAST", "NEXT", "READY", "AGE"]
        items = read(cluster, "scheduledjobs")["items"]
        known = [(item.get("status") or {}).get("conditions") or () for item in items]
        return all(any(each["type"] == "Ready" and each["status"] == "True" for each in found) for found in known)

    until(ready, "all of them are ready")


@pytest.mark.timeout(300)
def test_a_pause_ends_by_itself(cluster: Terminal) -> None:
    every_second = {"schedule": "* * * * * *"}
    cluster.type("apply", "-f", "-", stdin=scheduled_job("paused", "pass", **every_second, suspend=True))
    far = times.render(datetime.now(UTC) + timedelta(hours=1))
    assert cluster.type("suspend", "paused", "--until", far).endswith(f"suspended until {far}\n")
    # In a manifest, which may come too late for its own pause: the command refuses a moment that is over.
    end = times.render(datetime.now(UTC) + timedelta(seconds=3))
    paused = scheduled_job("paused", "pass", **every_second, suspend=False, suspendUntil=end)
    assert cluster.type("apply", "-f", "-", stdin=paused).endswith(" configured\n")
    until(lambda: ended(cluster, "paused"), "a run after the pause has ended")
    assert min(outcome["scheduledTime"] for outcome in ended(cluster, "paused")) >= end
    broken = scheduled_job("broken", "pass", schedule="* * * * * *", jitterSeconds=-1)
    said = cluster.type("apply", "-f", "-", stdin=broken, code=1)
    assert "ScheduledJob broken: " in said
    assert "spec.jitterSeconds" in said
