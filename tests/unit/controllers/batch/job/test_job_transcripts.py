"""All that is decided on batch/v1 Jobs in their lives, word for word."""

from typing import Any

import pytest

from tests.unit.controllers.batch.job import job_cluster
from tests.unit.controllers.batch.job.job_cluster import JobCluster
from tests.unit.controllers.transcripts import PlanTranscript
from workers.controllers.batch.job import decide

LIVES: dict[str, tuple[dict[str, Any], dict[tuple[int | None, int], int]]] = {
    "complete": ({"completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 60}, {(None, 0): 1}),
    "backoff": ({"completions": 2, "parallelism": 2, "backoffLimit": 1}, {(None, each): 3 for each in range(9)}),
    "deadline": ({"activeDeadlineSeconds": 5, "parallelism": 2}, {(None, each): -1 for each in range(9)}),
    "indexed": (
        {
            "completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 2,
        },
        {(1, 0): 1, (2, 0): 1, (2, 1): 1},
    ),
    "success": (
        {
            "completions": 4, "parallelism": 4, "completionMode": "Indexed",
            "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
        },
        {(0, 0): -1, (2, 0): -1, (3, 0): -1},
    ),
    "policy": (
        {
            "completions": 3, "parallelism": 3,
            "podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [5]}},
            ]},
        },
        {(None, 0): 5, (None, 1): 42, (None, 2): -1},
    ),
    "replacement": ({"parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed"}, {(None, 0): 7}),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVES)
def test_the_life_of_a_job(name: str, transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_cluster, "decide", transcript.of(decide))
    spec, codes = LIVES[name]
    begun: set[tuple[int | None, int]] = set()

    def script(index: int | None, attempt: int) -> int | None:
        """Each pod runs for a second; -1: it never ends by itself."""
        code = codes.get((index, attempt), 0)
        if (index, attempt) not in begun or code < 0:
            begun.add((index, attempt))
            return None
        return code

    cluster = JobCluster(script, **spec)
    cluster.settle()
    assert cluster.over
    cluster.second += 61
    cluster.sync()
    assert transcript.text == transcript.expected(name)


def test_a_job_that_is_suspended_resumed_and_resized(
    transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_cluster, "decide", transcript.of(decide))
    cluster = JobCluster(lambda index, attempt: None, completions=4, parallelism=2)
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"suspend": True},
        {"suspend": False},
        {"parallelism": 3},
        {"parallelism": 1},
    )
    for change in changes:
        transcript.note(str(change))
        cluster.job = {**cluster.job, "spec": {**cluster.job["spec"], **change}}
        for _ in range(4):
            cluster.sync()
            cluster.play()
            cluster.second += 1
    assert transcript.text == transcript.expected("suspended")
