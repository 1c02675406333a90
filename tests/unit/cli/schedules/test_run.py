"""``penstock run``: the request, and the wait for the run's end."""

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from deploy.cli.schedules import run, wait
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import JOB, FakeCluster
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Kind

ID = "bcdfghjk"
ANNOTATION = f"penstock.dev/run.{ID}"
RUN = {"job": f"nightly-{ID}", "outcome": "Running"}
identity = run.identity


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes the run's id, and shortens the time between two polls."""
    monkeypatch.setattr(run, "identity", lambda: ID)
    monkeypatch.setattr(wait, "POLL_INTERVAL", 0.05)


def asked(cluster: FakeCluster, kind: Kind, name: str) -> Any:
    """The annotations of an object as they are now."""
    return cluster.objects[kind.path("default", name)]["metadata"].get("annotations")


def story(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], Any]) -> None:
    """Scripts the cluster while the command waits: one step after the other once both watches run, then silence."""
    queues: dict[str, asyncio.Queue[bytes]] = {}

    def tell(before: dict[str, Any]) -> None:
        for path in sorted({*before, *cluster.objects}):
            old, new = before.get(path), cluster.objects.get(path)
            if old != new:
                type_ = "DELETED" if new is None else "MODIFIED" if old else "ADDED"
                queues[path.rpartition("/")[0]].put_nowait(cluster.event(type_, copy.deepcopy(new or old)))

    async def happen() -> None:
        for step in steps:
            before = copy.deepcopy(cluster.objects)
            step()
            tell(before)
            for _ in range(10):
                # Until the command has heard of it.
                await asyncio.sleep(0)

    async def stream(path: str, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        queue = queues[path] = asyncio.Queue()
        happening = asyncio.create_task(happen()) if len(queues) == 2 else None
        while True:
            yield await queue.get()
            assert happening is None or not happening.done() or happening.exception() is None

    monkeypatch.setattr(cluster, "stream_lines", stream)


def scheduled(cluster: FakeCluster, **fields: Any) -> dict[str, Any]:
    return cluster.add(SCHEDULED_JOB, "nightly", spec={"schedule": "0 2 * * *"}, **fields)


def job(cluster: FakeCluster, owner: dict[str, Any], name: str = f"nightly-{ID}", **status: Any) -> None:
    """A Job of this owner, with this status."""
    reference = {"kind": owner["kind"], "name": "nightly", "uid": owner["metadata"]["uid"], "controller": True}
    cluster.add(JOB, name, metadata={"ownerReferences": [reference]}, status=status)


def finished(type_: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True", **more}]}


def settle(cluster: FakeCluster, kind: Kind = SCHEDULED_JOB, **status: Any) -> None:
    """The request is off the object, and this is its status."""
    body = cluster.objects[kind.path("default", "nightly")]
    body["metadata"].pop("annotations", None)
    body["status"] = status


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        pytest.param((), "", id="no variables"),
        pytest.param(("--env", "DAY=2026-03-01"), {"env": {"DAY": "2026-03-01"}}, id="one"),
        pytest.param(("-e", "A=1", "--env", "B="), {"env": {"A": "1", "B": ""}}, id="several, one empty"),
        pytest.param(("--env", "Q=a=b, c"), {"env": {"Q": "a=b, c"}}, id="what a value may hold"),
        pytest.param(("--env", "A=1", "--env", "A=2"), {"env": {"A": "2"}}, id="the last of one name"),
    ],
)
def test_a_run_is_asked_for_by_an_annotation(
    arguments: tuple[str, ...], value: Any, cluster: FakeCluster, penstock: Type
) -> None:
    scheduled(cluster)
    printed = penstock("run", "nightly", *arguments)
    assert (printed.code, printed.out, printed.err) == (
        0,
        f"scheduledjob.penstock.dev/nightly run asked for: nightly-{ID}\n",
        "",
    )
    found = asked(cluster, SCHEDULED_JOB, "nightly")[ANNOTATION]
    assert (json.loads(found) if found else found) == value


