"""A long chain: what an entry costs does not grow with the flow, and what waits to be written is not lost."""

import sys
from collections import Counter
from collections.abc import Iterable
from random import Random
from types import FrameType
from typing import Any

import orjson
import pytest

from tests.support.tables import cases
from tests.unit.controllers.volcano.jobflow.flow_cluster import Cluster
from workers.api.kinds import VC_JOB, Object
from workers.api.volcano.jobflow import RETRY
from workers.controllers.volcano.jobflow import graph, progress, status
from workers.controllers.volcano.jobflow.decide import decide
from workers.controllers.volcano.jobflow.observed import AHEAD, LONG, relatives
from workers.decision.plan import Step, Together


def chain(length: int, templates: int = 1) -> Cluster:
    """A flow whose entries wait each for the one before, with so many JobTemplates in turn."""
    waits = [{"dependsOn": {"targets": [f"e{number - 1}"]}} if number else {} for number in range(length)]
    return Cluster(
        *({"name": f"e{number}", "template": f"t{number % templates}", **each} for number, each in enumerate(waits))
    )


def advance(cluster: Cluster, entries: int) -> int:
    """So many entries end, one after the other. Returns the statuses that were written."""
    written = 0
    for _ in range(entries):
        while True:
            before = cluster.status
            cluster.reconcile()
            written += cluster.status is not before
            # Of a template that was not looked for yet, the decision writes the status and comes back.
            if cluster.unfinished() or cluster.status is before:
                break
        (at_work,) = cluster.unfinished()
        cluster.end(at_work, "Completed")
    return written


