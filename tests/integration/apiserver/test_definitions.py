"""CustomResourceDefinitions and their schemas, as a real API server judges them."""

from tests.integration.apiserver.client import DEFINITIONS, Api, custom, definition, until
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
