"""Validation of a JobFlow."""

from typing import Any

from tests.support.tables import cases
from workers.admission.lookup import Known
from workers.admission.volcano import jobflow as admission
from workers.api.kinds import JOB_FLOW, Object


def entry(name: str, *targets: str, **more: Any) -> Object:
    return {"name": name, **({"dependsOn": {"targets": [*targets]}} if targets else {}), **more}


def flow(*flows: Object, name: str = "f", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": JOB_FLOW.api_version,
        "kind": "JobFlow",
        "metadata": metadata,
        "spec": {"flows": [*flows], **spec},
    }


PROBE = {"tcpSocketList": [{"taskName": "t", "port": 80}]}


@cases(
    ("no entries", flow()),
    ("Volcano's own fields", flow(entry("a"), entry("b", "a"), jobRetainPolicy="delete")),
    ("empty targets", flow({"name": "a", "dependsOn": {"targets": []}})),
    ("one template twice", flow(entry("a", template="t"), entry("b", template="t"))),
    ("a condition", flow(entry("a", **{"if": "${parameters.x} == '1'"}), parameters={"x": "1"})),
    ("a thousand items", flow(entry("a", forEach={"count": 1000}))),
    ("a schedule", flow(entry("a"), schedule="@hourly", timeZone="Europe/Berlin")),
    ("a shell's own reference", flow(entry("a", patch={"jobSpec": {"x": "${HOME} ${item}"}}))),
    ("63 characters", flow(entry("a" * 61))),
)
def test_accepted(body: Object) -> None:
    assert admission.problems(body, None, Known()) == []


@cases(
    ("itself", flow(entry("a", "a")), "spec.flows[0].dependsOn.targets", "depends on itself"),
    ("unknown target", flow(entry("a", "b")), "spec.flows[0].dependsOn.targets", "no entry b"),
    ("cycle", flow(entry("a", "c"), entry("b", "a"), entry("c", "b")), "spec.flows", "circle"),
    (
        "too many Jobs",
        flow(*(entry(name, forEach={"count": 1000}, retry={"limit": 100}) for name in "abc")),
        "spec.flows",
        "3000 entries and items are more than the 2500",
    ),
    ("a name twice", flow(entry("a"), entry("a")), "spec.flows[0].name", "2 entries"),
    ("a Job's name too long", flow(entry("a" * 62)), "spec.flows[0].name", "64 characters"),
    ("a retry's name too long", flow(entry("a" * 60, retry={"limit": 1})), "spec.flows[0].name", "65 characters"),
    ("a scheduled Job's name", flow(entry("a" * 55), schedule="@hourly"), "spec.flows[0].name", "characters"),
    ("no name", flow(entry("A_b")), "spec.flows[0].name", "no name of a Job"),
    ("an item's name", flow(entry("a", forEach={"count": 2}), entry("a-1")), "spec.flows[1].name", "one of a"),
    ("a retry's name", flow(entry("a", retry={"limit": 1}), entry("a-r1")), "spec.flows[1].name", "one of a"),
    ("no schedule", flow(entry("a"), schedule="often"), "spec.schedule", "often"),
    ("no zone", flow(entry("a"), schedule="@daily", timeZone="Mars/X"), "spec.timeZone", "Mars"),
    ("a zone alone", flow(entry("a"), timeZone="UTC"), "spec.timeZone", "without a schedule"),
    ("a parameter's name", flow(parameters={"a-b": ""}), "spec.parameters[a-b]", "variable"),
    ("an expression", flow(entry("a", **{"if": "1 +"})), "spec.flows[0].if", "expected"),
    ("a bare name", flow(entry("a", **{"if": "x"})), "spec.flows[0].if", "x means nothing"),
    ("unknown parameter", flow(entry("a", **{"if": "${parameters.x}"})), "spec.flows[0].if", "no parameter x"),
    ("a switch", flow(entry("a", switch={"of": "${entries.z.phase}"})), "spec.flows[0].switch.of", "no entry z"),
    (
        "a patch",
        flow(entry("a", patch={"jobSpec": {"tasks": [{"name": "${parameters.x}"}]}})),
        "spec.flows[0].patch.jobSpec",
        "no parameter x",
    ),
    ("a probe", flow({"name": "a", "dependsOn": {"probe": PROBE}}), "spec.flows[0].dependsOn.probe", "targets"),
    ("when nothing", flow(entry("a", when={"phases": ["Failed"]})), "spec.flows[0].when", "targets"),
    ("nothing to fan out over", flow(entry("a", forEach={})), "spec.flows[0].forEach", "one of"),
    ("two at once", flow(entry("a", forEach={"count": 1, "items": []})), "spec.flows[0].forEach", "one of"),
    (
        "too many",
        flow(entry("a", forEach={"parameter": "x"}), parameters={"x": ",".join(["i"] * 1001)}),
        "spec.flows[0].forEach",
        "1001 items",
    ),
    ("of what", flow(entry("a", forEach={"parameter": "x"})), "spec.flows[0].forEach.parameter", "no parameter"),
    ("the schema's own limit", flow(entry("a", forEach={"count": 1001})), "spec.flows[0].forEach.count", "1000"),
)
def test_refused(body: Object, field: str, said: str) -> None:
    found = admission.problems(body, None, Known())
    assert field in [each.field for each in found], found
    assert any(said in each.message for each in found if each.field == field), found


def test_what_was_stored_before_may_be_written_as_long_as_its_spec_stays() -> None:
    body = flow(entry("a", "a"))
    assert admission.problems({**body, "status": {}}, body, Known()) == []
    assert admission.problems(flow(entry("b", "b")), body, Known()) != []
