"""``penstock describe`` and ``penstock logs``."""

from typing import Any

import pytest

from deploy.cli.objects import describe
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import EVENT, JOB, POD, SCALED_JOB, FakeCluster
from workers.api.kinds import CRON_JOB, JOB_FLOW, SCHEDULED_JOB, VC_JOB, Kind, Ref
from workers.decision.snapshot import Reading, TriggerSample


def owned_by(body: dict[str, Any], **labels: str) -> dict[str, Any]:
    reference = {"kind": body["kind"], "name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}
    return {"ownerReferences": [{**reference, "controller": True}], "labels": labels}


@pytest.fixture
def crunch(cluster: FakeCluster, reading: None) -> dict[str, Any]:
    """A ScaledJob with two Jobs, a pod, Events and a reading; another ScaledJob's Job beside it."""
    body = cluster.add(
        SCALED_JOB,
        "crunch",
        spec={"maxReplicaCount": 3},
        status={
            "conditions": [{"type": "Ready", "status": "True", "reason": "ScaledJobReady", "message": "all\nwell"}]
        },
    )
    label = {"scaledjob.keda.sh/name": "crunch"}
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    cluster.add(JOB, "crunch-1", metadata=owned_by(body, **label), status=done)
    cluster.add(JOB, "crunch-2", metadata=owned_by(body, **label), status={"active": 1})
    before = {**body, "metadata": {**body["metadata"], "uid": "uid-of-an-earlier-crunch"}}
    cluster.add(JOB, "impostor", metadata=owned_by(before, **label))
    cluster.add(
        EVENT, "e1", involvedObject={"uid": "uid-crunch"}, type="Normal", reason="Made", message="2 Jobs", count=3
    )
    cluster.add(EVENT, "e2", involvedObject={"uid": "other"}, type="Normal", reason="Elsewhere")
    return body


def test_a_scaled_job_is_described_with_conditions_jobs_events_and_reading(
    crunch: dict[str, Any], penstock: Type
) -> None:
    printed = penstock("describe", "sj", "crunch")
    assert printed.code == 0
    lines = printed.lines
    assert {
        "Name: crunch",
        "maxReplicaCount: 3",
        "Ready True ScaledJobReady all well",
        "s0-redis-work redis 7 1 true",
        "Jobs (2):",
        "crunch-1 Complete <unknown>",
        "crunch-2 Running <unknown>",
        "Normal Made <unknown> (x3) 2 Jobs",
    } <= set(lines)
    assert "impostor" not in printed.out
    assert "Elsewhere" not in printed.out


def test_a_missing_object_leaves_the_others_described(crunch: dict[str, Any], penstock: Type) -> None:
    printed = penstock("describe", "sj/gone", "sj/crunch", "job/crunch-1")
    assert (printed.code, printed.err) == (1, 'penstock: scaledjobs "gone" not found\n')
    assert [line for line in printed.lines if line.startswith("Name:")] == ["Name: crunch", "Name: crunch-1"]


@for_each(
    (("pods", "-l", "app=x"), ["a", "c"]),
    (("pods",), ["a", "b", "c"]),
    (("pods", "-A", "-l", "app=x"), ["a", "c", "d"]),
)
def test_objects_are_described_by_label_or_all_of_a_kind(
    words: tuple[str, ...], names: list[str], cluster: FakeCluster, penstock: Type
) -> None:
    for name in ("a", "b", "c", "d"):
        labels = {} if name == "b" else {"app": "x"}
        cluster.add(POD, name, "other" if name == "d" else "default", metadata={"labels": labels})
    printed = penstock("describe", *words)
    assert [line for line in printed.lines if line.startswith("Name:")] == [f"Name: {name}" for name in names]
    assert ("Namespace: other" in printed.lines) == ("d" in names)
    assert penstock("describe", "pods", "-l", "app=y").err == "No resources found in namespace default.\n"


def test_events_of_one_second_keep_the_order_of_their_versions(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(JOB, "crunch")
    about = {"involvedObject": {"uid": "uid-crunch"}, "lastTimestamp": "2026-03-01T12:00:00Z"}
    for name, version, reason in (
        ("a", "1000", "Third"),
        ("b", "99", "First"),
        ("c", "opaque", "Odd"),
        ("d", "500", "Second"),
    ):
        cluster.add(EVENT, name, metadata={"resourceVersion": version}, reason=reason, **about)
    printed = penstock("describe", "job", "crunch").out
    reasons = [word for word in printed.split() if word in ("First", "Second", "Third", "Odd")]
    assert reasons == ["Odd", "First", "Second", "Third"]


def test_a_reading_that_failed_shows_the_error_and_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    describe.show_reading(Reading(1, 0, 1, (TriggerSample("s0", "redis", error="refused"),), problem="half of it"))
    out = capsys.readouterr().out
    assert "half of it" in out
    assert out.splitlines()[-1].split() == ["s0", "redis", "refused"]


def test_triggers_that_no_poll_measures_are_in_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    samples = (TriggerSample("s0-cpu", "cpu"), TriggerSample("s1-redis", "redis", value=3.0, target=1.0))
    describe.show_reading(Reading(1, 0, 1, samples))
    out = capsys.readouterr().out
    assert "s1-redis" in out
    assert "cpu" not in out


async def test_a_broker_out_of_reach_is_no_reading_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BROKER", "redis://127.0.0.1:1/0")
    assert await describe.reading(Ref(SCALED_JOB, "default", "crunch"), []) is None


def test_secrets_are_described_by_length(cluster: FakeCluster, penstock: Type) -> None:
    from workers.api.kinds import SECRET

    cluster.kinds.append(SECRET)
    cluster.add(SECRET, "s", data={"password": "aHVudGVyMg=="})
    out = penstock("describe", "secret", "s").out
    assert "aHVudGVyMg" not in out
    assert "password: 9 bytes" in out


def pod(cluster: FakeCluster, name: str, *containers: str, **labels: str) -> None:
    cluster.add(
        POD,
        name,
        metadata={"labels": labels},
        spec={"containers": [{"name": container} for container in containers]},
        status={"phase": "Succeeded"},
    )
    for container in containers:
        cluster.streams[f"/api/v1/namespaces/default/pods/{name}/log"] = [f"{name} says".encode(), b"", b"bye"]
        del container


def test_a_pods_log_is_printed_as_it_is(cluster: FakeCluster, penstock: Type) -> None:
    pod(cluster, "p", "main")
    assert penstock("logs", "p", "--tail", "5", "-p", "--timestamps").out == "p says\n\nbye\n"
    assert cluster.queries[-1] == {"container": "main", "tailLines": "5", "previous": "true", "timestamps": "true"}


def test_a_prefix_distinguishes_the_pods_of_a_job(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(JOB, "crunch")
    pod(cluster, "p1", "main", **{"job-name": "crunch"})
    pod(cluster, "p2", "main", **{"job-name": "crunch"})
    out = penstock("logs", "job/crunch", "-f").out
    assert "[p1] p1 says\n" in out
    assert "[p2] p2 says\n" in out


def test_a_volcano_jobs_pods_have_volcanos_label(volcano: FakeCluster, penstock: Type) -> None:
    volcano.add(VC_JOB, "gang")
    pod(volcano, "gang-work-0", "main", **{"volcano.sh/job-name": "gang"})
    pod(volcano, "other", "main", **{"volcano.sh/job-name": "other", "job-name": "gang"})
    assert penstock("logs", "jobs.batch.volcano.sh/gang").out == "gang-work-0 says\n\nbye\n"


@cases(
    ("ScheduledJob", SCHEDULED_JOB, JOB, "job-name"),
    ("CronJob", CRON_JOB, JOB, "job-name"),
    ("JobFlow", JOB_FLOW, VC_JOB, "volcano.sh/job-name"),
)
def test_an_owners_pods_are_those_of_its_jobs(
    kind: Kind, of: Kind, label: str, volcano: FakeCluster, penstock: Type
) -> None:
    body = volcano.add(kind, "nightly")
    for number, owner in enumerate((body, body, {**body, "metadata": {**body["metadata"], "uid": "an earlier one"}})):
        volcano.add(of, f"nightly-{number}", metadata=owned_by(owner))
        pod(volcano, f"p{number}", "main", **{label: f"nightly-{number}"})
    pod(volcano, "nobodys", "main")
    out = penstock("logs", f"{kind.plural}/nightly").out
    assert [line for line in out.splitlines() if "says" in line] == ["[p0] p0 says", "[p1] p1 says"]
