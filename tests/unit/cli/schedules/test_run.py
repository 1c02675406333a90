"""``penstock run``: the request, and the wait for the run's end."""

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from deploy.cli.schedules import wait
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Printed, Type
from tests.unit.cli.fake import JOB, POD, FakeCluster
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Kind
from workers.controllers.batch.cronjob import run_requests

ID = "bcdfghjk"
ANNOTATION = f"penstock.dev/run.{ID}"
FIRST, SECOND = f"nightly-{ID}", f"nightly-{ID}-r2"
RUN = {"job": FIRST, "outcome": "Running"}
AGAIN = {**RUN, "job": SECOND}
RETRYING = {**RUN, "reason": "TooOften", "retryTime": "2026-03-01T12:00:00Z"}
SUCCEEDED = [{"job": FIRST, "outcome": "Succeeded"}]
OTHER = [{"job": "nightly-29000000", "outcome": "Succeeded"}]
new_id = run_requests.new_id


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes the run's id, and shortens the time between two polls."""
    monkeypatch.setattr(run_requests, "new_id", lambda: ID)
    monkeypatch.setattr(wait, "POLL_INTERVAL", 0.05)


def asked(cluster: FakeCluster, kind: Kind, name: str) -> Any:
    """The annotations of an object as they are now."""
    return cluster.objects[kind.path("default", name)]["metadata"].get("annotations")


