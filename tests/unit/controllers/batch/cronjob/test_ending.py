"""The ends of Jobs, as batch/v1 and Volcano tell of them."""

from typing import Any

from tests.support.tables import cases
from workers.api.kinds import JOB, VC_JOB, Kind, Object
from workers.controllers.batch.cronjob import ending

CREATED, STARTED, ENDED = "2026-03-01T12:00:00Z", "2026-03-01T12:01:00Z", "2026-03-01T12:05:00Z"


def job(*conditions: Object, **status: Any) -> Object:
    metadata = {"name": "a", "creationTimestamp": CREATED}
    return {"apiVersion": "batch/v1", "metadata": metadata, "status": {"conditions": [*conditions], **status}}


def condition(type_: str, **fields: str) -> Object:
    return {"type": type_, "status": "True", "lastTransitionTime": ENDED, **fields}


def vc_job(phase: str, **state: str) -> Object:
    metadata = {"name": "a", "creationTimestamp": CREATED}
    status = {"state": {"phase": phase, "lastTransitionTime": ENDED, **state}}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "metadata": metadata, "status": status}


FAILED = condition("Failed", reason="DeadlineExceeded", message="too late")
NOTHING: tuple[str, str] = ("", "")


@cases(
    ("running", job(startTime=STARTED), JOB, (None, None, None, STARTED), NOTHING),
    ("never seen", {"metadata": {"name": "a"}}, JOB, (None, None, None, None), NOTHING),
    (
        "complete",
        job(condition("Complete"), startTime=STARTED, completionTime=ENDED),
        JOB,
        ("Complete", ENDED, ENDED, STARTED),
        NOTHING,
    ),
    ("failed", job(FAILED, startTime=STARTED), JOB, ("Failed", ENDED, None, STARTED), ("DeadlineExceeded", "too late")),
    ("failed without a word", job(condition("Failed")), JOB, ("Failed", ENDED, None, None), NOTHING),
    ("of Volcano, running", vc_job("Running"), VC_JOB, (None, ENDED, None, CREATED), NOTHING),
    ("of Volcano, aborted", vc_job("Aborted"), VC_JOB, (None, ENDED, None, CREATED), NOTHING),
    ("of Volcano, completed", vc_job("Completed"), VC_JOB, ("Complete", ENDED, ENDED, CREATED), NOTHING),
    (
        "of Volcano, failed",
        vc_job("Failed", reason="PodFailed", message="exit 1"),
        VC_JOB,
        ("Failed", ENDED, None, CREATED),
        ("PodFailed", "exit 1"),
    ),
    ("of Volcano, terminated", vc_job("Terminated"), VC_JOB, ("Terminated", ENDED, None, CREATED), NOTHING),
)
def test_an_end_is_told(
    body: Object, kind: Kind, times: tuple[str | None, str | None, str | None, str | None], why: tuple[str, str]
) -> None:
    assert ending.kind_of(body) == kind
    assert (ending.finished(body), ending.at(body), ending.completion(body), ending.started(body)) == times
    assert ending.why(body) == why
