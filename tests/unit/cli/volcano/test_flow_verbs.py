"""``penstock flow`` and ``penstock template``: creating, listing, patching and deleting."""

from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from deploy.cli.volcano.flow import row
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import FakeCluster
from tests.unit.cli.volcano.objects import CREATED, objects, words
from workers.api import times
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, Object


def flow(name: str, **spec: Any) -> Object:
    return {"apiVersion": JOB_FLOW.api_version, "kind": "JobFlow", "metadata": {"name": name}, "spec": spec}


def template(name: str) -> Object:
    return {"apiVersion": JOB_TEMPLATE.api_version, "kind": "JobTemplate", "metadata": {"name": name}, "spec": {}}


def test_everything_of_a_file_is_made_and_deleted(volcano: FakeCluster, penstock: Type, tmp_path: Any) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(yaml.safe_dump_all([flow("nightly"), template("train"), template("test")]))
    made = penstock("jobflow", "create", "-f", str(file), "-n", "batch")
    assert made.out.splitlines() == [
        "Created JobFlow: batch/nightly",
        "Created JobTemplate: batch/train",
        "Created JobTemplate: batch/test",
    ]
    assert words(penstock("template", "list", "-n", "batch").out) == [
        ["Name", "Namespace"],
        ["train", "batch"],
        ["test", "batch"],
    ]
    again = penstock("flow", "create", "-f", str(file), "-n", "batch")
    assert again.code == 1
    assert again.err.count("already exists") == 3
    assert penstock("flow", "delete", "-f", str(file), "-n", "batch").out.splitlines()[-1] == (
        "Deleted JobFlow: batch/nightly"
    )
    assert not objects(volcano, JOB_FLOW) + objects(volcano, JOB_TEMPLATE)


def test_a_file_with_something_else_in_it_makes_nothing(volcano: FakeCluster, penstock: Type, tmp_path: Any) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(yaml.safe_dump_all([template("train"), flow("nightly")]))
    printed = penstock("template", "create", "-f", str(file))
    assert printed.code == 1
    assert "flow.yaml, document 2: JobTemplate (flow.volcano.sh/v1alpha1) is needed, not JobFlow nightly" in printed.err
    assert not objects(volcano, JOB_TEMPLATE)


def test_flows_are_listed_and_written_out(volcano: FakeCluster, penstock: Type) -> None:
    managed = {"creationTimestamp": CREATED, "managedFields": [{}]}
    volcano.add(JOB_FLOW, "nightly", metadata=managed, spec={"flows": []}, status={"state": {"phase": "Running"}})
    volcano.add(JOB_FLOW, "weekly", metadata=managed, spec={"flows": []})
    volcano.add(JOB_FLOW, "far", "batch", metadata=managed, spec={"flows": []})
    header, first, second = words(penstock("flow", "list").out)
    assert (header, first[:3], second[:2]) == (
        ["Name", "Namespace", "Phase", "Age"],
        ["nightly", "default", "Running"],
        ["weekly", "default"],
    )
    assert len(words(penstock("flow", "list", "--all-namespaces").out)) == 4
    assert words(penstock("flow", "get", "-N", "far", "-n", "batch").out)[1][0] == "far"
    shown = list(yaml.safe_load_all(penstock("flow", "describe").out))
    assert [(each["kind"], each["metadata"]["name"]) for each in shown] == [
        ("JobFlow", "nightly"),
        ("JobFlow", "weekly"),
    ]
    assert not [each for each in shown if "managedFields" in each["metadata"]]
    assert yaml.safe_load(penstock("flow", "describe", "-N", "nightly", "-o", "json").out) == shown[0]
    assert "Graph:" in penstock("flow", "describe", "-N", "nightly", "-o", "text").out


@for_each((729, "729d"), (730, "2y0d"), (731, "2y1d"), (7 * 365, "7y0d"), (2920, "8y"))
def test_ages_have_vcctls_form(days: int, age: str) -> None:
    """kubectl leaves out the days of whole years."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    created = times.render(now - timedelta(days=days))
    assert row({"metadata": {"name": "f", "namespace": "n", "creationTimestamp": created}}, now)[-1] == age


RETRY = "penstock.dev/retry"


@cases(
    ("suspend", "suspend", "Running", {}, {"suspend": True}),
    ("suspend one that is new", "suspend", "", {"suspend": False}, {"suspend": True}),
    ("resume", "resume", "Running", {"suspend": True}, {}),
    ("cancel", "cancel", "Running", {}, {"cancel": True}),
    ("cancel what still runs of one that failed", "cancel", "Failed", {}, {"cancel": True}),
    ("retry", "retry", "Failed", {}, {}),
    ("retry one that was cancelled", "retry", "Terminated", {"cancel": True}, {}),
)
def test_a_flow_is_steered(
    verb: str, phase: str, before: Object, after: Object, volcano: FakeCluster, penstock: Type
) -> None:
    volcano.add(JOB_FLOW, "nightly", spec=before, status={"state": {"phase": phase}})
    assert penstock("flow", verb, "-N", "nightly").out == f"{verb} flow nightly: asked for\n"
    (found,) = objects(volcano, JOB_FLOW)
    assert found["spec"] == after
    assert (RETRY in (found["metadata"].get("annotations") or {})) == (verb == "retry")


@for_each(("suspend", {"suspend": True}), ("resume", {}), ("cancel", {"cancel": True}))
def test_a_change_without_effect_is_not_written(verb: str, spec: Object, volcano: FakeCluster, penstock: Type) -> None:
    volcano.add(JOB_FLOW, "nightly", spec=spec, status={"state": {"phase": "Running"}})
    assert penstock("flow", verb, "-N", "nightly").out == f"{verb} flow nightly: nothing to change\n"
    assert not [call for call in volcano.calls if call[0] == "PATCH"]


@cases(
    ("retry one that runs", "retry", "Running", {}, "flow nightly is Running"),
    ("retry a new one", "retry", "", {}, "flow nightly is new"),
    ("retry one that still ends", "retry", "Terminating", {"cancel": True}, "is Terminating"),
    ("resume a cancelled one", "resume", "Terminating", {"cancel": True}, "is cancelled"),
    ("cancel one that is over", "cancel", "Succeed", {}, "is over: Succeed"),
    ("suspend one that is over", "suspend", "Terminated", {}, "is over: Terminated"),
)
def test_a_verb_that_means_nothing_now_is_refused(
    verb: str, phase: str, spec: Object, said: str, volcano: FakeCluster, penstock: Type
) -> None:
    volcano.add(JOB_FLOW, "nightly", spec=spec, status={"state": {"phase": phase}})
    printed = penstock("flow", verb, "-N", "nightly")
    assert printed.code == 1
    assert said in printed.err
    assert not [call for call in volcano.calls if call[0] == "PATCH"]