class Nightly:
    """The object `nightly` and its Jobs; `wait` changes them while the command waits for the end of a run."""

    def __init__(self, cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.penstock = cluster, penstock
        self.queues: dict[str, asyncio.Queue[bytes]] = {}
        self.steps: tuple[Step, ...] = ()
        monkeypatch.setattr(cluster, "stream_lines", self._stream)

    def add(self, kind: Kind = SCHEDULED_JOB, status: Any = None, **spec: Any) -> "Nightly":
        """Stores the object."""
        self.kind, self.owner = kind, self.cluster.add(kind, "nightly", spec=spec, status=status or {})
        return self

    def wait(self, *steps: "Step", flags: tuple[str, ...] = ()) -> Printed:
        """Runs the command; one step after the other happens once both watches run, then nothing."""
        self.steps = steps
        return self.penstock("run", "nightly", "--wait", *flags)

    async def _happen(self) -> None:
        for step in self.steps:
            before = copy.deepcopy(self.cluster.objects)
            step(self)
            for path in sorted({*before, *self.cluster.objects}):
                old, new = before.get(path), self.cluster.objects.get(path)
                if old != new:
                    type_ = "DELETED" if new is None else "MODIFIED" if old else "ADDED"
                    event = self.cluster.event(type_, copy.deepcopy(new or old))
                    self.queues[path.rpartition("/")[0]].put_nowait(event)
            for _ in range(10):
                # Until the command has taken the events in.
                await asyncio.sleep(0)

    async def _stream(self, path: str, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        queue = self.queues[path] = asyncio.Queue()
        happening = asyncio.create_task(self._happen()) if len(self.queues) == 2 else None
        while True:
            yield await queue.get()
            assert happening is None or not happening.done() or happening.exception() is None


Step = Callable[[Nightly], object]


@pytest.fixture
def nightly(cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch) -> Nightly:
    return Nightly(cluster, penstock, monkeypatch)


def job(name: str = FIRST, uid: str = "", **status: Any) -> Step:
    """A Job has this status. uid: of another owner than the object."""

    def step(it: Nightly) -> object:
        owner = {"kind": it.kind.kind, "name": "nightly", "uid": uid or it.owner["metadata"]["uid"], "controller": True}
        return it.cluster.add(JOB, name, metadata={"ownerReferences": [owner]}, status=status)

    return step


def gone(name: str = FIRST) -> Step:
    """A Job is deleted."""
    return lambda it: it.cluster.objects.pop(JOB.path("default", name))


def settle(**status: Any) -> Step:
    """The request is off the object, and this is its status."""

    def step(it: Nightly) -> object:
        body = it.cluster.objects[it.kind.path("default", "nightly")]
        return (body["metadata"].pop("annotations", None), body.update(status=status))

    return step


def finished(type_: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True", **more}]}


@cases(
    ("no variables", (), ""),
    ("one", ("--env", "DAY=2026-03-01"), {"env": {"DAY": "2026-03-01"}}),
    ("several, one empty", ("-e", "A=1", "--env", "B="), {"env": {"A": "1", "B": ""}}),
    ("what a value may hold", ("--env", "Q=a=b, c"), {"env": {"Q": "a=b, c"}}),
    ("the last of one name", ("--env", "A=1", "--env", "A=2"), {"env": {"A": "2"}}),
)
def test_a_run_is_asked_for_by_an_annotation(
    arguments: tuple[str, ...], value: Any, cluster: FakeCluster, penstock: Type
) -> None:
    cluster.add(SCHEDULED_JOB, "nightly", spec={})
    printed = penstock("run", "nightly", *arguments)
    assert (printed.code, printed.out, printed.err) == (
        0,
        f"scheduledjob.penstock.dev/nightly run asked for: nightly-{ID}\n",
        "",
    )
    found = asked(cluster, SCHEDULED_JOB, "nightly")[ANNOTATION]
    assert (json.loads(found) if found else found) == value


@for_each(
    ((SCHEDULED_JOB, CRON_JOB), "nightly", SCHEDULED_JOB),
    ((CRON_JOB,), "nightly", CRON_JOB),
    ((SCHEDULED_JOB, CRON_JOB), "cronjob/nightly", CRON_JOB),
    ((SCHEDULED_JOB, CRON_JOB), "cj/nightly", CRON_JOB),
    ((SCHEDULED_JOB, CRON_JOB), "scheduledjobs.penstock.dev/nightly", SCHEDULED_JOB),
)
def test_a_name_finds_its_kind(
    there: tuple[Kind, ...], word: str, kind: Kind, cluster: FakeCluster, penstock: Type
) -> None:
    for each in there:
        cluster.add(each, "nightly", spec={})
    assert penstock("run", word).code == 0
    assert [each.kind for each in there if asked(cluster, each, "nightly")] == [kind.kind]


def test_ids_are_labels_of_their_own_that_no_slot_has() -> None:
    """A slot's Job ends in digits alone."""
    found = {new_id() for _ in range(500)}
    assert len(found) == 500
    assert all(re.fullmatch(r"[a-z][a-z0-9]{7}", each) for each in found)


@for_each(
    ({"outcome": "Succeeded"}, 0, "Succeeded"),
    ({"outcome": "Failed", "reason": "Limit", "message": "too often"}, 1, "Failed: Limit: too often"),
    ({"outcome": "TimedOut"}, 1, "TimedOut"),
    ({"outcome": "Deleted", "message": "by hand"}, 1, "Deleted: by hand"),
)
def test_a_scheduledjobs_run_ends_with_its_outcome(
    outcome: dict[str, str], code: int, line: str, nightly: Nightly
) -> None:
    printed = nightly.add().wait(
        job(active=1),
        settle(runs=[RUN], outcomes=OTHER),
        settle(runs=[RETRYING]),
        settle(outcomes=[{"job": SECOND, **outcome}]),
    )
    assert printed.code == code
    assert printed.out.splitlines()[1:] == [f"job.batch/{SECOND} {line}"]
    assert printed.err.splitlines() == [
        "penstock: waiting for the Job",
        f"penstock: job.batch/{FIRST} is at work",
        f"penstock: job.batch/{FIRST} failed (TooOften); the next attempt starts at 2026-03-01T12:00:00Z",
        f"its output: penstock logs job/{SECOND} -n default",
    ]


FAILED = finished("Failed", reason="TooLong", message="3 s")
#: The first attempt fails and its Job is deleted; the second one begins.
TWO_ATTEMPTS = (
    *(job(active=1), settle(runs=[RUN]), job(**finished("Failed", reason="Limit")), settle(runs=[RETRYING])),
    *(gone(), job(SECOND, active=1), settle(runs=[AGAIN])),
)
#: The last Job's status, and the line that tells of its end.
LAST = {"succeeds": (finished("Complete"), "Complete"), "fails": (FAILED, "Failed: TooLong: 3 s")}
LAST_OR_GONE = {**LAST, "is deleted": ({"active": 1}, "Deleted: the Job was deleted before")}
#: A ScheduledJob without outcomes, and one whose one outcome is that of another run.
LIMITS = {"no outcomes kept": 0, "another run's outcome": 1}
ENDS = {
    **{
        f"{kind.kind} without outcomes, {name}": (kind, spec, (job(active=1), settle(), job(**status)), FIRST, line)
        for kind, spec in ((CRON_JOB, {}), (SCHEDULED_JOB, {"outcomesLimit": 0}))
        for name, (status, line) in LAST.items()
    },
    **{
        f"the last of several attempts, {known}, {name}": (
            SCHEDULED_JOB,
            {"outcomesLimit": limit},
            (*TWO_ATTEMPTS, job(SECOND, **status), gone(SECOND), settle(outcomes=OTHER[:limit])),
            *(SECOND, line),
        )
        for known, limit in LIMITS.items()
        for name, (status, line) in LAST_OR_GONE.items()
    },
    **{
        f"a Job that is deleted as soon as it {name}": (
            *(CRON_JOB, {}, (job(active=1), job(**status), gone(), settle())),
            *(FIRST, line),
        )
        for name, (status, line) in LAST_OR_GONE.items()
    },
    "an outcome that is displaced at once": (
        *(SCHEDULED_JOB, {}, (settle(outcomes=SUCCEEDED), settle(outcomes=OTHER))),
        *(FIRST, "Succeeded"),
    ),
}


@cases(ENDS)
def test_a_run_ends_as_its_last_job(
    kind: Kind, spec: Any, steps: tuple[Step, ...], name: str, line: str, nightly: Nightly
) -> None:
    printed = nightly.add(kind, **spec).wait(*steps)
    assert printed.code == (0 if line in ("Complete", "Succeeded") else 1)
    assert printed.out.splitlines()[1].startswith(f"job.batch/{name} {line}")


def test_a_poll_finds_the_events_that_the_watches_lost(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    nightly.add(CRON_JOB)
    original, states = nightly.cluster.request, iter([{"active": 1}, finished("Complete")])

    async def request(method: str, path: str, **more: Any) -> Any:
        if method == "GET" and path == JOB.path("default", FIRST):
            job(**next(states))(nightly)
        return await original(method, path, **more)

    monkeypatch.setattr(nightly.cluster, "request", request)
    assert nightly.wait().code == 0


def test_failing_pods_are_told_of_while_the_run_is_waited_for_and_after_it(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly.add(CRON_JOB)
    ended = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]}
    waiting = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    original, polls = nightly.cluster.request, iter([{"active": 1}, {"active": 1}, finished("Failed", reason="Limit")])
    pods = iter([("a", ended), ("b", waiting), ("c", {"phase": "Running"})])

    async def request(method: str, path: str, **more: Any) -> Any:
        if method == "GET" and path == JOB.path("default", FIRST):
            job(**next(polls))(nightly)
            name, status = next(pods)
            nightly.cluster.add(POD, name, metadata={"labels": {"job-name": FIRST}}, status=status)
        return await original(method, path, **more)

    monkeypatch.setattr(nightly.cluster, "request", request)
    printed = nightly.wait()
    assert (printed.code, printed.out.splitlines()[1]) == (1, f"job.batch/{FIRST} Failed: Limit")
    failed, stuck = "pod a: main: exit code 3", "pod b: main: ImagePullBackOff"
    told = [line for line in printed.err.splitlines() if "pod" in line]
    at_work = f"penstock: job.batch/{FIRST} is at work"
    assert told == [f"{at_work}; {failed}", f"{at_work}; {failed}; {stuck}", failed, stuck]


def not_ready(reason: str, message: str) -> Step:
    return settle(conditions=[{"type": "Ready", "status": "False", "reason": reason, "message": message}])


@cases(
    (
        "another run",
        {"concurrencyPolicy": "Forbid"},
        {"active": [{"name": "nightly-29000000"}]},
        [lambda _: None],
        ["penstock: waiting for nightly-29000000 to end (concurrencyPolicy: Forbid)"],
    ),
    (
        "its own Job, which the watch has not shown yet",
        {"concurrencyPolicy": "Forbid"},
        {"active": [{"name": FIRST}]},
        [settle(runs=[RETRYING]), settle(runs=[AGAIN], active=[{"name": SECOND}])],
        [
            f"penstock: job.batch/{FIRST} is at work",
            f"penstock: job.batch/{FIRST} failed (TooOften); the next attempt starts at 2026-03-01T12:00:00Z",
            f"penstock: job.batch/{SECOND} is at work",
        ],
    ),
    (
        "a Job that is refused",
        {},
        {},
        [not_ready("Suspended", "no run but this one"), not_ready("ReconcileFailing", "422: no restartPolicy")],
        ["penstock: waiting for the Job", "penstock: waiting for the Job: 422: no restartPolicy"],
    ),
)
def test_the_reason_of_a_wait_is_printed(
    spec: Any, status: Any, steps: list[Step], told: list[str], nightly: Nightly
) -> None:
    printed = nightly.add(status=status, **spec).wait(*steps, settle(outcomes=SUCCEEDED))
    assert (printed.code, printed.err.splitlines()[: len(told)]) == (0, told)


@pytest.mark.parametrize(
    ("steps", "flags", "told"),
    [
        pytest.param(
            # A Job of the same name belongs to another object.
            [job(uid="another", **finished("Complete")), settle()],
            (),
            ["is no longer asked for it", "penstock describe scheduledjob.penstock.dev/nightly"],
            id="the request was taken off without a Job",
        ),
        pytest.param(
            [], ("--timeout", "0"), [f"run {FIRST} has not ended after 0 s; waiting for the Job"], id="time is over"
        ),
        pytest.param(
            [lambda it: it.cluster.objects.pop(SCHEDULED_JOB.path("default", "nightly"))],
            (),
            ['scheduledjobs "nightly" not found'],
            id="the object is deleted",
        ),
    ],
)
def test_a_wait_that_cannot_succeed_is_an_error(
    steps: list[Step], flags: tuple[str, ...], told: list[str], nightly: Nightly
) -> None:
    printed = nightly.add().wait(*steps, flags=flags)
    assert printed.code == 1
    for text in told:
        assert text in printed.err
