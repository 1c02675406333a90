"""``penstock describe`` of a JobFlow: its graph, why it waits, and its Jobs."""

from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import FakeCluster
from workers.api.kinds import JOB_FLOW, VC_JOB


def test_its_graph_its_condition_and_its_jobs_are_shown(volcano: FakeCluster, penstock: Type) -> None:
    flows = [{"name": "fetch"}, {"name": "train", "dependsOn": {"targets": ["fetch"]}}]
    waits = {"type": "Ready", "status": "False", "reason": "MissingTemplate", "message": "no JobTemplate train"}
    status = {
        "state": {"phase": "Running"},
        "entries": {"fetch": {"phase": "Completed", "job": "nightly-fetch"}},
        "conditions": {"nightly-fetch": {"phase": "Completed"}},
        "flowConditions": [waits],
    }
    flow = volcano.add(JOB_FLOW, "nightly", spec={"flows": flows}, status=status)
    owner = {"kind": "JobFlow", "name": "nightly", "uid": flow["metadata"]["uid"], "controller": True}
    volcano.add(
        VC_JOB, "nightly-fetch", metadata={"ownerReferences": [owner]}, status={"state": {"phase": "Completed"}}
    )
    volcano.add(JOB_FLOW, "nightly-1", metadata={"ownerReferences": [owner]}, status={"conditions": {"x": {}}})
    printed = penstock("describe", "jobflow", "nightly")
    assert printed.code == 0, printed
    lines = printed.lines
    place = lines.index("Graph:")
    assert lines[place + 1 : place + 3] == ["+ fetch Completed", ". train Waiting after fetch"]
    assert any(line.startswith("Ready False MissingTemplate") for line in lines)
    assert [line for line in lines[place + 3 :] if line.startswith("nightly-")] == [
        "nightly-fetch Completed <unknown>",
        "nightly-1 Pending <unknown>",
    ]
