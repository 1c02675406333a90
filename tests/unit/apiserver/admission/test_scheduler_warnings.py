"""Warnings about pods of schedulers that do not run here."""

from deploy.local.apiserver.admission import scheduler_warnings
from tests.unit.tables import cases
from workers.api import kinds
from workers.api.kinds import Kind, Object

MINE: Object = {"spec": {"template": {"spec": {"schedulerName": "mine"}}}}


@cases(
    ("kind", "body", "wanted"),
    {
        "a pod": (kinds.POD, {"spec": {"schedulerName": "mine"}}, ["spec.schedulerName"]),
        "a template": (kinds.DEPLOYMENT, MINE, ["spec.template.spec.schedulerName"]),
        "no name": (kinds.POD, {"spec": {}}, []),
        "the default": (kinds.POD, {"spec": {"schedulerName": "default-scheduler"}}, []),
        "that of gangs": (kinds.POD, {"spec": {"schedulerName": "volcano"}}, []),
        "a name that is none": (
            kinds.SCALED_JOB,
            {"spec": {"jobTargetRef": {"template": {"spec": {"schedulerName": 3}}}}},
            [],
        ),
        "another kind": (kinds.SECRET, MINE, []),
        "no pod spec": (kinds.DEPLOYMENT, {"spec": {"template": {"spec": "none"}}}, []),
    },
)
def test_a_scheduler_that_does_not_run_is_named(kind: Kind, body: Object, wanted: list[str]) -> None:
    told = scheduler_warnings.warned(kind, body, None, ("volcano",))
    assert [text.partition(": ")[0] for text in told] == wanted
    assert scheduler_warnings.warned(kind, body, body, ("volcano",)) == []
