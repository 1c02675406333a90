"""A running process loses rights on a real API server: each is told by name, others go on, and nothing is lost.

The process is `penstock standalone`: whatever it is refused, none of its parts may end the others. Jobs write down the
item that they were made for, so that what ran, and how often, is known.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.manifests import rbac
from tests.integration.controllers import role_scenario as scenario
from tests.integration.controllers.role_scenario import until
from tests.support import audit
from tests.support.ports import free_ports
from tests.support.role_rig import GRANTS, PASSWORD, Running, role_rig, without_bindings, without_right
from workers.api.kinds import EVENT, SCALED_JOB

pytestmark = [pytest.mark.real_apiserver, pytest.mark.timeout(300)]

PROCESS, ACCOUNT = "standalone", "penstock-standalone"
#: The sooner a kind is stale and a Lease is lost, and the shorter a backoff, the sooner the test is over.
SETTINGS = {"OWN_NAMESPACE": "penstock", "JOBS": "all", "STALE": "3", "LEADERSHIP": "3", "BACKOFF_CAP": "2"}


@dataclass(frozen=True)
class Work:
    """A ScaledJob that claims items, and a Deployment that a ScaledObject scales by another list.

    file: where Jobs write their items. health, metrics: addresses of the process.
    """

    running: Running
    file: Path
    health: str
    metrics: str

    def push(self, *items: str, to: str = "items") -> int:
        """Appends to a list; returns its length."""
        with redis.Redis(port=self.running.source.port, password=PASSWORD) as link:
            return int(link.rpush(to, *items))  # type: ignore[arg-type]

    def ran(self) -> list[str]:
        """Returns the items that Jobs ran for, as often as they did."""
        return sorted(self.file.read_text().split()) if self.file.exists() else []

    def jobs(self) -> set[str]:
        return {job["metadata"]["name"] for job in self.running.find("jobs.batch")}

    def told(self) -> str:
        """Returns the message of the ScaledJob's condition Ready, and those of its Events."""
        found = self.running.read("scaledjobs", "items").get("status", {}).get("conditions") or ()
        events = self.running.ask(EVENT.path("default"))["items"]
        texts = [one.get("message", "") for one in found if one["type"] == "Ready"]
        return "\n".join([*texts, *(one["message"] for one in events if one["involvedObject"]["name"] == "items")])

    def logged(self, text: str) -> bool:
        return text in self.running.logs[PROCESS].read_text()

    def answer(self, path: str) -> tuple[int, Mapping[str, str]]:
        """Returns the status of /healthz or /readyz, and the reasons of the failed checks."""
        try:
            with urllib.request.urlopen(f"http://{self.health}{path}", timeout=30) as answer:
                return int(answer.status), json.load(answer)["failed"]
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["failed"]

    def decisions_put_off(self) -> float:
        """Returns how often the ScaledJob was not decided on, because a kind was stale."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.search(rf'penstock_reconcile_total{{kind="{SCALED_JOB.id}",outcome="Stale"}} (\S+)', text)
        return float(found[1]) if found else 0.0

    def the_deployment_follows(self) -> None:
        """Returns once it has as many replicas as its list has items, one of them new."""
        wanted = self.push("more", to="pool")
        until(lambda: self.running.read("deployments", "pool")["spec"]["replicas"] == wanted, "another kind goes on")

    def lives(self) -> bool:
        return self.running.processes[PROCESS].poll() is None and self.answer("/healthz") == (200, {})


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """At first two items ran, and the Deployment has two replicas."""
    folder = tmp_path_factory.mktemp("lost")
    health, metrics = free_ports(2)
    settings = {**SETTINGS, "HEALTH": f"127.0.0.1:{health}", "METRICS_PORT": str(metrics)}
    settings["METRICS_ADDRESS"] = "127.0.0.1"
    roles = rbac.documents(GRANTS, rbac.Placement(processes=(PROCESS,)))
    parts = (PROCESS, "kubelet")
    with role_rig(folder, roles, settings=settings, processes=parts, relayed=(PROCESS,)) as running:
        made = Work(running, folder / "ran", settings["HEALTH"], f"127.0.0.1:{metrics}")
        spec: dict[str, Any] = {"pollingInterval": 1, "triggers": [scenario.trigger(running, "items")]}
        spec["scalingStrategy"] = {"strategy": "claim"}
        spec["jobTargetRef"] = {"template": scenario.template(f'echo "$PENSTOCK_ITEM" >> {made.file}')}
        claiming = scenario.body("ScaledJob", "keda.sh/v1alpha1", "items", spec=spec)
        running.apply(*scenario.redis_trigger(running, "items"), claiming)
        until(scenario.scaled_object(running), "the Deployment is scaled")
        until(lambda: made.ran() == ["one", "two"], "two items ran")
        yield made
        running.processes[PROCESS].terminate()
        assert running.processes[PROCESS].wait(90) == 0
        assert not made.logged("Traceback")


def test_claimed_items_wait_for_the_right_to_create_their_jobs_and_run_once(work: Work) -> None:
    with without_right(work.running, ACCOUNT, "jobs", "create"):
        work.push("three", "four")
        until(lambda: "must allow: create jobs, API group batch" in work.told(), "the right is named")
        work.the_deployment_follows()
        assert work.ran() == ["one", "two"]
    until(lambda: work.ran() == ["four", "one", "three", "two"], "the items that waited ran")
    assert work.lives()


def test_without_the_right_to_watch_jobs_nothing_is_done_with_them_until_they_are_known_again(work: Work) -> None:
    running, before, ran = work.running, work.jobs(), work.ran()
    with without_right(running, ACCOUNT, "jobs", "list", "watch"):
        # A server asks for rights when a watch begins.
        running.links[PROCESS].cut()
        running.links[PROCESS].heal()
        until(lambda: work.logged("must allow: watch jobs, API group batch"), "the right is named")
        unknown = "the jobs.batch of the cluster were last seen"
        until(lambda: work.answer("/readyz")[1].get("cache", "").startswith(unknown), "the kind is stale")
        begun, seen = work.decisions_put_off(), len(list(audit.events(running.home)))
        # Two Jobs are to be created, and the others to be deleted.
        work.push("five", "six")
        running.patch("scaledjobs", "items", {"spec": {"successfulJobsHistoryLimit": 0}})
        until(lambda: work.decisions_put_off() > begun, "the ScaledJob waits")
        work.the_deployment_follows()
        assert work.jobs() == before
        assert [event for event in list(audit.events(running.home))[seen:] if _writes_jobs(event)] == []
        assert work.ran() == ran
    until(lambda: work.ran() == sorted([*ran, "five", "six"]), "the items that waited ran")
    until(lambda: work.jobs() == set(), "the Jobs are deleted")
    assert work.lives()


def test_an_account_without_any_right_waits_and_goes_on_once_it_is_bound_again(work: Work) -> None:
    before, ran = work.jobs(), work.ran()
    with without_bindings(work.running, ACCOUNT):
        until(lambda: work.logged("must allow: update leases, API group coordination.k8s.io"), "the right is named")
        until(lambda: work.answer("/readyz")[0] == 503, "the kinds are stale")
        work.push("seven", "eight")
        # Nobody leads: nothing is decided on, and no request is made but those of the election.
        until(lambda: work.logged('"could not campaign"'), "it campaigns again")
        assert work.lives()
        assert (work.ran(), work.jobs()) == (ran, before)
    until(lambda: work.ran() == sorted([*ran, "seven", "eight"]), "the items that waited ran")
    work.the_deployment_follows()
    until(lambda: work.answer("/readyz") == (200, {}), "all kinds are known")
    assert work.lives()


def _writes_jobs(event: Mapping[str, Any]) -> bool:
    asked = event.get("objectRef") or {}
    return asked.get("resource") == "jobs" and event["verb"] not in ("get", "list", "watch")
