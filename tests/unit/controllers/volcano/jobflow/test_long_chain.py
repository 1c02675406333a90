"""A long chain: what an entry costs does not grow with the flow, and what waits to be written is not lost."""

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from tests.unit.controllers.volcano.jobflow.flow_cluster import Cluster
from workers.controllers.volcano.jobflow import status
from workers.controllers.volcano.jobflow.decide import decide
from workers.controllers.volcano.jobflow.observed import relatives


def chain(length: int) -> Cluster:
    waits = [{"dependsOn": {"targets": [f"e{number - 1}"]}} if number else {} for number in range(length)]
    return Cluster(*({"name": f"e{number}", "template": "t", **each} for number, each in enumerate(waits)))


def advance(cluster: Cluster, entries: int) -> int:
    """So many entries end, one after the other. Returns the statuses that were written."""
    written = 0
    for _ in range(entries):
        before = cluster.status
        cluster.reconcile()
        written += cluster.status is not before
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


def written_by_half(length: int) -> Cluster:
    """A chain whose status has the first half, and whose next entry has ended."""
    cluster = chain(length)
    advance(cluster, length // 2)
    cluster.wait(3)
    advance(cluster, 2)
    return cluster


def test_a_decision_makes_as_many_calls_in_a_chain_of_twice_the_length() -> None:
    short, long = (calls_of_one_decision(written_by_half(length)) for length in (250, 500))
    assert sum(long.values()) <= 1.1 * sum(short.values()), (long - short).most_common(5)


def test_a_chain_writes_its_status_as_often_as_time_passes_not_for_each_entry() -> None:
    cluster = chain(status.LONG + 50)
    # The start, and the second entry, before which there was no time of a Job that waits.
    assert advance(cluster, status.LONG) <= 2
    cluster.wait(2)
    assert advance(cluster, 1) == 1
    assert cluster.entry(f"e{status.LONG - 1}")["phase"] == "Completed"
    while not cluster.over:
        cluster.reconcile()
        for name in cluster.unfinished():
            cluster.end(name, "Completed")
    assert (cluster.phase, len(cluster.made)) == ("Succeed", status.LONG + 50)


@pytest.mark.parametrize("deleted", [("f-e1",), ("f-e1", "f-e2"), ("f-e2",)])
def test_an_end_that_waits_to_be_written_survives_the_deletion_of_its_job(
    monkeypatch: pytest.MonkeyPatch, deleted: tuple[str, ...]
) -> None:
    monkeypatch.setattr(status, "SHORT", 0)
    monkeypatch.setattr(status, "LONG", 0)
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


def test_a_failure_and_the_end_that_nothing_proves_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SHORT", 0)
    monkeypatch.setattr(status, "LONG", 0)
    cluster = Cluster({"name": "a", "template": "t"}, {"name": "b", "template": "t", "retry": {"limit": 1}})
    cluster.settle()
    cluster.end("f-a", "Completed")
    cluster.reconcile()
    assert cluster.entry("a")["phase"] == "Completed"
    cluster.end("f-b", "Failed")
    cluster.reconcile()
    assert cluster.entry("b")["phase"] == "Retrying"
