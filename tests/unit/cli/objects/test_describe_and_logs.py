"""``penstock describe`` and ``penstock logs``."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from deploy.cli.objects import describe
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import EVENT, JOB, POD, SCALED_JOB, FakeCluster
from workers.api.kinds import CRON_JOB, DEPLOYMENT, JOB_FLOW, SCHEDULED_JOB, VC_JOB, Kind, Ref
from workers.decision.snapshot import Reading, TriggerSample
from workers.errors import Invalid


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


def test_the_pods_of_a_label_are_printed(cluster: FakeCluster, penstock: Type) -> None:
    pod(cluster, "p1", "main", app="x")
    pod(cluster, "p2", "main", app="x")
    pod(cluster, "other", "main", app="y")
    printed = penstock("logs", "-l", "app=x", "--tail", "3")
    assert [line for line in printed.out.splitlines() if "says" in line] == ["[p1] p1 says", "[p2] p2 says"]
    assert penstock("logs", "-l", "app=z").err == "penstock: namespace default has no pods with the labels app=z\n"


@for_each("", "p -l app=x", "p --since 5m --since-time 2026-03-01T08:00:00Z")
def test_logs_are_of_one_choice(words: str, cluster: FakeCluster, penstock: Type) -> None:
    assert penstock("logs", *words.split()).code == 2


@for_each(
    (("--since", "5m"), {"sinceSeconds": "300"}),
    (("--since", "1h30m0.5s"), {"sinceSeconds": "5401"}),
    (("--since-time", "2026-03-01T08:00:00+01:00"), {"sinceTime": "2026-03-01T07:00:00Z"}),
)
def test_older_lines_are_left_out(
    words: tuple[str, ...], query: dict[str, str], cluster: FakeCluster, penstock: Type
) -> None:
    pod(cluster, "p", "main")
    assert penstock("logs", "p", *words).code == 0
    assert cluster.queries[-1] == {"container": "main", **query}


@for_each(("--since", "5"), ("--since", "-5m"), ("--since", "0s"), ("--since", "yesterday"), ("--since-time", "8:00"))
def test_what_is_no_time_is_an_error(option: str, value: str, cluster: FakeCluster, penstock: Type) -> None:
    printed = penstock("logs", "p", option, value)
    assert (printed.code, printed.err.startswith(f"penstock: {option}: ")) == (1, True)
    assert cluster.calls == []


@for_each("", "-f")
def test_a_pod_whose_log_is_refused_leaves_the_others(follow: str, cluster: FakeCluster, penstock: Type) -> None:
    for name in ("a", "b", "c"):
        pod(cluster, name, "main", app="x")
    path = "/api/v1/namespaces/default/pods/a/log"
    error = Invalid(f"GET {path}: 400", status=400, body={"message": "pod a does not have a host assigned"})
    stream = cluster.stream_lines

    def refused(where: str, *more: Any, **named: Any) -> AsyncIterator[bytes]:
        if where == path:
            raise error
        return stream(where, *more, **named)

    cluster.stream_lines = refused  # type: ignore[method-assign]
    printed = penstock("logs", "-l", "app=x", *([follow] if follow else []))
    assert (printed.code, printed.err) == (1, "penstock: pod a does not have a host assigned\n")
    assert {"[b] b says", "[c] c says"} <= set(printed.lines)


def test_a_pod_that_has_not_started_does_not_keep_others_from_being_followed(
    cluster: FakeCluster, penstock: Type
) -> None:
    pod(cluster, "late", "main", app="x")
    pod(cluster, "early", "main", app="x")
    late = cluster.objects["/api/v1/namespaces/default/pods/late"]
    late["status"] = {"phase": "Pending"}
    stream = cluster.stream_lines

    async def begun(path: str, *more: Any, **named: Any) -> AsyncIterator[bytes]:
        async for line in stream(path, *more, **named):
            yield line
        # The other one starts when the first one has been followed to its end.
        late["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}

    cluster.stream_lines = begun  # type: ignore[method-assign]
    assert [line for line in penstock("logs", "-l", "app=x", "-f").lines if "says" in line] == [
        *("[early] early says", "[late] late says")
    ]


def test_the_container_of_the_annotation_is_printed(cluster: FakeCluster, penstock: Type) -> None:
    pod(cluster, "p", "side", "main")
    annotations = cluster.objects["/api/v1/namespaces/default/pods/p"]["metadata"]
    annotations["annotations"] = {"kubectl.kubernetes.io/default-container": "main"}
    assert penstock("logs", "p").code == 0
    assert cluster.queries[-1] == {"container": "main"}


def test_a_workloads_pods_are_those_of_its_selector(cluster: FakeCluster, penstock: Type) -> None:
    cluster.kinds.append(DEPLOYMENT)
    cluster.add(DEPLOYMENT, "web")
    scale = {"metadata": {"name": "web"}, "status": {"selector": "app=web"}}
    cluster.objects["/apis/apps/v1/namespaces/default/deployments/web/scale"] = {**scale, "apiVersion": "", "kind": ""}
    pod(cluster, "web-1", "main", app="web")
    pod(cluster, "other", "main", app="x")
    assert penstock("logs", "deployments/web").out == "web-1 says\n\nbye\n"


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
