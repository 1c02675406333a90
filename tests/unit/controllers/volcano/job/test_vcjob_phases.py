"""The state machine of a Volcano Job, cell by cell, and the rules by which phases follow from counts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.volcano.job.vcjobs import parsed, task
from workers.controllers.volcano.job import phases
from workers.controllers.volcano.job.phases import JobPodCounts

PARTS = ("RestartTask", "RestartPod", "RestartPartition")
JOB = ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob")
REST = ("SyncJob", "EnqueueJob", "Unheard", "")
EVERY = (*JOB, *PARTS, *REST)

#: Phase: what actions do in it. ``+``: it counts as a restart; a letter: the rule that decides afterwards.
TABLE: dict[str, dict[Any, str]] = {
    "Pending": {
        "RestartJob": "KillNone -> Restarting +",
        PARTS: "KillTarget -> Restarting +",
        "AbortJob": "KillSoft -> Aborting",
        "TerminateJob": "KillSoft -> Terminating",
        "CompleteJob": "KillSoft -> Completing",
        ("ResumeJob", *REST): "Sync -> P",
    },
    "Running": {
        "RestartJob": "KillNone -> Restarting +",
        PARTS: "KillTarget -> Restarting +",
        "AbortJob": "KillSoft -> Aborting",
        "TerminateJob": "KillSoft -> Terminating",
        "CompleteJob": "KillSoft -> Completing",
        ("ResumeJob", *REST): "Sync -> R",
    },
    "Restarting": {JOB: "KillNone -> X", PARTS: "KillTarget -> X", REST: "Sync -> X"},
    "Aborting": {
        "ResumeJob": "KillSoft -> Restarting +",
        ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob", *PARTS, *REST): "KillSoft -> D",
    },
    "Aborted": {
        "ResumeJob": "KillSoft -> Restarting +",
        ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob", *PARTS, *REST): "KillSoft -> none",
    },
    "Terminating": {EVERY: "KillSoft -> D"},
    "Completing": {EVERY: "KillSoft -> D"},
    "Completed": {EVERY: "KillSoft -> none"},
    "Failed": {EVERY: "KillSoft -> none"},
    "Terminated": {EVERY: "KillSoft -> none"},
}


def cells():
    for phase, row in TABLE.items():
        for actions, expected in row.items():
            for action in (actions,) if isinstance(actions, str) else actions:
                yield pytest.param(phase, action, expected, id=f"{phase}, {action or 'nothing'}")


@pytest.mark.parametrize(("phase", "action", "expected"), list(cells()))
def test_what_an_action_does_in_a_phase(phase, action, expected):
    cell = phases.cell(phase, action)
    then = cell.then if isinstance(cell.then, str) else cell.then.value
    assert f"{cell.operation.value} -> {then}{' +' if cell.counts else ''}" == expected


def test_no_cell_is_missing_from_the_table():
    for phase, row in TABLE.items():
        actions = [action for key in row for action in ((key,) if isinstance(key, str) else key)]
        assert sorted(actions) == sorted(EVERY), phase


FOUR = (task("ps", 1), task("worker", 3))


@cases(
    ("none has begun", 4, JobPodCounts(pending=4), "Pending"),
    ("one is missing", 4, JobPodCounts(pending=1, running=3), "Pending"),
    ("all run", 4, JobPodCounts(running=4), "Running"),
    ("as many as must", 3, JobPodCounts(pending=1, running=3), "Running"),
    ("those that ended have begun", 4, JobPodCounts(running=2, succeeded=1, failed=1), "Running"),
    ("one on its way out does not count", 4, JobPodCounts(running=3, terminating=1), "Pending"),
    ("one of which nobody hears does not count", 4, JobPodCounts(running=3, unknown=1), "Pending"),
    ("none must", 0, JobPodCounts(), "Running"),
    ("those that never start count as failed", 4, JobPodCounts(failed=1, lost=3), "Running"),
    ("one that may still start", 4, JobPodCounts(pending=1, lost=2), "Pending"),
)
def test_rule_p(least, counts, phase):
    assert phases.pending(parsed(*FOUR, minAvailable=least).spec, counts).phase == phase


def ended(ps: int, worker: int, failed: int = 0) -> JobPodCounts:
    """So many pods of each task have succeeded."""
    return JobPodCounts(succeeded=ps + worker, failed=failed, succeeded_of={"ps": ps, "worker": worker})


@cases(
    ("all run", {}, JobPodCounts(running=4), "Running"),
    ("all succeeded", {}, ended(1, 3), "Completed"),
    ("one of a task failed that had to succeed", {}, ended(1, 2, failed=1), "Failed"),
    ("all failed", {}, ended(0, 0, failed=4), "Failed"),
    ("enough succeeded, whatever the task", {"minAvailable": 2}, ended(1, 1, failed=2), "Completed"),
    ("too few succeeded", {"minAvailable": 2}, ended(1, 0, failed=3), "Failed"),
    ("none had to succeed", {"minAvailable": 0}, ended(0, 0, failed=4), "Completed"),
    ("minSuccess, others run", {"minSuccess": 2}, JobPodCounts(running=2, succeeded=2), "Completed"),
    ("minSuccess is not reached", {"minSuccess": 3}, JobPodCounts(running=2, succeeded=2), "Running"),
    ("minSuccess cannot be reached", {"minSuccess": 3, "minAvailable": 1}, ended(1, 1, failed=2), "Failed"),
    ("minSuccess comes before the tasks' minimums", {"minSuccess": 2}, ended(0, 2, failed=2), "Completed"),
    ("more wait than may", {}, JobPodCounts(running=3, pending=1), "Pending"),
    ("as many wait as may", {"minAvailable": 3}, JobPodCounts(running=3, pending=1), "Running"),
    ("what is left never starts", {}, JobPodCounts(failed=1, lost=3, succeeded_of={"ps": 0}), "Failed"),
    ("enough without what never starts", {"minAvailable": 1}, JobPodCounts(succeeded=1, failed=1, lost=2), "Completed"),
    ("some never start, one runs", {}, JobPodCounts(running=1, failed=1, lost=2), "Running"),
    ("one is on its way out", {}, JobPodCounts(running=3, terminating=1), "Running"),
    ("of two nobody hears", {}, JobPodCounts(running=2, unknown=2), "Running"),
)
def test_rule_r(spec, counts, phase):
    assert phases.running(parsed(*FOUR, **spec).spec, counts).phase == phase


def test_rule_r_leaves_a_job_that_was_scaled_to_zero():
    assert phases.running(parsed(task(replicas=0)).spec, JobPodCounts()).phase == "Running"


def test_rule_r_looks_only_at_tasks_that_say_how_many_must_succeed():
    says, silent = parsed(*FOUR), parsed(task("ps", 1), task("worker", 3) | {"minAvailable": None}, minAvailable=4)
    assert phases.running(says.spec, ended(1, 2, failed=1)).reason == "TaskFailed"
    assert phases.running(silent.spec, ended(1, 2, failed=1)).reason == "TooFewSucceeded"


def test_rule_r_looks_only_at_tasks_that_have_pods():
    job = parsed(task("ps", 1), task("worker", 3))
    counts = JobPodCounts(succeeded=4, succeeded_of={"worker": 4})
    assert phases.running(job.spec, counts).phase == "Completed"


@cases(
    ("all are gone", 1, 0, 4, "Pending"),
    ("one is going", 1, 1, 4, "Restarting"),
    ("enough are gone", 1, 2, 2, "Pending"),
    ("too few are gone", 1, 3, 2, "Restarting"),
    ("one restart too many", 3, 0, 4, "Failed"),
    ("one restart too many, and pods are going", 3, 4, 4, "Failed"),
    ("the last that is allowed", 2, 0, 4, "Pending"),
)
def test_rule_x(retries, terminating, least, phase):
    spec = parsed(*FOUR).spec
    counts = JobPodCounts(terminating=terminating)
    assert phases.restarting(spec, counts, retries=retries, min_available=least).phase == phase


def test_without_retries_the_first_restart_fails_the_job():
    spec = parsed(*FOUR, maxRetry=0).spec
    assert phases.restarting(spec, JobPodCounts(), retries=1, min_available=4).phase == "Failed"


@pytest.mark.parametrize(
    ("now", "then"), [("Aborting", "Aborted"), ("Terminating", "Terminated"), ("Completing", "Completed")]
)
@cases(
    ("no pod is left", JobPodCounts(), False),
    ("those left have ended", JobPodCounts(succeeded=2, failed=1), False),
    ("nobody hears of the last", JobPodCounts(unknown=1), False),
    ("one is going", JobPodCounts(terminating=1), True),
    ("one waits", JobPodCounts(pending=1), True),
    ("one runs", JobPodCounts(running=1), True),
)
def test_rule_d(counts, stays, now, then):
    assert phases.draining(now, counts).phase == (now if stays else then)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_a_rule_leads_only_to_its_phases_for_all_counts(numbers):
    spec = parsed(*FOUR).spec
    pending, running, succeeded, failed = numbers
    counts = JobPodCounts(pending=pending, running=running, succeeded=succeeded, failed=failed)
    assert phases.pending(spec, counts).phase in ("Pending", "Running")
    assert phases.running(spec, counts).phase in ("Pending", "Running", "Completed", "Failed")