def calls_of_one_decision(cluster: Cluster) -> Counter[str]:
    """Calls of Python functions, with each item of a generator, by function."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        counted[frame.f_code.co_qualname] += event == "call"

    snapshot, now = cluster.snapshot(), cluster.now
    sys.setprofile(count)
    try:
        relatives(cluster.shown)
        decide(snapshot, now)
    finally:
        sys.setprofile(None)
    return counted


def wait_until_due(cluster: Cluster, length: int) -> None:
    """Waits until what a flow of this length has held back is written next."""
    cluster.wait(status.delay(length).total_seconds() + 1)


def written_by_half(length: int) -> Cluster:
    """A chain whose status has the first half, and whose next entry has ended."""
    cluster = chain(length)
    advance(cluster, length // 2)
    wait_until_due(cluster, length)
    advance(cluster, 2)
    return cluster


def test_a_decision_makes_as_many_calls_in_a_chain_of_twice_the_length() -> None:
    short, long = (calls_of_one_decision(written_by_half(length)) for length in (250, 500))
    assert sum(long.values()) <= 1.1 * sum(short.values()), (long - short).most_common(5)


def test_a_flow_that_did_not_change_is_not_encoded_to_find_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, graph_of = chain(3), graph._read
    read: list[bytes] = []

    def counted(namespace: str, name: str, written: bytes) -> graph.Graph:
        read.append(written)
        return graph_of(namespace, name, written)

    monkeypatch.setattr(graph, "_read", counted)
    for _ in range(3):
        calls_of_one_decision(cluster)
    assert len(read) == 1
    cluster.shown = {**cluster.shown, "spec": {"flows": [{"name": "other", "template": "t0"}]}}
    calls_of_one_decision(cluster)
    assert [len(orjson.loads(written)["flows"]) for written in read] == [3, 1]


def test_a_chain_writes_its_status_as_often_as_time_passes_not_for_each_entry() -> None:
    cluster = chain(LONG + 50)
    # The start, and the second entry, before which there was no time of a Job that waits.
    assert advance(cluster, LONG) <= 2
    cluster.wait(2)
    assert advance(cluster, 1) == 1
    assert cluster.entry(f"e{LONG - 1}")["phase"] == "Completed"
    while not cluster.over:
        cluster.reconcile()
        for name in cluster.unfinished():
            cluster.end(name, "Completed")
    assert (cluster.phase, len(cluster.made)) == ("Succeed", LONG + 50)


def test_an_end_that_waits_to_be_written_costs_a_decision_three_calls() -> None:
    counted = []
    for waiting in (20, 120):
        cluster = chain(400)
        advance(cluster, LONG)
        wait_until_due(cluster, 400)
        advance(cluster, waiting)
        # What is new is looked at once, and the decision after it is the usual one.
        calls_of_one_decision(cluster)
        counted.append(calls_of_one_decision(cluster))
    more = counted[1] - counted[0]
    assert sum(more.values()) <= 3 * 100, more.most_common(8)


@cases(
    ("a short flow", 1, 2.0),
    ("up to here it does not grow", 250, 2.0),
    ("twice as many", 500, 4.0),
    ("at most", 100_000, 10.0),
)
def test_what_may_wait_to_be_written_waits_longer_in_a_flow_of_more_nodes(nodes: int, seconds: float) -> None:
    assert status.delay(nodes).total_seconds() == seconds


def written_out(steps: Iterable[Step]) -> list[object]:
    """The steps of a plan, with those that are made when they are needed."""
    return [
        (written_out(step.steps), written_out(step.meanwhile or ())) if isinstance(step, Together) else step
        for step in steps
    ]


def random_flow(random: Random) -> Cluster:
    entries: list[Object] = []
    for number in range(10):
        before = [each["name"] for each in entries]
        targets = {*before[-1:], *random.sample(before, random.randint(0, min(number, 1)))}
        entry: Object = {"name": f"e{number}", "template": "t", "dependsOn": {"targets": sorted(targets)}}
        if random.random() < 0.3:
            entry["forEach"] = {"items": ["a", "b", "c"], "parallelism": 2}
        if random.random() < 0.3:
            entry["retry"] = {"limit": 1, "backoffSeconds": 1}
        entries.append(entry)
    return Cluster(*entries)


def happen(cluster: Cluster, random: Random) -> None:
    """One thing happens to the flow: mostly a Job ends."""
    jobs, graves = sorted(cluster.jobs), [name for name, entry in cluster.mirror.items() if entry.gone]
    match random.random():
        case chance if jobs and chance < 0.7:
            cluster.end(random.choice(cluster.unfinished() or jobs), "Completed")
        case chance if jobs and chance < 0.83:
            cluster.end(random.choice(jobs), random.choice(("Completed", "Failed", "Running")))
        case chance if jobs and chance < 0.86:
            cluster.remove(random.choice(jobs))
        case chance if graves and chance < 0.89:
            del cluster.mirror[random.choice(graves)]
        case chance if jobs and chance < 0.93:
            # A deleted Job is there again, or another process made the next attempt.
            name = random.choice([*sorted(set(cluster.made) - set(jobs)), f"{random.choice(jobs)}-r1"])
            cluster.appear(name, cluster.jobs[jobs[0]])
        case chance if chance < 0.95:
            cluster.annotate(**{RETRY: str(chance)})
        case chance if chance < 0.96:
            progress._CACHE.clear()
        case _:
            cluster.wait(random.choice((0.3, 1.0, 2.0)))


@pytest.fixture
def every_flow_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SHORT", 0)
    monkeypatch.setattr(status, "LONG", 0)


@pytest.mark.usefixtures("every_flow_is_long")
@pytest.mark.parametrize("seed", range(60))
def test_a_process_that_remembers_decides_as_one_that_does_not(seed: int) -> None:
    random = Random(seed)
    cluster = random_flow(random)
    for _ in range(60):
        snapshot, now = cluster.snapshot(), cluster.now
        found = written_out(decide(snapshot, now).steps)
        remembered = progress._CACHE.copy()
        progress._CACHE.clear()
        assert written_out(decide(snapshot, now).steps) == found
        progress._CACHE.update(remembered)
        cluster.reconcile()
        happen(cluster, random)


@pytest.mark.usefixtures("every_flow_is_long")
@pytest.mark.parametrize("seed", range(60))
def test_what_a_process_remembers_is_what_it_would_find_out_anew(seed: int) -> None:
    random = Random(seed)
    cluster = random_flow(random)
    for _ in range(60):
        snapshot = cluster.snapshot()
        decide(snapshot, cluster.now)
        known = progress._CACHE["uid-f"][1]
        assert isinstance(known, progress.StoredProgress)
        jobs = {entry.ref.name: entry.body for entry in snapshot.children[VC_JOB.id]}
        living = {name: body for name, body in jobs.items() if body is not None}
        assert (known.jobs.living, known.jobs.gone) == (living, jobs.keys() - living.keys())
        assert known.proving == {
            name: id for id, (_, track, following) in known.ended.items() for name in (track.job, following)
        }
        assert known.begun_since == (known.fresh.keys() & living.keys()) - known.proving.keys()
        assert known.strangers == living.keys() - known.named
        if not known.uncompared:
            shown = (cluster.shown.get("status") or {}).get("conditions") or {}
            assert known.missing == shown.keys() - living.keys()
            assert known.differing.keys() == {
                name for name, job in living.items() if status._condition(job) != shown.get(name)
            }
        # Or its worker dies before it has written anything.
        if random.random() < 0.7:
            cluster.reconcile()
        happen(cluster, random)


@pytest.mark.usefixtures("every_flow_is_long")
def test_a_job_of_which_only_the_status_knows_leaves_the_status_at_once() -> None:
    cluster = chain(5)
    advance(cluster, 2)
    assert "f-e0" in cluster.status["conditions"]
    cluster.remove("f-e0")
    del cluster.mirror["f-e0"]
    progress._CACHE.clear()
    cluster.reconcile()
    assert "f-e0" not in cluster.status["conditions"]


@pytest.mark.usefixtures("every_flow_is_long")
def test_a_job_that_is_there_again_before_its_absence_is_written_need_not_be_written() -> None:
    cluster = chain(5)
    advance(cluster, 2)
    written, job = cluster.status, cluster.jobs["f-e0"]
    cluster.remove("f-e0")
    decide(cluster.snapshot(), cluster.now)
    cluster.appear("f-e0", job)
    cluster.end("f-e0", "Completed")
    cluster.reconcile()
    assert cluster.status is written


def test_a_chain_of_different_templates_writes_its_status_once_for_many_entries() -> None:
    cluster = chain(LONG + 50, templates=LONG + 50)
    # Where the templates that were read end, the status is written before the next entry starts, and after it.
    assert advance(cluster, LONG) <= 2 * (1 + LONG / AHEAD)
    while not cluster.over:
        cluster.settle()
        for name in cluster.unfinished():
            cluster.end(name, "Completed")
    assert (cluster.phase, len(cluster.made)) == ("Succeed", LONG + 50)


def test_a_template_that_is_missing_further_on_stops_the_flow_at_its_entry_alone() -> None:
    cluster = chain(LONG + 50, templates=LONG + 50)
    missing = cluster.templates.pop("t70")
    for _ in range(200):
        cluster.settle()
        if not (at_work := cluster.unfinished()):
            break
        cluster.end(at_work[0], "Completed")
    assert (cluster.made[-1], cluster.ready) == ("f-e69", ("False", "MissingTemplate"))
    cluster.templates["t70"] = missing
    cluster.wait(11)
    cluster.settle()
    assert cluster.made[-1] == "f-e70"


@pytest.mark.usefixtures("every_flow_is_long")
@pytest.mark.parametrize("deleted", [("f-e1",), ("f-e1", "f-e2"), ("f-e2",)])
def test_an_end_that_waits_to_be_written_survives_the_deletion_of_its_job(deleted: tuple[str, ...]) -> None:
    cluster = chain(5)
    advance(cluster, 4)
    assert "Completed" not in {cluster.entry(name).get("phase") for name in ("e1", "e2")}
    for name in deleted:
        cluster.remove(name)
    while not cluster.over:
        cluster.settle()
        for name in cluster.unfinished():
            cluster.end(name, "Completed")
        cluster.wait(2)
    assert cluster.made == [f"f-e{number}" for number in range(5)]
    assert {cluster.entry(f"e{number}")["phase"] for number in range(5)} == {"Completed"}


@pytest.mark.usefixtures("every_flow_is_long")
def test_a_failure_and_the_end_that_nothing_proves_do_not_wait() -> None:
    cluster = Cluster({"name": "a", "template": "t"}, {"name": "b", "template": "t", "retry": {"limit": 1}})
    cluster.settle()
    cluster.end("f-a", "Completed")
    cluster.reconcile()
    assert cluster.entry("a")["phase"] == "Completed"
    cluster.end("f-b", "Failed")
    cluster.reconcile()
    assert cluster.entry("b")["phase"] == "Retrying"


@pytest.mark.usefixtures("every_flow_is_long")
@cases(
    ("a template that was not looked for yet", {"template": "other", "dependsOn": {"targets": ["e2"]}}),
    ("a template that is missing", {"template": "missing"}),
)
def test_an_end_is_written_at_once_while_an_entry_waits_for(more: Object) -> None:
    cluster = Cluster({"name": "more", **more}, *chain(4).body["spec"]["flows"])
    cluster.templates.pop("missing", None)
    cluster.reconcile()
    for ended in ("f-e0", "f-e1", "f-e2"):
        cluster.end(ended, "Completed")
        cluster.reconcile()
    assert cluster.entry("e2")["phase"] == "Completed"
