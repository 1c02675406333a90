"""JobFlows on the embedded cluster: real Jobs with real processes, from the first entry to the end of the flow."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    cluster_fixture,
    create,
    lines,
    phase_of,
    reaches,
    reports,
    status,
    task,
)
from tests.support.conditions import eventually
from tests.support.ports import free_port
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, VC_JOB, Object, Ref
from workers.api.volcano.jobflow import RETRY
from workers.client.rest import Cluster
from workers.controllers.volcano.jobflow import phases

pytestmark = pytest.mark.timeout(300)

HOUSE = ENABLED


cluster = cluster_fixture()


async def template(cluster: Cluster, name: str, script: str, **spec: Any) -> None:
    """Creates a JobTemplate of one pod that runs this script."""
    await create(cluster, JOB_TEMPLATE, {"tasks": [task("work", script)], **spec}, name)


async def start(cluster: Cluster, *flows: Object, **spec: Any) -> Ref:
    return await create(cluster, JOB_FLOW, {"flows": [*flows], **spec})


def entry(name: str, *targets: str, **more: Any) -> Object:
    return {"name": name, **({"dependsOn": {"targets": [*targets]}} if targets else {}), **more}


async def ended(cluster: Cluster, ref: Ref) -> Object:
    """Returns the flow's status once it is in a final phase."""
    return await reaches(cluster, ref, lambda found: phase_of(found) in phases.FINAL)


async def tried_again(cluster: Cluster, ref: Ref, token: str) -> None:
    """Requests another try of the flow and waits for its end."""
    await cluster.patch(ref, {"metadata": {"annotations": {RETRY: token}}})
    await reaches(cluster, ref, lambda found: found.get("retried") == token and phase_of(found) in phases.FINAL)


async def entry_is(cluster: Cluster, ref: Ref, name: str, wanted: str) -> Object:
    """Returns the flow's status once an entry is in this phase."""
    return await reaches(cluster, ref, lambda found: found.get("entries", {}).get(name, {}).get("phase") == wanted)


