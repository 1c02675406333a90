"""Validation of a JobFlow."""

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(flow(), id="no entries"),
        pytest.param(flow(entry("a"), entry("b", "a"), jobRetainPolicy="delete"), id="Volcano's own fields"),
        pytest.param(flow({"name": "a", "dependsOn": {"targets": []}}), id="empty targets"),
        pytest.param(flow(entry("a", template="t"), entry("b", template="t")), id="one template twice"),
        pytest.param(flow(entry("a", **{"if": "${parameters.x} == '1'"}), parameters={"x": "1"}), id="a condition"),
        pytest.param(flow(entry("a", forEach={"count": 1000})), id="a thousand items"),
        pytest.param(flow(entry("a"), schedule="@hourly", timeZone="Europe/Berlin"), id="a schedule"),
        pytest.param(flow(entry("a", patch={"jobSpec": {"x": "${HOME} ${item}"}})), id="a shell's own reference"),
        pytest.param(flow(entry("a" * 61)), id="63 characters"),
    ],
)
def test_accepted(body: Object) -> None:
    assert admission.problems(body, None, Known()) == []


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        pytest.param(flow(entry("a", "a")), "spec.flows[0].dependsOn.targets", "depends on itself", id="itself"),
        pytest.param(flow(entry("a", "b")), "spec.flows[0].dependsOn.targets", "no entry b", id="unknown target"),
        pytest.param(flow(entry("a", "c"), entry("b", "a"), entry("c", "b")), "spec.flows", "circle", id="cycle"),
        pytest.param(
            flow(*(entry(name, forEach={"count": 1000}, retry={"limit": 100}) for name in "abc")),
            "spec.flows",
            "3000 entries and items are more than the 2500",
            id="too many Jobs",
        ),
        pytest.param(flow(entry("a"), entry("a")), "spec.flows[0].name", "2 entries", id="a name twice"),
        pytest.param(flow(entry("a" * 62)), "spec.flows[0].name", "64 characters", id="a Job's name too long"),
        pytest.param(
            flow(entry("a" * 60, retry={"limit": 1})),
            "spec.flows[0].name",
            "65 characters",
            id="a retry's name too long",
        ),
        pytest.param(
            flow(entry("a" * 55), schedule="@hourly"), "spec.flows[0].name", "characters", id="a scheduled Job's name"
        ),
        pytest.param(flow(entry("A_b")), "spec.flows[0].name", "no name of a Job", id="no name"),
        pytest.param(
            flow(entry("a", forEach={"count": 2}), entry("a-1")), "spec.flows[1].name", "one of a", id="an item's name"
        ),
        pytest.param(
            flow(entry("a", retry={"limit": 1}), entry("a-r1")), "spec.flows[1].name", "one of a", id="a retry's name"
        ),
        pytest.param(flow(entry("a"), schedule="often"), "spec.schedule", "often", id="no schedule"),
        pytest.param(flow(entry("a"), schedule="@daily", timeZone="Mars/X"), "spec.timeZone", "Mars", id="no zone"),
        pytest.param(flow(entry("a"), timeZone="UTC"), "spec.timeZone", "without a schedule", id="a zone alone"),
        pytest.param(flow(parameters={"a-b": ""}), "spec.parameters[a-b]", "variable", id="a parameter's name"),
        pytest.param(flow(entry("a", **{"if": "1 +"})), "spec.flows[0].if", "expected", id="an expression"),
        pytest.param(flow(entry("a", **{"if": "x"})), "spec.flows[0].if", "x means nothing", id="a bare name"),
        pytest.param(
            flow(entry("a", **{"if": "${parameters.x}"})), "spec.flows[0].if", "no parameter x", id="unknown parameter"
        ),
        pytest.param(
            flow(entry("a", switch={"of": "${entries.z.phase}"})),
            "spec.flows[0].switch.of",
            "no entry z",
            id="a switch",
        ),
        pytest.param(
            flow(entry("a", patch={"jobSpec": {"tasks": [{"name": "${parameters.x}"}]}})),
            "spec.flows[0].patch.jobSpec",
            "no parameter x",
            id="a patch",
        ),
        pytest.param(
            flow({"name": "a", "dependsOn": {"probe": PROBE}}), "spec.flows[0].dependsOn.probe", "targets", id="a probe"
        ),
        pytest.param(flow(entry("a", when={"phases": ["Failed"]})), "spec.flows[0].when", "targets", id="when nothing"),
        pytest.param(flow(entry("a", forEach={})), "spec.flows[0].forEach", "one of", id="nothing to fan out over"),
        pytest.param(
            flow(entry("a", forEach={"count": 1, "items": []})), "spec.flows[0].forEach", "one of", id="two at once"
        ),
        pytest.param(
            flow(entry("a", forEach={"parameter": "x"}), parameters={"x": ",".join(["i"] * 1001)}),
            "spec.flows[0].forEach",
            "1001 items",
            id="too many",
        ),
        pytest.param(
            flow(entry("a", forEach={"parameter": "x"})),
            "spec.flows[0].forEach.parameter",
            "no parameter",
            id="of what",
        ),
        pytest.param(
            flow(entry("a", forEach={"count": 1001})),
            "spec.flows[0].forEach.count",
            "1000",
            id="the schema's own limit",
        ),
    ],
)
def test_refused(body: Object, field: str, said: str) -> None:
    found = admission.problems(body, None, Known())
    assert field in [each.field for each in found], found
    assert any(said in each.message for each in found if each.field == field), found


def test_what_was_stored_before_may_be_written_as_long_as_its_spec_stays() -> None:
    body = flow(entry("a", "a"))
    assert admission.problems({**body, "status": {}}, body, Known()) == []
    assert admission.problems(flow(entry("b", "b")), body, Known()) != []
