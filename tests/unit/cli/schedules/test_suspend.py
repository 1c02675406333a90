"""``penstock suspend`` and ``penstock resume``."""

from typing import Any

import pytest

from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import JOB, FakeCluster
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Kind

LATER = "2999-01-01T00:00:00Z"


def spec_of(cluster: FakeCluster, kind: Kind, name: str = "nightly") -> Any:
    return cluster.objects[kind.path("default", name)]["spec"]


@pytest.mark.parametrize(
    ("kind", "spec", "arguments", "said", "then"),
    [
        pytest.param(SCHEDULED_JOB, {}, ("suspend",), "suspended", {"suspend": True}, id="a ScheduledJob"),
        pytest.param(CRON_JOB, {"suspend": False}, ("suspend",), "suspended", {"suspend": True}, id="a CronJob"),
        pytest.param(JOB, {}, ("suspend",), "suspended", {"suspend": True}, id="a Job"),
        pytest.param(JOB, {"suspend": True}, ("suspend",), "unchanged", {"suspend": True}, id="suspended already"),
        pytest.param(
            SCHEDULED_JOB,
            {},
            ("suspend", "--until", "2999-01-01T01:00:00+01:00"),
            f"suspended until {LATER}",
            {"suspend": False, "suspendUntil": LATER},
            id="for a while",
        ),
        pytest.param(
            SCHEDULED_JOB,
            {"suspend": True},
            ("suspend", "--until", LATER),
            f"suspended until {LATER}",
            {"suspend": False, "suspendUntil": LATER},
            id="for a while instead of for good",
        ),
        pytest.param(
            SCHEDULED_JOB,
            {"suspendUntil": LATER},
            ("suspend", "--until", LATER),
            "unchanged",
            {"suspendUntil": LATER},
            id="for that while already",
        ),
        pytest.param(CRON_JOB, {"suspend": True}, ("resume",), "resumed", {"suspend": False}, id="a CronJob goes on"),
        pytest.param(JOB, {"suspend": True}, ("resume",), "resumed", {"suspend": False}, id="a Job goes on"),
        pytest.param(JOB, {}, ("resume",), "unchanged", {}, id="it never stood still"),
        pytest.param(
            SCHEDULED_JOB,
            {"suspend": True, "suspendUntil": LATER},
            ("resume",),
            "resumed",
            {"suspend": False},
            id="a ScheduledJob goes on before its time",
        ),
    ],
)
def test_an_object_is_suspended_and_resumed(
    kind: Kind,
    spec: Any,
    arguments: tuple[str, ...],
    said: str,
    then: Any,
    cluster: FakeCluster,
    penstock: Type,
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
