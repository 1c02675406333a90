"""``penstock suspend`` and ``penstock resume``."""

from typing import Any

from tests.support.tables import cases
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import JOB, FakeCluster
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Kind

LATER = "2999-01-01T00:00:00Z"


def spec_of(cluster: FakeCluster, kind: Kind, name: str = "nightly") -> Any:
    return cluster.objects[kind.path("default", name)]["spec"]


@cases(
    ("a ScheduledJob", SCHEDULED_JOB, {}, ("suspend",), "suspended", {"suspend": True}),
    ("a CronJob", CRON_JOB, {"suspend": False}, ("suspend",), "suspended", {"suspend": True}),
    ("a Job", JOB, {}, ("suspend",), "suspended", {"suspend": True}),
    ("suspended already", JOB, {"suspend": True}, ("suspend",), "unchanged", {"suspend": True}),
    (
        "for a while",
        SCHEDULED_JOB,
        {},
        ("suspend", "--until", "2999-01-01T01:00:00+01:00"),
        f"suspended until {LATER}",
        {"suspend": False, "suspendUntil": LATER},
    ),
    (
        "for a while instead of for good",
        SCHEDULED_JOB,
        {"suspend": True},
        ("suspend", "--until", LATER),
        f"suspended until {LATER}",
        {"suspend": False, "suspendUntil": LATER},
    ),
    (
        "for that while already",
        SCHEDULED_JOB,
        {"suspendUntil": LATER},
        ("suspend", "--until", LATER),
        "unchanged",
        {"suspendUntil": LATER},
    ),
    ("a CronJob goes on", CRON_JOB, {"suspend": True}, ("resume",), "resumed", {"suspend": False}),
    ("a Job goes on", JOB, {"suspend": True}, ("resume",), "resumed", {"suspend": False}),
    ("it never stood still", JOB, {}, ("resume",), "unchanged", {}),
    (
        "a ScheduledJob goes on before its time",
        SCHEDULED_JOB,
        {"suspend": True, "suspendUntil": LATER},
        ("resume",),
        "resumed",
        {"suspend": False},
    ),
)
def test_an_object_is_suspended_and_resumed(
    kind: Kind, spec: Any, arguments: tuple[str, ...], said: str, then: Any, cluster: FakeCluster, penstock: Type
) -> None:
    cluster.add(kind, "nightly", spec={**spec, "schedule": "@daily"})
    verb, *flags = arguments
    printed = penstock(verb, "nightly", *flags)
    assert (printed.code, printed.err) == (0, "")
    title = {SCHEDULED_JOB: "scheduledjob.penstock.dev", CRON_JOB: "cronjob.batch", JOB: "job.batch"}[kind]
    assert printed.out == f"{title}/nightly {said}\n"
    assert spec_of(cluster, kind) == {**then, "schedule": "@daily"}


def test_several_are_taken_in_turn(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(CRON_JOB, "a", spec={})
    cluster.add(JOB, "b", spec={})
    assert penstock("suspend", "cj/a", "job/b").out == "cronjob.batch/a suspended\njob.batch/b suspended\n"


def test_one_that_is_missing_keeps_none_of_the_others(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(CRON_JOB, "b", spec={})
    printed = penstock("suspend", "gone", "cj/b", "job/c")
    assert (printed.code, printed.out) == (1, "cronjob.batch/b suspended\n")
    [first, last] = printed.err.splitlines()
    assert "called gone" in first
    assert last == 'penstock: jobs "c" not found'
    assert spec_of(cluster, CRON_JOB, "b") == {"suspend": True}