@pytest.mark.parametrize(
    ("there", "word", "kind"),
    [
        ((SCHEDULED_JOB, CRON_JOB), "nightly", SCHEDULED_JOB),
        ((CRON_JOB,), "nightly", CRON_JOB),
        ((SCHEDULED_JOB, CRON_JOB), "cronjob/nightly", CRON_JOB),
        ((SCHEDULED_JOB, CRON_JOB), "cj/nightly", CRON_JOB),
        ((SCHEDULED_JOB, CRON_JOB), "scheduledjobs.penstock.dev/nightly", SCHEDULED_JOB),
    ],
)
def test_a_name_finds_its_kind(
    there: tuple[Kind, ...], word: str, kind: Kind, cluster: FakeCluster, penstock: Type
) -> None:
    for each in there:
        cluster.add(each, "nightly", spec={})
    assert penstock("run", word).code == 0
    assert [each.kind for each in there if asked(cluster, each, "nightly")] == [kind.kind]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("nightly",), "namespace default has no ScheduledJob and no CronJob called nightly", id="no such"),
        pytest.param(("job/crunch",), "job/crunch: a Job is none of ScheduledJob, CronJob", id="another kind"),
        pytest.param(("cronjob/",), "cronjob/: either NAME or KIND/NAME is needed", id="no name"),
        pytest.param(("cronjob/nightly",), 'cronjobs "nightly" not found', id="no such CronJob"),
        pytest.param(("going",), "ScheduledJob default/going is being deleted", id="on its way out"),
        pytest.param(("nightly", "--env", "A"), "--env: A: NAME=VALUE is needed", id="no value"),
        pytest.param(("nightly", "--env", "1A=2"), "--env: '1A' is no name of a variable", id="no name of a variable"),
        pytest.param(("nightly", "--env", "=2"), "--env: '' is no name of a variable", id="no name at all"),
    ],
)
def test_an_impossible_run_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, cluster: FakeCluster, penstock: Type
) -> None:
    cluster.add(SCHEDULED_JOB, "going", metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}, spec={})
    printed = penstock("run", *arguments)
    assert (printed.code, printed.out) == (1, "")
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not [call for call in cluster.calls if call[0] == "PATCH"]


def test_a_timeout_is_for_a_wait(cluster: FakeCluster, penstock: Type) -> None:
    assert penstock("run", "nightly", "--timeout", "3").code == 2