async def test_ten_steps_with_a_failure_a_retry_and_a_branch(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    await template(cluster, "step", f"echo $FLOW_step >> {log}")
    await template(cluster, "flaky", f"echo flaky >> {log}; test $(grep -c flaky {log}) -ge 2")
    await template(cluster, "broken", f"echo broken >> {log}; exit 3")

    def step(name: str, *targets: str, **more: Any) -> Object:
        patch = {"jobSpec": {"tasks": [{"name": "work", "template": {"spec": {"containers": [_echo(name, log)]}}}]}}
        return entry(name, *targets, template="step", patch=patch, **more)

    ref = await start(
        cluster,
        step("fetch"),
        entry("check", "fetch", template="flaky", retry={"limit": 2, "backoffSeconds": 0}),
        step("full", "check", switch={"of": "${parameters.mode}", "case": ["full"]}),
        step("quick", "check", switch={"of": "${parameters.mode}", "case": ["quick"]}),
        step("train", "full", "quick", when={"phases": ["Completed"], "match": "any"}),
        entry("publish", "train", template="broken", allowFailure=True),
        step("announce", "publish"),
        step("apologise", "publish", when={"phases": ["Failed"]}),
        step("part", "train", forEach={"items": ["x", "y"], "parallelism": 1}),
        step("clean", "part", "apologise"),
        parameters={"mode": "quick"},
    )
    found = await ended(cluster, ref)
    assert found["state"]["phase"] == "Succeed", found
    assert {id: each["phase"] for id, each in found["entries"].items()} == {
        **dict.fromkeys(["fetch", "check", "quick", "train", "apologise", "part-0", "part-1", "clean"], "Completed"),
        **dict.fromkeys(["full", "announce"], "Skipped"),
        "publish": "Failed",
    }
    assert found["entries"]["check"]["attempts"] == 2
    done = lines(log)
    assert sorted(done) == sorted(
        ["fetch", "flaky", "flaky", "quick", "train", "broken", "apologise", "part", "part", "clean"]
    )
    assert done[:5] == ["fetch", "flaky", "flaky", "quick", "train"]
    assert done[-1] == "clean"
    jobs = [f"{ref.name}-check", f"{ref.name}-check-r1"]
    flaky = Ref(JOB_TEMPLATE, "default", "flaky")
    await reaches(cluster, flaky, lambda found: found.get("jobDependsOnList") == jobs)


def _echo(name: str, log: Path) -> Object:
    return {"name": "main", "command": ["/bin/sh", "-c", f"echo {name} >> {log}"]}


async def test_suspended_and_resumed_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    await template(cluster, "first", f"echo first >> {log}; while ! test -e {gate}; do sleep 0.05; done")
    await template(cluster, "second", f"echo second >> {log}")
    ref = await start(cluster, entry("first"), entry("second", "first"))
    await entry_is(cluster, ref, "first", "Running")
    body = await cluster.get(ref)
    version = {"resourceVersion": body["metadata"]["resourceVersion"]}
    await cluster.patch(ref, {"metadata": version, "spec": {"suspend": True}})
    await reaches(cluster, ref, lambda found: found["flowConditions"][0]["reason"] == "Suspended")
    gate.touch()
    assert phase_of(await entry_is(cluster, ref, "first", "Completed")) == "Running"
    assert lines(log) == ["first"]
    await cluster.patch(ref, {"spec": {"suspend": None}})
    await reaches(cluster, ref, "Succeed")
    assert lines(log) == ["first", "second"]


async def test_what_failed_runs_again_when_somebody_asks(cluster: Cluster, tmp_path: Path) -> None:
    good, log = tmp_path / "good", tmp_path / "log"
    await template(cluster, "once", f"echo once >> {log}")
    await template(cluster, "repairable", f"test -e {good}")
    ref = await start(cluster, entry("once"), entry("repairable", "once"))
    found = await ended(cluster, ref)
    assert found["state"]["phase"] == "Failed"
    assert "repairable" in found["state"]["message"]
    good.touch()
    await cluster.patch(ref, {"metadata": {"annotations": {RETRY: "again"}}})
    await reaches(cluster, ref, "Succeed")
    assert lines(log) == ["once"]


async def test_each_attempt_that_fails_is_rolled_back_once(cluster: Cluster, tmp_path: Path) -> None:
    good, log = tmp_path / "good", tmp_path / "log"
    await template(cluster, "deploy", f"echo deploy >> {log}; test -e {good}")
    await template(cluster, "roll-back", f"echo back >> {log}")
    ref = await start(cluster, entry("deploy"), entry("roll-back", "deploy", when={"phases": ["Failed"]}))
    await ended(cluster, ref)
    assert lines(log) == ["deploy", "back"]
    await tried_again(cluster, ref, "1")
    assert lines(log) == ["deploy", "back"] * 2
    good.touch()
    await tried_again(cluster, ref, "2")
    assert lines(log) == [*["deploy", "back"] * 2, "deploy"]
    found = await status(cluster, ref)
    assert (found["state"]["phase"], found["entries"]["roll-back"]["phase"]) == ("Succeed", "Skipped")


async def test_an_entry_waits_for_a_server_that_listens(cluster: Cluster, tmp_path: Path) -> None:
    listen, port = tmp_path / "listen", free_port()
    server = (
        f"while ! test -e {listen}; do sleep 0.05; done; cd {tmp_path};"
        f" exec python3 -m http.server {port} --bind 127.0.0.1"
    )
    await template(cluster, "server", server)
    await template(cluster, "client", "true")
    probe = {
        "tcpSocketList": [{"taskName": "work", "port": port}],
        "httpGetList": [{"taskName": "work", "port": port, "path": "/listen"}],
        "taskStatusList": [{"taskName": "work", "phase": "Running"}],
    }
    client = {"name": "client", "dependsOn": {"targets": ["server"], "probe": probe}}
    ref = await start(cluster, entry("server"), client)
    await entry_is(cluster, ref, "server", "Running")
    assert "client" not in (await status(cluster, ref))["entries"]
    listen.touch()
    await entry_is(cluster, ref, "client", "Completed")
    assert (await status(cluster, ref))["entries"]["server"]["phase"] == "Running"
    await cluster.patch(ref, {"spec": {"cancel": True}})
    found = await ended(cluster, ref)
    assert found["state"]["phase"] == "Terminated"
    job = await cluster.get(Ref(VC_JOB, "default", f"{ref.name}-server"))
    assert job["status"]["state"]["phase"] == "Terminated"


async def test_a_job_that_takes_too_long_is_ended(cluster: Cluster) -> None:
    await template(cluster, "endless", "sleep 600")
    ref = await start(cluster, entry("endless", timeoutSeconds=2))
    found = await ended(cluster, ref)
    assert (found["state"]["phase"], found["entries"]["endless"]["reason"]) == ("Failed", "TimedOut")


async def test_a_missing_template_is_told_and_the_flow_goes_on_when_it_comes(cluster: Cluster) -> None:
    ref = await start(cluster, entry("late"))
    await reports(cluster, ref.name, "MissingTemplate")
    await template(cluster, "late", "true")
    await reaches(cluster, ref, "Succeed")


async def test_a_schedule_makes_flows_that_run(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    await template(cluster, "tick", f"echo $FLOW_word >> {log}")
    ref = await start(cluster, entry("tick"), schedule="@every 3s", parameters={"word": "tick"})
    await eventually(lambda: len(lines(log)) >= 2, 60)
    assert set(lines(log)) == {"tick"}
    found = await status(cluster, ref)
    assert found["state"]["phase"] == "Scheduled"
    assert found["lastScheduleTime"]
    assert f"{ref.name}-tick" not in [job["metadata"]["name"] for job in (await cluster.list(VC_JOB, "default"))[0]]
    await cluster.patch(ref, {"spec": {"suspend": True}})
