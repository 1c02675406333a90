"""Ties: references between objects without ownership."""

from typing import Any

import pytest

from workers.api import kinds
from workers.api.kinds import Kind, Object, Ref
from workers.api.references import REFERENCES


def body(kind: Kind, metadata: Object | None = None, **content: Any) -> Object:
    named = {"name": "a", "uid": "u1", **({"namespace": "team"} if kind.namespaced else {}), **(metadata or {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named, **content}


def command(api_version: str, kind: str, name: str = "x") -> Object:
    return body(kinds.COMMAND, target={"apiVersion": api_version, "kind": kind, "name": name, "uid": "u"})


GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
MADE = "volcano.sh/createdByJobTemplate"


@pytest.mark.parametrize(
    ("kind", "made", "named"),
    [
        pytest.param(kinds.POD, body(kinds.POD, GROUPED), Ref(kinds.POD_GROUP, "team", "g"), id="pod of a group"),
        pytest.param(kinds.POD, body(kinds.POD, {"annotations": None}), None, id="pod of none"),
        pytest.param(
            kinds.REPLICA_SET, body(kinds.REPLICA_SET), Ref(kinds.POD_GROUP, "team", "podgroup-u1"), id="replicas"
        ),
        pytest.param(
            kinds.POD_GROUP,
            body(kinds.POD_GROUP, spec={"queue": "q"}),
            Ref(kinds.QUEUE, "", "q"),
            id="group of a queue",
        ),
        pytest.param(kinds.POD_GROUP, body(kinds.POD_GROUP), Ref(kinds.QUEUE, "", "default"), id="group of none"),
        pytest.param(
            kinds.QUEUE, body(kinds.QUEUE, spec={"parent": "p"}), Ref(kinds.QUEUE, "", "p"), id="queue below another"
        ),
        pytest.param(kinds.QUEUE, body(kinds.QUEUE, spec={"parent": ""}), None, id="or below none"),
        pytest.param(kinds.QUEUE, body(kinds.QUEUE), None, id="queue without a spec"),
        pytest.param(kinds.QUEUE, body(kinds.QUEUE, spec={"parent": "a"}), None, id="queue below itself"),
        pytest.param(kinds.QUEUE, body(kinds.QUEUE, {"name": "root"}, spec={"parent": "b"}), None, id="the root queue"),
        pytest.param(
            kinds.COMMAND, command("scheduling.volcano.sh/v1beta1", "Queue"), Ref(kinds.QUEUE, "", "x"), id="to a queue"
        ),
        pytest.param(
            kinds.COMMAND, command("batch.volcano.sh/v1alpha1", "Job"), Ref(kinds.VC_JOB, "team", "x"), id="to a job"
        ),
        pytest.param(kinds.COMMAND, command("nothing/v1", "Job"), None, id="to an unknown kind"),
        pytest.param(kinds.COMMAND, command("batch/v1", "Job", ""), None, id="without a name"),
        pytest.param(kinds.COMMAND, body(kinds.COMMAND), None, id="without a target"),
        pytest.param(
            kinds.VC_JOB,
            body(kinds.VC_JOB, {"labels": {MADE: "team.t"}}),
            Ref(kinds.JOB_TEMPLATE, "team", "t"),
            id="job of a template",
        ),
        pytest.param(kinds.VC_JOB, body(kinds.VC_JOB, {"labels": {MADE: "ns.t"}}), None, id="of another namespace"),
        pytest.param(kinds.VC_JOB, body(kinds.VC_JOB, {"labels": {MADE: "ns.t.x"}}), None, id="a name with dots"),
        pytest.param(kinds.VC_JOB, body(kinds.VC_JOB), None, id="job of none"),
    ],
)
def test_who_is_named(kind: Kind, made: Object, named: Ref | None) -> None:
    assert REFERENCES[kind.id](made) == named