def test_ids_are_labels_of_their_own_that_no_slot_has() -> None:
    """A slot's Job ends in digits alone."""
    found = {identity() for _ in range(500)}
    assert len(found) == 500
    assert all(re.fullmatch(r"[a-z][a-z0-9]{7}", each) for each in found)


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        ({"outcome": "Succeeded"}, 0, "Succeeded"),
        (
            {"outcome": "Failed", "reason": "BackoffLimitExceeded", "message": "too often"},
            1,
            "Failed: BackoffLimitExceeded: too often",
        ),
        ({"outcome": "TimedOut"}, 1, "TimedOut"),
        ({"outcome": "Deleted", "message": "by hand"}, 1, "Deleted: by hand"),
    ],
)
def test_a_scheduledjobs_run_ends_with_its_outcome(
    outcome: dict[str, str],
    code: int,
    line: str,
    cluster: FakeCluster,
    penstock: Type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = scheduled(cluster)
    last = f"nightly-{ID}-r2"
    story(
        cluster,
        monkeypatch,
        lambda: job(cluster, owner, active=1),
        lambda: settle(cluster, runs=[RUN], outcomes=[{"job": "nightly-29000000", "outcome": "Succeeded"}]),
        lambda: settle(cluster, runs=[{**RUN, "reason": "TooOften", "retryTime": "2026-03-01T12:00:00Z"}]),
        lambda: settle(cluster, outcomes=[{"job": last, **outcome}]),
    )
    printed = penstock("run", "nightly", "--wait")
    assert printed.code == code
    assert printed.out.splitlines()[1:] == [f"job.batch/{last} {line}"]
    assert printed.err.splitlines() == [
        "penstock: waiting for the Job",
        f"penstock: job.batch/nightly-{ID} is at work",
        f"penstock: job.batch/nightly-{ID} failed (TooOften); the next attempt starts at 2026-03-01T12:00:00Z",
        f"its output: penstock logs job/{last} -n default",
    ]


@pytest.mark.parametrize(
    ("kind", "spec"), [(CRON_JOB, {}), (SCHEDULED_JOB, {"outcomesLimit": 0})], ids=["CronJob", "no outcomes kept"]
)
@pytest.mark.parametrize(
    ("status", "code", "line"),
    [
        (finished("Complete"), 0, "Complete"),
        (finished("Failed", reason="DeadlineExceeded", message="too long"), 1, "Failed: DeadlineExceeded: too long"),
    ],
    ids=["complete", "failed"],
)
def test_where_there_are_no_outcomes_the_job_tells(
    kind: Kind,
    spec: Any,
    status: Any,
    code: int,
    line: str,
    cluster: FakeCluster,
    penstock: Type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = cluster.add(kind, "nightly", spec=spec)
    story(
        cluster,
        monkeypatch,
        lambda: job(cluster, owner, active=1),
        lambda: settle(cluster, kind),
        lambda: job(cluster, owner, **status),
    )
    printed = penstock("run", "nightly", "--wait")
    assert (printed.code, printed.out.splitlines()[1:]) == (code, [f"job.batch/nightly-{ID} {line}"])


def gone(cluster: FakeCluster, name: str = f"nightly-{ID}") -> None:
    """The Job is deleted."""
    del cluster.objects[JOB.path("default", name)]


AGAIN = {**RUN, "job": f"nightly-{ID}-r2"}
RETRYING = {**RUN, "reason": "TooOften", "retryTime": "2026-03-01T12:00:00Z"}
OTHER = [{"job": "nightly-29000000", "outcome": "Succeeded"}]


@pytest.mark.parametrize("limit", [0, 1], ids=["no outcomes kept", "the outcome of another run took its place"])
@pytest.mark.parametrize(
    ("last", "code", "line"),
    [("Complete", 0, "Complete"), ("Failed", 1, "Failed: TooOften"), ("", 1, "Deleted: the Job was deleted before")],
    ids=["succeeds", "fails", "is deleted"],
)
def test_a_run_of_several_attempts_ends_as_the_last_of_them(
    limit: int, last: str, code: int, line: str, cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the earlier attempts' Jobs are deleted and the status no longer holds the outcome."""
    owner = scheduled(cluster)
    owner["spec"]["outcomesLimit"] = limit
    again = f"nightly-{ID}-r2"
    story(
        cluster,
        monkeypatch,
        lambda: job(cluster, owner, active=1),
        lambda: settle(cluster, runs=[RUN]),
        lambda: job(cluster, owner, **finished("Failed", reason="BackoffLimitExceeded")),
        lambda: settle(cluster, runs=[RETRYING]),
        lambda: gone(cluster),
        lambda: job(cluster, owner, again, active=1),
        lambda: settle(cluster, runs=[AGAIN]),
        lambda: job(cluster, owner, again, **(finished(last, reason="TooOften") if last else {})),
        lambda: gone(cluster, again),
        lambda: settle(cluster, outcomes=OTHER[:limit]),
    )
    printed = penstock("run", "nightly", "--wait")
    assert printed.code == code
    assert printed.out.splitlines()[1].startswith(f"job.batch/{again} {line}")


def test_an_outcome_that_is_displaced_at_once_is_seen(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled(cluster)
    story(
        cluster,
        monkeypatch,
        lambda: settle(cluster, outcomes=[{"job": f"nightly-{ID}", "outcome": "Succeeded"}]),
        lambda: settle(cluster, outcomes=OTHER),
    )
    assert penstock("run", "nightly", "--wait").code == 0


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [(finished("Complete"), 0, "Complete"), (finished("Failed"), 1, "Failed"), ({"active": 1}, 1, "Deleted")],
    ids=["complete", "failed", "unfinished"],
)
def test_a_job_that_goes_as_soon_as_it_has_ended_is_seen(
    status: Any, code: int, word: str, cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = cluster.add(CRON_JOB, "nightly", spec={})
    story(
        cluster,
        monkeypatch,
        lambda: job(cluster, owner, active=1),
        lambda: job(cluster, owner, **status),
        lambda: gone(cluster),
        lambda: settle(cluster, CRON_JOB),
    )
    printed = penstock("run", "nightly", "--wait")
    assert printed.code == code
    assert printed.out.splitlines()[1].startswith(f"job.batch/nightly-{ID} {word}")


def test_a_poll_finds_the_events_that_the_watches_lost(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = cluster.add(CRON_JOB, "nightly", spec={})
    original = cluster.request
    looks = iter([{"active": 1}, finished("Complete")])

    async def request(method: str, path: str, **more: Any) -> Any:
        if method == "GET" and path == JOB.path("default", f"nightly-{ID}"):
            job(cluster, owner, **next(looks))
        return await original(method, path, **more)

    monkeypatch.setattr(cluster, "request", request)
    story(cluster, monkeypatch)
    assert penstock("run", "nightly", "--wait").code == 0


def test_a_run_that_waits_for_another_prints_so(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = scheduled(cluster, status={"active": [{"name": "nightly-29000000"}]})
    body["spec"]["concurrencyPolicy"] = "Forbid"
    ended = [{"job": f"nightly-{ID}", "outcome": "Succeeded"}]
    story(cluster, monkeypatch, lambda: None, lambda: settle(cluster, outcomes=ended))
    printed = penstock("run", "nightly", "--wait")
    assert printed.code == 0
    assert "penstock: waiting for nightly-29000000 to end (concurrencyPolicy: Forbid)\n" in printed.err


def test_a_run_whose_job_is_refused_prints_the_reason(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled(cluster)
    refused = {"type": "Ready", "status": "False", "reason": "ReconcileFailing", "message": "422: no restartPolicy"}
    paused = {"type": "Ready", "status": "False", "reason": "Suspended", "message": "no run starts but this one"}
    ended = [{"job": f"nightly-{ID}", "outcome": "Succeeded"}]
    story(
        cluster,
        monkeypatch,
        lambda: settle(cluster, conditions=[paused]),
        lambda: settle(cluster, conditions=[refused]),
        lambda: settle(cluster, outcomes=ended),
    )
    printed = penstock("run", "nightly", "--wait")
    assert printed.err.splitlines()[:2] == [
        "penstock: waiting for the Job",
        "penstock: waiting for the Job: 422: no restartPolicy",
    ]


def test_a_request_that_was_taken_off_without_a_job_is_an_error(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = scheduled(cluster)
    other = {**owner, "metadata": {**owner["metadata"], "uid": "somebody else"}}
    job(cluster, other, **finished("Complete"))
    story(cluster, monkeypatch, lambda: settle(cluster))
    printed = penstock("run", "nightly", "--wait")
    assert printed.code == 1
    assert "is no longer asked for it" in printed.err
    assert "penstock describe scheduledjob.penstock.dev/nightly" in printed.err


def test_a_wait_has_an_end(cluster: FakeCluster, penstock: Type) -> None:
    scheduled(cluster)
    printed = penstock("run", "nightly", "--wait", "--timeout", "0")
    assert printed.code == 1
    assert f"run nightly-{ID} has not ended after 0 s; waiting for the Job" in printed.err


def test_an_object_that_goes_away_ends_the_wait(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled(cluster)
    story(cluster, monkeypatch, lambda: cluster.objects.pop(SCHEDULED_JOB.path("default", "nightly")))
    assert 'scheduledjobs "nightly" not found' in penstock("run", "nightly", "--wait").err
