"""A flow of fifty entries under kill -9 of every part: each runs as often as it must, after what it waits for."""

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chaos.parts import PARTS, kill, run_installation
from tests.chaos.patience import beside, everything, insist, nothing_left, until
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, POD, VC_JOB, Object, Ref
from workers.client.rest import Cluster
from workers.controllers.volcano.jobflow import phases

pytestmark = pytest.mark.timeout(420)

#: So many entries stand in a row and wait for two of the row before.
WIDTH, ROWS = 10, 5
FLOW = Ref(JOB_FLOW, "default", "chaos")
#: The flow cannot be over before this one, which waits until everything has died.
LAST = f"r{ROWS - 1}-{WIDTH - 1}"
#: A pod takes the first free number of its entry; the first few fail. What happens stands in one file, in its order.
SCRIPT = """
    n=0; while ! mkdir "{truth}/$ENTRY-$n" 2>/dev/null; do n=$((n+1)); done
    echo "$ENTRY start" >> {truth}/log
    sleep 0.3
    if [ $n -lt $FAILURES ]; then echo "$ENTRY failure" >> {truth}/log; exit 3; fi
    if [ $ENTRY = {last} ]; then until [ -e {truth}/killed ]; do sleep 0.1; done; fi
    echo "$ENTRY success" >> {truth}/log
"""


@dataclass(frozen=True)
class Entry:
    """One entry: what it waits for, and how often it fails before it succeeds."""

    name: str
    targets: tuple[str, ...]
    failures: int

    @property
    def body(self) -> Object:
        variables = [{"name": "ENTRY", "value": self.name}, {"name": "FAILURES", "value": str(self.failures)}]
        pod = {"spec": {"containers": [{"name": "main", "env": variables}]}}
        return {
            "name": self.name,
            "template": "step",
            "patch": {"jobSpec": {"tasks": [{"name": "work", "template": pod}]}},
            **({"retry": {"limit": self.failures, "backoffSeconds": 0}} if self.failures else {}),
            **({"dependsOn": {"targets": list(self.targets)}} if self.targets else {}),
        }

    @property
    def course(self) -> list[str]:
        """What it must have written down in the end."""
        return ["start", "failure"] * self.failures + ["start", "success"]


ENTRIES = tuple(
    Entry(
        name=f"r{row}-{column}",
        targets=(f"r{row - 1}-{column}", f"r{row - 1}-{(column + 1) % WIDTH}") if row else (),
        failures=(2 if column == 7 else 1) if (row + column) % 4 == 3 else 0,
    )
    for row in range(ROWS)
    for column in range(WIDTH)
)


@dataclass
class Seen:
    """What the cluster holds when all is over. killed: the parts that died, and how many lines the log had by then."""

    flow: Object = field(default_factory=dict)
    pods: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)
    killed: list[tuple[str, int]] = field(default_factory=list)


def lines(truth: Path) -> list[str]:
    log = truth / "log"
    return log.read_text().splitlines() if log.exists() else []


async def start(cluster: Cluster, truth: Path) -> None:
    script = SCRIPT.replace("{truth}", str(truth)).replace("{last}", LAST)
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"tasks": [{"name": "work", "replicas": 1, "template": {"spec": pod}}]}
    for kind, name, spec in (
        (JOB_TEMPLATE, "step", template),
        (JOB_FLOW, FLOW.name, {"flows": [entry.body for entry in ENTRIES]}),
    ):
        metadata = {"namespace": "default", "name": name}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        await cluster.create(kind, body)


async def kill_each(rounds: int, truth: Path, seen: Seen) -> None:
    """Every part in turn, each time in another order and spread over the whole flow."""
    order = [part for _ in range(rounds) for part in random.sample(list(PARTS), len(PARTS))]
    last = sum(len(entry.course) for entry in ENTRIES)
    for number, part in enumerate(order, 1):
        due = last * number // (len(order) + 1)
        while len(lines(truth)) < due or not kill(part):
            await asyncio.sleep(0.02)
        seen.killed.append((part, len(lines(truth))))
    (truth / "killed").touch()


async def happen(cluster: Cluster, truth: Path, seen: Seen) -> None:
    await start(cluster, truth)

    async def over() -> bool:
        if killing.done():
            killing.result()
        return ((await _flow(cluster)).get("status") or {}).get("state", {}).get("phase") in phases.FINAL

    try:
        async with beside(kill_each(2, truth, seen)) as [killing]:
            await until(over)
            await until(lambda: nothing_left(cluster))
    finally:
        seen.flow = await _flow(cluster)
        seen.pods, seen.jobs = await everything(cluster, POD), await everything(cluster, VC_JOB)


async def _flow(cluster: Cluster) -> Object:
    return await insist(lambda: cluster.get(FLOW))


def test_every_entry_runs_as_often_as_it_must_and_in_order(tmp_path: Path):
    random.seed(3)
    seen, truth = Seen(), tmp_path / "truth"
    truth.mkdir()
    run_installation(tmp_path / "home", lambda cluster, _: happen(cluster, truth, seen), pods=12)
    status = seen.flow["status"]
    assert status["state"]["phase"] == phases.SUCCEED, status
    assert {part for part, _ in seen.killed} == set(PARTS)
    assert len(seen.killed) == 2 * len(PARTS)
    attempts = {entry.name: entry.failures + 1 for entry in ENTRIES}
    assert {name: (one["phase"], one["attempts"]) for name, one in status["entries"].items()} == {
        name: ("Completed", number) for name, number in attempts.items()
    }
    assert len(seen.jobs) == len(seen.pods) == sum(attempts.values())
    _check(lines(truth))


def _check(log: list[str]) -> None:
    """Each entry ran as often as it had to, and began after all it waits for had succeeded."""
    courses: defaultdict[str, list[str]] = defaultdict(list)
    targets = {entry.name: entry.targets for entry in ENTRIES}
    for line in log:
        name, what = line.split()
        early = [target for target in targets[name] if courses[target][-1:] != ["success"]]
        assert not early, (line, early)
        courses[name].append(what)
    assert courses == {entry.name: entry.course for entry in ENTRIES}
