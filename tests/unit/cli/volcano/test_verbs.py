"""vcctl's verbs for Jobs and queues: created objects, Commands and output."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deploy.cli.volcano import job as job_verbs
from deploy.cli.volcano import verbs as shared
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import FakeCluster
from tests.unit.cli.volcano.objects import CREATED, objects, words
from workers.api.kinds import COMMAND, POD_GROUP, PRIORITY_CLASS, QUEUE, VC_JOB, Kind, Object
from workers.errors import UserError

# --- lists of resources


@cases(
    ("none", "", {}),
    ("vcctl's default", "cpu=1000m,memory=100Mi", {"cpu": "1000m", "memory": "100Mi"}),
    ("an extended resource", "nvidia.com/gpu=2", {"nvidia.com/gpu": "2"}),
    ("a fraction", "cpu=.5", {"cpu": ".5"}),
)
def test_amounts(text: str, amounts: dict[str, str]) -> None:
    assert job_verbs.amounts("--requests", text) == amounts


@cases(
    ("no amount", "cpu", "'cpu': NAME=QUANTITY is needed"),
    ("an empty amount", "cpu=", "'cpu=': NAME=QUANTITY is needed"),
    ("no name", "=1", "'=1': NAME=QUANTITY is needed"),
    ("two amounts", "cpu=1=2", "'cpu=1=2': NAME=QUANTITY is needed"),
    ("a comma at the end", "cpu=1,", "'': NAME=QUANTITY is needed"),
    ("one name twice", "cpu=1,cpu=2", "cpu stands twice"),
    ("no number", "cpu=some", "cpu: 'some' is no quantity"),
    ("no comma", "cpu=1 memory=2", "'cpu=1 memory=2': NAME=QUANTITY is needed"),
)
def test_amounts_that_cannot_be_read_are_named(text: str, said: str) -> None:
    with pytest.raises(UserError, match=r"^--limits: ") as wrong:
        job_verbs.amounts("--limits", text)
    assert said in str(wrong.value)


@given(st.dictionaries(st.from_regex(r"[a-z./-]{1,20}", fullmatch=True), st.integers(0, 10**6).map(str), min_size=1))
def test_rendered_amounts_are_parsed_back(amounts: dict[str, str]) -> None:
    assert job_verbs.amounts("-R", ",".join(f"{name}={value}" for name, value in amounts.items())) == amounts


# --- jobs


def test_a_job_that_is_typed_is_vcctls(volcano: FakeCluster, penstock: Type) -> None:
    printed = penstock("job", "run", "-N", "job1", "-n", "batch", "-r", "3", "-m", "2")
    assert (printed.code, printed.out) == (0, "run job job1 successfully\n"), printed.err
    amounts = {"cpu": "1000m", "memory": "100Mi"}
    container = {
        "name": "job1",
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": amounts, "limits": amounts},
    }
    template = {
        "metadata": {"name": "job1", "labels": {"job.volcano.sh": "job1"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    (job,) = objects(volcano, VC_JOB)
    assert job["metadata"]["namespace"] == "batch"
    assert job["spec"] == {
        "minAvailable": 2,
        "schedulerName": "volcano",
        "tasks": [{"replicas": 3, "template": template}],
    }


def test_image_amounts_scheduler_and_command_are_the_users(volcano: FakeCluster, penstock: Type) -> None:
    flags = ("-i", "python:3", "-R", "cpu=1", "-L", "", "-S", "default-scheduler")
    assert penstock("job", "run", "-N", "job1", *flags, "--", "sh", "-c", "echo -n x").code == 0
    (job,) = objects(volcano, VC_JOB)
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("python:3", {"requests": {"cpu": "1"}})
    assert (container["command"], job["spec"]["schedulerName"]) == (["sh", "-c", "echo -n x"], "default-scheduler")


def job(name: str, **metadata: Any) -> Object:
    return {"apiVersion": VC_JOB.api_version, "kind": VC_JOB.kind, "metadata": {"name": name, **metadata}, "spec": {}}


@cases(("where the flag says", {}, "batch"), ("where it says itself", {"namespace": "ops"}, "ops"))
def test_the_job_of_a_file_is_made(
    metadata: dict[str, str], namespace: str, volcano: FakeCluster, penstock: Type, tmp_path: Any
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("written", **metadata)))
    assert penstock("job", "run", "-f", str(file), "-n", "batch").code == 0
    assert [each["metadata"]["namespace"] for each in objects(volcano, VC_JOB)] == [namespace]


@cases(
    ("two Jobs", [job("a"), job("b")], "one Job of batch.volcano.sh/v1alpha1 is needed"),
    ("batch's Job", [{**job("a"), "apiVersion": "batch/v1"}], "there is Job a (batch/v1)"),
)
def test_a_file_without_exactly_one_job_is_refused(
    documents: list[Object], said: str, volcano: FakeCluster, penstock: Type, tmp_path: Any
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    printed = penstock("job", "run", "-f", str(file))
    assert printed.code == 1
    assert said in printed.err
    assert not objects(volcano, VC_JOB)


@cases(
    ("a name, a number and an image", ("-N", "zz", "-r", "9", "-i", "foo"), ("-N", "-i", "-r")),
    ("what it would be anyway", ("-m", "1"), ("-m",)),
    ("amounts", ("-L", "cpu=2"), ("-L",)),
    ("a command", ("--", "sleep", "1"), ("COMMAND",)),
)
def test_flags_that_describe_a_job_are_refused_beside_a_file(
    typed: tuple[str, ...], named: tuple[str, ...], volcano: FakeCluster, penstock: Type, tmp_path: Any
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("a")))
    printed = penstock("job", "run", "-f", str(file), *typed)
    assert printed.code == 2
    assert "with -f the file says everything" in printed.err
    assert all(flag in printed.err for flag in named)
    assert not objects(volcano, VC_JOB)


@pytest.fixture
def three(volcano: FakeCluster) -> FakeCluster:
    """Jobs of two namespaces, queues and schedulers."""
    status = {"state": {"phase": "Running"}, "minAvailable": 2, "running": 1, "pending": 2, "retryCount": 4}
    tasks = [{"replicas": 1}, {"replicas": 2}]
    spec = {"tasks": tasks, "queue": "research", "schedulerName": "volcano"}
    volcano.add(
        VC_JOB,
        "train",
        metadata={"creationTimestamp": CREATED, "labels": {"volcano.sh/job-type": "MPI"}},
        spec=spec,
        status=status,
    )
    volcano.add(VC_JOB, "eval", metadata={"creationTimestamp": CREATED}, spec={"tasks": [], "schedulerName": "other"})
    volcano.add(VC_JOB, "far", "batch", metadata={"creationTimestamp": CREATED}, spec={**spec, "tasks": []})
    return volcano


def test_jobs_are_listed_in_vcctls_columns(three: FakeCluster, penstock: Type) -> None:
    header, train, evaluated = words(penstock("job", "list").out)
    columns = "Name Creation Phase JobType Replicas Min Pending Running Succeeded Failed Unknown RetryCount"
    assert header == columns.split()
    assert train == ["train", "2026-03-01", "Running", "MPI", "3", "2", "2", "1", "0", "0", "0", "4"]
    assert evaluated == ["eval", "2026-03-01", "Batch", "0", "0", "0", "0", "0", "0", "0", "0"]


@cases(
    ("of the namespace", (), ["train", "eval"]),
    ("of another", ("-n", "batch"), ["far"]),
    ("of a queue", ("-q", "research"), ["train"]),
    ("of the queue of those that name none", ("-q", "default"), ["eval"]),
    ("of a scheduler", ("-S", "other"), ["eval"]),
    ("by a part of the name", ("--selector", "rai"), ["train"]),
)
def test_flags_filter_the_listed_jobs(
    flags: tuple[str, ...], names: list[str], three: FakeCluster, penstock: Type
) -> None:
    assert [line[0] for line in words(penstock("job", "list", *flags).out)[1:]] == names


def test_jobs_of_all_namespaces_are_listed_with_their_namespace(three: FakeCluster, penstock: Type) -> None:
    lines = words(penstock("job", "list", "--all-namespaces").out)
    assert [line[:2] for line in lines] == [
        ["Namespace", "Name"],
        ["default", "train"],
        ["default", "eval"],
        ["batch", "far"],
    ]


@for_each("job", "queue", "flow", "template", "jobflow", "jobtemplate")
def test_an_empty_list_is_reported(verbs: str, volcano: FakeCluster, penstock: Type) -> None:
    printed = penstock(verbs, "list")
    assert (printed.code, printed.out) == (0, "No resources found\n")


# --- Commands


@cases(
    ("suspend", "job suspend -N train", VC_JOB, "AbortJob", "train-abortjob-", "Running"),
    ("resume", "job resume -N train", VC_JOB, "ResumeJob", "train-resumejob-", "Aborted"),
    ("open", "queue operate -n train -a open", QUEUE, "OpenQueue", "train-openqueue-", ""),
    ("close", "queue operate -n train -a close", QUEUE, "CloseQueue", "train-closequeue-", ""),
)
def test_a_command_is_the_object_that_vcctl_makes(
    line: str, kind: Kind, action: str, prefix: str, phase: str, volcano: FakeCluster, penstock: Type
) -> None:
    volcano.add(kind, "train", spec={}, status={"state": {"phase": phase}})
    printed = penstock(*line.split())
    assert printed.code == 0, printed.err
    assert action in printed.out
    (command,) = objects(volcano, COMMAND)
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": "train",
        "uid": "uid-train",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = command["metadata"]
    assert (metadata["generateName"], metadata["namespace"]) == (prefix, "default")
    assert metadata["ownerReferences"] == [reference]
    assert (command["target"], command["action"]) == (reference, action)


@cases(
    ("one that has failed", "suspend", "Failed", 1, "job train is Failed: it can be neither suspended nor resumed"),
    ("one that completes", "resume", "Completing", 1, "job train is Completing: it can be neither suspended"),
    ("one that is aborted already", "suspend", "Aborted", 0, "suspend job train: nothing to change"),
    ("one that is being aborted already", "suspend", "Aborting", 0, "suspend job train: nothing to change"),
    ("one that runs", "resume", "Running", 0, "resume job train: nothing to change"),
    ("one that runs again", "resume", "Restarting", 0, "resume job train: nothing to change"),
    ("one that its spec suspends", "resume", "Aborted", 1, "job train: spec.suspend is true: set it to false"),
)
def test_what_a_command_would_not_change_is_told(
    verb: str, phase: str, code: int, said: str, volcano: FakeCluster, penstock: Type
) -> None:
    spec = {"suspend": True} if "spec.suspend" in said else {}
    volcano.add(VC_JOB, "train", spec=spec, status={"state": {"phase": phase}})
    printed = penstock("job", verb, "-N", "train")
    assert (printed.code, objects(volcano, COMMAND)) == (code, [])
    assert said in printed.out + printed.err


def test_a_job_whose_suspension_waits_to_be_carried_out_is_resumed(volcano: FakeCluster, penstock: Type) -> None:
    volcano.add(VC_JOB, "train", spec={}, status={"state": {"phase": "Running"}})
    assert penstock("job", "suspend", "-N", "train").code == 0
    assert "command ResumeJob was given" in penstock("job", "resume", "-N", "train").out
    assert [command["action"] for command in objects(volcano, COMMAND)] == ["AbortJob", "ResumeJob"]


def test_a_command_is_in_the_namespace_of_its_job() -> None:
    target = {"metadata": {"name": "train", "namespace": "batch", "uid": "u"}}
    assert shared.command_for(VC_JOB, target, "AbortJob")["metadata"]["namespace"] == "batch"


@for_each(
    "job suspend -N nothing",
    "job resume -N nothing",
    "job view -N nothing",
    "job delete -N nothing",
    "queue operate -n nothing -a close",
    "queue operate -n nothing -a update -w 2",
    "queue get -n nothing",
    "queue delete -n nothing",
    "flow get -N nothing",
    "flow describe -N nothing",
    "flow delete -N nothing",
    "flow cancel -N nothing",
    "template get -N nothing",
    "template describe -N nothing",
    "template delete -N nothing",
)
def test_an_unknown_target_is_an_error_that_names_it(line: str, volcano: FakeCluster, penstock: Type) -> None:
    printed = penstock(*line.split())
    assert (printed.code, printed.out) == (1, "")
    assert '"nothing" not found' in printed.err
    assert printed.err.count("\n") == 1
    assert not objects(volcano, COMMAND)


@for_each(
    "job run",
    "job suspend",
    "queue get",
    "queue operate -n research",
    "queue operate -n root -a close",
    "queue operate -a open",
    "queue operate -n research -a drop",
    "queue operate -n research -a update",
    "queue operate -n research -a update -w 0",
    "queue operate -n research -a open -w 2",
    "queue create -w 0",
    "queue create -S Ajar",
    "flow create",
    "flow delete",
    "flow delete -N a -f b.yaml",
    "flow describe -N a -o table",
)
def test_an_incomplete_or_contradictory_command_line_is_refused(
    line: str, volcano: FakeCluster, penstock: Type
) -> None:
    printed = penstock(*line.split())
    assert (printed.code, printed.out) == (2, "")
    assert "Error: " in printed.err


# --- queues


def test_a_queue_is_made_changed_and_deleted(volcano: FakeCluster, penstock: Type) -> None:
    assert penstock("queue", "create").code == 0
    (made,) = objects(volcano, QUEUE)
    assert (made["metadata"]["name"], made["spec"], made["status"]) == ("test", {"weight": 1}, {"state": "Open"})
    assert penstock("queue", "operate", "-n", "test", "-a", "update", "-w", "7").code == 0
    assert objects(volcano, QUEUE)[0]["spec"]["weight"] == 7
    assert not objects(volcano, COMMAND)
    assert penstock("queue", "delete", "-n", "test").out == "delete queue test successfully\n"
    assert not objects(volcano, QUEUE)


def test_a_queue_that_is_made_closed_is_closed_by_a_command(volcano: FakeCluster, penstock: Type) -> None:
    assert penstock("queue", "create", "-n", "shut", "-S", "Closed").code == 0
    assert [each["action"] for each in objects(volcano, COMMAND)] == ["CloseQueue"]


def test_a_queue_is_shown_with_its_pending_podgroups_in_order(volcano: FakeCluster, penstock: Type) -> None:
    status = {"state": "Open", "pending": 3, "inqueue": 1, "running": 2, "completed": 9}
    volcano.add(QUEUE, "research", spec={"weight": 4, "parent": "root"}, status=status)
    volcano.add(PRIORITY_CLASS, "urgent", value=100)
    short = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "2 cpu\nare left"}
    place: list[tuple[str, Object, Object]] = [
        ("young", {"queue": "research"}, {"creationTimestamp": "2026-03-01T10:00:02Z"}),
        ("old", {"queue": "research"}, {"creationTimestamp": "2026-03-01T10:00:01Z"}),
        ("urgent", {"queue": "research", "priorityClassName": "urgent"}, {"creationTimestamp": "2026-03-01T10:00:03Z"}),
        ("elsewhere", {}, {"creationTimestamp": CREATED}),
        ("leaving", {"queue": "research"}, {"creationTimestamp": CREATED, "deletionTimestamp": CREATED}),
        (
            "late",
            {"queue": "research"},
            {"creationTimestamp": "2026-03-01T10:00:04Z", "annotations": {"sla-waiting-time": "1s"}},
        ),
    ]
    for name, spec, metadata in place:
        volcano.add(POD_GROUP, name, spec=spec, metadata=metadata, status={"phase": "Pending", "conditions": [short]})
    running = {"phase": "Running", "conditions": [{**short, "status": "False"}]}
    volcano.add(POD_GROUP, "running", spec={"queue": "research"}, status=running)
    header, row, _title, _columns, *waiting = penstock("queue", "get", "-n", "research").out.splitlines()
    assert header.split() == [
        "Name",
        "Weight",
        "State",
        "Parent",
        "Inqueue",
        "Pending",
        "Running",
        "Unknown",
        "Completed",
    ]
    assert row.split() == ["research", "4", "Open", "root", "1", "3", "2", "0", "9"]
    assert [line.split()[:3] for line in waiting] == [
        ["1", "default", "late"],
        ["2", "default", "urgent"],
        ["3", "default", "old"],
        ["4", "default", "young"],
    ]
    assert all(line.endswith("NotEnoughResources: 2 cpu are left") for line in waiting)
    assert "Place:         3 of 4 that wait in queue research" in penstock("describe", "podgroup", "old").out


# --- describe


def test_a_jobs_description_shows_the_reason_of_its_failure(volcano: FakeCluster, penstock: Type) -> None:
    status = {
        "state": {"phase": "Failed", "reason": "TaskFailed", "message": "one\nof two"},
        "taskStatusCount": {"work": {"phase": {"Failed": 1, "Running": 0, "Succeeded": 2}}},
        "failures": [{"pod": "train-work-0", "container": "main", "exitCode": 3, "reason": "Error", "time": CREATED}],
        "conditions": [{"status": "Pending", "lastTransitionTime": CREATED}, {"status": "Failed"}],
    }
    spec = {"tasks": [{"name": "work", "replicas": 3, "minAvailable": 2}, {"replicas": 1}]}
    made = volcano.add(VC_JOB, "train", spec=spec, status=status)
    owner = {"kind": "Job", "name": "train", "uid": made["metadata"]["uid"], "controller": True}
    volcano.add(POD_GROUP, "train-1", metadata={"ownerReferences": [owner]}, status={"phase": "Completed"})
    volcano.add(POD_GROUP, "another", status={"phase": "Running"})
    printed = penstock("job", "view", "-N", "train")
    assert printed.code == 0, printed.err
    lines = [" ".join(line.split()) for line in printed.out.splitlines()]
    for line in (
        "Why: TaskFailed: one of two",
        "work 3 2 1 Failed, 2 Succeeded",
        "default1 1 1 none",
        "PodGroup: train-1 Completed",
    ):
        assert line in lines
    assert any(line.startswith("train-work-0 main 3 ") and line.endswith(" Error") for line in lines)
    assert lines[lines.index("PHASE SINCE") + 2] == "Failed <unknown>"
    assert not [line for line in lines if "another" in line]
    assert printed.out == penstock("describe", "jobs.batch.volcano.sh", "train").out
