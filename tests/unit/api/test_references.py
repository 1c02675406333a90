"""Ties: references between objects without ownership."""

from typing import Any

from tests.support.tables import cases
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


@cases(
    ("pod of a group", kinds.POD, body(kinds.POD, GROUPED), Ref(kinds.POD_GROUP, "team", "g")),
    ("pod of none", kinds.POD, body(kinds.POD, {"annotations": None}), None),
    ("replicas", kinds.REPLICA_SET, body(kinds.REPLICA_SET), Ref(kinds.POD_GROUP, "team", "podgroup-u1")),
    ("group of a queue", kinds.POD_GROUP, body(kinds.POD_GROUP, spec={"queue": "q"}), Ref(kinds.QUEUE, "", "q")),
    ("group of none", kinds.POD_GROUP, body(kinds.POD_GROUP), Ref(kinds.QUEUE, "", "default")),
    ("queue below another", kinds.QUEUE, body(kinds.QUEUE, spec={"parent": "p"}), Ref(kinds.QUEUE, "", "p")),
    ("or below none", kinds.QUEUE, body(kinds.QUEUE, spec={"parent": ""}), None),
    ("queue without a spec", kinds.QUEUE, body(kinds.QUEUE), None),
    ("queue below itself", kinds.QUEUE, body(kinds.QUEUE, spec={"parent": "a"}), None),
    ("the root queue", kinds.QUEUE, body(kinds.QUEUE, {"name": "root"}, spec={"parent": "b"}), None),
    ("to a queue", kinds.COMMAND, command("scheduling.volcano.sh/v1beta1", "Queue"), Ref(kinds.QUEUE, "", "x")),
    ("to a job", kinds.COMMAND, command("batch.volcano.sh/v1alpha1", "Job"), Ref(kinds.VC_JOB, "team", "x")),
    ("to an unknown kind", kinds.COMMAND, command("nothing/v1", "Job"), None),
    ("without a name", kinds.COMMAND, command("batch/v1", "Job", ""), None),
    ("without a target", kinds.COMMAND, body(kinds.COMMAND), None),
    (
        "job of a template",
        kinds.VC_JOB,
        body(kinds.VC_JOB, {"labels": {MADE: "team.t"}}),
        Ref(kinds.JOB_TEMPLATE, "team", "t"),
    ),
    ("of another namespace", kinds.VC_JOB, body(kinds.VC_JOB, {"labels": {MADE: "ns.t"}}), None),
    ("a name with dots", kinds.VC_JOB, body(kinds.VC_JOB, {"labels": {MADE: "ns.t.x"}}), None),
    ("job of none", kinds.VC_JOB, body(kinds.VC_JOB), None),
)
def test_who_is_named(kind: Kind, made: Object, named: Ref | None) -> None:
    assert REFERENCES[kind.id](made) == named
