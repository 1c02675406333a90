"""Warnings about pods of schedulers that do not run here, and of nodes that do not exist."""

from deploy.local.apiserver.admission import placement_warnings
from tests.support.tables import cases
from workers.api import kinds
from workers.api.kinds import Kind, Object

MINE: Object = {"spec": {"template": {"spec": {"schedulerName": "mine"}}}}


def nodes() -> tuple[str, ...]:
    return ("n1", "n2")


@cases(
    ("a pod", kinds.POD, {"spec": {"schedulerName": "mine"}}, ["spec.schedulerName"]),
    ("a template", kinds.DEPLOYMENT, MINE, ["spec.template.spec.schedulerName"]),
    ("no name", kinds.POD, {"spec": {}}, []),
    ("the default", kinds.POD, {"spec": {"schedulerName": "default-scheduler"}}, []),
    ("that of gangs", kinds.POD, {"spec": {"schedulerName": "volcano"}}, []),
    ("no such node", kinds.POD, {"spec": {"nodeName": "n9"}}, ["spec.nodeName"]),
    (
        "no such node for a template",
        kinds.DEPLOYMENT,
        {"spec": {"template": {"spec": {"nodeName": "n9", "schedulerName": "mine"}}}},
        ["spec.template.spec.nodeName"],
    ),
    ("a node", kinds.POD, {"spec": {"nodeName": "n1"}}, []),
    ("a node of an earlier run", kinds.POD, {"spec": {"nodeName": "n1-3"}}, []),
    ("another scheduler's, with a node", kinds.POD, {"spec": {"nodeName": "n1", "schedulerName": "mine"}}, []),
    ("a node that is no name", kinds.POD, {"spec": {"nodeName": 3}}, []),
    (
        "a name that is none",
        kinds.SCALED_JOB,
        {"spec": {"jobTargetRef": {"template": {"spec": {"schedulerName": 3}}}}},
        [],
    ),
    ("another kind", kinds.SECRET, MINE, []),
    ("no pod spec", kinds.DEPLOYMENT, {"spec": {"template": {"spec": "none"}}}, []),
)
def test_what_keeps_pods_waiting_is_named(kind: Kind, body: Object, wanted: list[str]) -> None:
    told = placement_warnings.warned(kind, body, None, ("volcano",), nodes)
    assert [text.partition(": ")[0] for text in told] == wanted
    assert placement_warnings.warned(kind, body, body, ("volcano",), nodes) == []


def test_nothing_is_said_of_nodes_before_a_kubelet_has_presented_any() -> None:
    assert placement_warnings.warned(kinds.POD, {"spec": {"nodeName": "n9"}}, None, (), tuple) == []
