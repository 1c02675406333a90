"""``penstock explain``: decisions as they were remembered, in order, of this very object."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.cli.objects import explain
from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import JOB, POD, SCALED_JOB, FakeCluster
from workers.api.kinds import CRON_JOB, JOB_FLOW, POD_GROUP, VC_JOB, Kind, Object, Ref
from workers.decision.plan import Figure
from workers.reconcile.decision_log import LoggedDecision

FINISHED = {"type": "Ready", "status": "True", "reason": "Finished", "message": "the flow is over"}


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch, reading: None) -> list[LoggedDecision]:
    """The decisions in the broker; a test fills the list."""
    made: list[LoggedDecision] = []

    async def decisions(_: Ref, _homes: Sequence[Path]) -> list[LoggedDecision]:
        return made

    monkeypatch.setattr(explain, "decisions", decisions)
    return made


def at(seconds: float) -> int:
    return round((datetime.now(UTC).timestamp() - seconds) * 1e6)


def test_decisions_are_printed_with_the_newest_arithmetic(
    cluster: FakeCluster, remembered: list[LoggedDecision], penstock: Type
) -> None:
    cluster.add(SCALED_JOB, "crunch")
    figures = (Figure("queue", 7), Figure("to create", 5, "7 - 2"))
    old: dict[str, Any] = {"uid": "uid-crunch", "figures": (Figure("old", 1),)}
    remembered += [
        LoggedDecision("uid-crunch", "7 waiting: 5 to create", figures, ("Create 5 Jobs",), "refused", at=at(2)),
        LoggedDecision("uid-of-an-earlier-crunch", "another object", at=at(3)),
        LoggedDecision(why="0 waiting", times=3, at=at(60), **old),
        LoggedDecision(why="beyond the last", at=at(90), **old),
    ]
    printed = penstock("explain", "sj/crunch", "--last", "2")
    assert printed.code == 0
    told = printed.lines
    assert "s0-redis-work redis 7 1 true" in told
    decided = told[told.index("Decisions:") + 1 :]
    assert decided[0].endswith("ago: 7 waiting: 5 to create")
    assert decided[1:3] == ["after a failure: refused", "then: Create 5 Jobs"]
    assert decided[-3:-1] == ["7 queue", "5 to create = 7 - 2"]
    assert decided[-1].endswith("ago, 3 times in a row: 0 waiting")
    assert "old" not in printed.out.split()


def test_a_cron_job_is_explained_without_a_reading(
    cluster: FakeCluster, remembered: list[LoggedDecision], penstock: Type
) -> None:
    cluster.add(CRON_JOB, "backup")
    remembered.append(LoggedDecision("uid-backup", "nothing due", at=at(1)))
    out = penstock("explain", "cronjob", "backup").out
    assert "nothing due" in out
    assert "reading" not in out


@for_each(
    # A map by Job, and the list that has the condition.
    (JOB_FLOW, {"conditions": {"a-fetch": {"phase": "Completed"}}, "flowConditions": [FINISHED]}, True),
    (JOB_FLOW, {"conditions": {"a-fetch": {"phase": "Completed"}}}, False),
    # A history of phases.
    (VC_JOB, {"conditions": [{"status": "Pending"}, {"status": "Completed"}]}, False),
    (POD_GROUP, {"conditions": [FINISHED]}, True),
)
def test_conditions_are_those_that_describe_shows(
    kind: Kind, status: Object, shown: bool, volcano: FakeCluster, remembered: list[LoggedDecision], penstock: Type
) -> None:
    volcano.add(kind, "a", status=status)
    printed = penstock("explain", kind.id, "a")
    assert printed.code == 0, printed
    assert ("Conditions:" in printed.lines) == shown
    assert ("Ready True Finished the flow is over" in printed.lines) == shown


def test_an_object_without_decisions_is_reported(
    cluster: FakeCluster, remembered: list[LoggedDecision], penstock: Type
) -> None:
    cluster.add(CRON_JOB, "backup")
    assert "<none> remembered" in penstock("explain", "cj/backup").out


def test_a_broker_out_of_reach_is_an_error_without_its_password(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BROKER", "redis://:hunter2@127.0.0.1:1/0")
    cluster.add(CRON_JOB, "backup")
    printed = penstock("explain", "cj/backup")
    assert printed.code == 1
    assert "out of reach" in printed.err
    assert "hunter2" not in printed.err + printed.out


def test_a_jobs_pods_that_cannot_start_follow_with_the_reason(
    cluster: FakeCluster, remembered: list[LoggedDecision], penstock: Type
) -> None:
    owner = {"kind": "Job", "name": "crunch", "uid": cluster.add(JOB, "crunch")["metadata"]["uid"], "controller": True}
    metadata = {"ownerReferences": [owner], "labels": {"job-name": "crunch"}}
    cluster.add(POD, "good", metadata=metadata, status={"phase": "Running"})
    waiting = {"waiting": {"reason": "CreateContainerError", "message": "no command: images are not run here"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting}]}
    cluster.add(POD, "bad", metadata=metadata, status=status)
    out = penstock("explain", "job", "crunch").out
    assert "main: CreateContainerError: no command: images are not run here" in out
    assert "good" not in out


def test_a_missing_object_leaves_the_others_explained(
    cluster: FakeCluster, remembered: list[LoggedDecision], penstock: Type
) -> None:
    cluster.add(SCALED_JOB, "crunch")
    printed = penstock("explain", "sj", "gone", "crunch")
    assert (printed.code, printed.err) == (1, 'penstock: scaledjobs "gone" not found\n')
    assert "ScaledJob default/crunch" in printed.lines
