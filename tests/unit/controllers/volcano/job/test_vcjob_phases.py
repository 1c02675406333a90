"""The state machine of a Volcano Job, cell by cell, and the rules by which phases follow from counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.volcano.job.vcjobs import parsed, task
from workers.controllers.volcano.job import phases
from workers.controllers.volcano.job.phases import JobPodCounts

PARTS = ("RestartTask", "RestartPod", "RestartPartition")
JOB = ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob")
REST = ("SyncJob", "EnqueueJob", "Unheard", "")
EVERY = (*JOB, *PARTS, *REST)

#: Phase: what actions do in it. ``+``: it counts as a restart; a letter: the rule that decides afterwards.
TABLE = {
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


@pytest.mark.parametrize(
    ("least", "counts", "phase"),
    [
        pytest.param(4, JobPodCounts(pending=4), "Pending", id="none has begun"),
        pytest.param(4, JobPodCounts(pending=1, running=3), "Pending", id="one is missing"),
        pytest.param(4, JobPodCounts(running=4), "Running", id="all run"),
        pytest.param(3, JobPodCounts(pending=1, running=3), "Running", id="as many as must"),
        pytest.param(4, JobPodCounts(running=2, succeeded=1, failed=1), "Running", id="those that ended have begun"),
        pytest.param(4, JobPodCounts(running=3, terminating=1), "Pending", id="one on its way out does not count"),
        pytest.param(4, JobPodCounts(running=3, unknown=1), "Pending", id="one of which nobody hears does not count"),
        pytest.param(0, JobPodCounts(), "Running", id="none must"),
        pytest.param(4, JobPodCounts(failed=1, lost=3), "Running", id="those that never start count as failed"),
        pytest.param(4, JobPodCounts(pending=1, lost=2), "Pending", id="one that may still start"),
    ],
)
def test_rule_p(least, counts, phase):
    assert phases.pending(parsed(*FOUR, minAvailable=least).spec, counts).phase == phase


def ended(ps: int, worker: int, failed: int = 0) -> JobPodCounts:
    """So many pods of each task have succeeded."""
    return JobPodCounts(succeeded=ps + worker, failed=failed, succeeded_of={"ps": ps, "worker": worker})


@pytest.mark.parametrize(
    ("spec", "counts", "phase"),
    [
        pytest.param({}, JobPodCounts(running=4), "Running", id="all run"),
        pytest.param({}, ended(1, 3), "Completed", id="all succeeded"),
        pytest.param({}, ended(1, 2, failed=1), "Failed", id="one of a task failed that had to succeed"),
        pytest.param({}, ended(0, 0, failed=4), "Failed", id="all failed"),
        pytest.param({"minAvailable": 2}, ended(1, 1, failed=2), "Completed", id="enough succeeded, whatever the task"),
        pytest.param({"minAvailable": 2}, ended(1, 0, failed=3), "Failed", id="too few succeeded"),
        pytest.param({"minAvailable": 0}, ended(0, 0, failed=4), "Completed", id="none had to succeed"),
        pytest.param({"minSuccess": 2}, JobPodCounts(running=2, succeeded=2), "Completed", id="minSuccess, others run"),
        pytest.param(
            {"minSuccess": 3}, JobPodCounts(running=2, succeeded=2), "Running", id="minSuccess is not reached"
        ),
        pytest.param(
            {"minSuccess": 3, "minAvailable": 1}, ended(1, 1, failed=2), "Failed", id="minSuccess cannot be reached"
        ),
        pytest.param(
            {"minSuccess": 2}, ended(0, 2, failed=2), "Completed", id="minSuccess comes before the tasks' minimums"
        ),
        pytest.param({}, JobPodCounts(running=3, pending=1), "Pending", id="more wait than may"),
        pytest.param({"minAvailable": 3}, JobPodCounts(running=3, pending=1), "Running", id="as many wait as may"),
        pytest.param(
            {}, JobPodCounts(failed=1, lost=3, succeeded_of={"ps": 0}), "Failed", id="what is left never starts"
        ),
        pytest.param(
            {"minAvailable": 1},
            JobPodCounts(succeeded=1, failed=1, lost=2),
            "Completed",
            id="enough without what never starts",
        ),
        pytest.param({}, JobPodCounts(running=1, failed=1, lost=2), "Running", id="some never start, one runs"),
        pytest.param({}, JobPodCounts(running=3, terminating=1), "Running", id="one is on its way out"),
        pytest.param({}, JobPodCounts(running=2, unknown=2), "Running", id="of two nobody hears"),
    ],
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


@pytest.mark.parametrize(
    ("retries", "terminating", "least", "phase"),
    [
        pytest.param(1, 0, 4, "Pending", id="all are gone"),
        pytest.param(1, 1, 4, "Restarting", id="one is going"),
        pytest.param(1, 2, 2, "Pending", id="enough are gone"),
        pytest.param(1, 3, 2, "Restarting", id="too few are gone"),
        pytest.param(3, 0, 4, "Failed", id="one restart too many"),
        pytest.param(3, 4, 4, "Failed", id="one restart too many, and pods are going"),
        pytest.param(2, 0, 4, "Pending", id="the last that is allowed"),
    ],
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
@pytest.mark.parametrize(
    ("counts", "stays"),
    [
        pytest.param(JobPodCounts(), False, id="no pod is left"),
        pytest.param(JobPodCounts(succeeded=2, failed=1), False, id="those left have ended"),
        pytest.param(JobPodCounts(unknown=1), False, id="nobody hears of the last"),
        pytest.param(JobPodCounts(terminating=1), True, id="one is going"),
        pytest.param(JobPodCounts(pending=1), True, id="one waits"),
        pytest.param(JobPodCounts(running=1), True, id="one runs"),
    ],
)
def test_rule_d(now, then, counts, stays):
    assert phases.draining(now, counts).phase == (now if stays else then)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_a_rule_leads_only_to_its_phases_for_all_counts(numbers):
    spec = parsed(*FOUR).spec
    pending, running, succeeded, failed = numbers
    counts = JobPodCounts(pending=pending, running=running, succeeded=succeeded, failed=failed)
    assert phases.pending(spec, counts).phase in ("Pending", "Running")
    assert phases.running(spec, counts).phase in ("Pending", "Running", "Completed", "Failed")
