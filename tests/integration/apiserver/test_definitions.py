"""CustomResourceDefinitions and their schemas, as a real API server judges them."""

from typing import Any

import pytest

from tests.integration.apiserver.client import DEFINITIONS, Api, custom, definition, until
from tests.unit.apiserver.schema_faults import FAULTS
from tests.unit.apiserver.text_formats import EXAMPLES


def test_texts_are_judged_by_their_formats(api: Api) -> None:
    fields = {f"f{number}": example for number, example in enumerate(EXAMPLES)}
    properties = {name: {"type": "string", "format": form} for name, (form, _, _) in fields.items()}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    api.create(DEFINITIONS, definition("texts", schema))
    path = f"/apis/test.penstock.dev/v1/namespaces/{api.namespace}/texts"
    until(lambda: api.get(path).code == 200, "the definition is served")
    fine = {name: text for name, (_, text, fits) in fields.items() if fits}
    api.create(path, custom("Text", "fine", spec=fine))
    answer = api("POST", path, custom("Text", "wrong", spec={name: text for name, (_, text, _) in fields.items()}))
    found = {cause["field"] for cause in answer.body["details"]["causes"]}
    assert found == {f"spec.{name}" for name in fields.keys() - fine.keys()}


@pytest.mark.parametrize(("form", "fields"), FAULTS.values(), ids=FAULTS)
def test_a_schema_is_structural_and_its_defaults_keep_it(api: Api, form: Any, fields: list[str]) -> None:
    answer = api("POST", DEFINITIONS, definition("forms", form), dryRun="All")
    # An old server names the schema that all versions have in common.
    places = ("spec.versions[0].schema.openAPIV3Schema.", "spec.validation.openAPIV3Schema.")
    named = [cause["field"] for cause in answer.body.get("details", {}).get("causes", ())]
    assert {name.removeprefix(places[0]).removeprefix(places[1]) for name in named} == {*fields}, answer.text
    assert answer.code == (422 if fields else 201)
