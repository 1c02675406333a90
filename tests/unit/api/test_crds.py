"""The CustomResourceDefinitions are what the models say, and deploy/crds is what they say."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from workers.api import crds

FOLDER = Path(__file__).parents[3] / "deploy" / "crds"


def schema_of(crd):
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def walk(schema, path=""):
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from walk(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from walk(schema[key], f"{path}[]")


def test_the_folder_holds_exactly_what_the_models_give():
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == crds.files()


def test_the_command_prints_them_as_one_stream_and_writes_them_to_a_folder(tmp_path):
    command = [sys.executable, "-m", "workers.api.crds"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == crds.render()
    assert list(yaml.safe_load_all(printed)) == crds.all_crds()
    subprocess.run([*command, str(tmp_path)], check=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == crds.files()


@pytest.mark.parametrize("crd", crds.all_crds(), ids=lambda crd: crd["metadata"]["name"])
def test_every_schema_is_structural(crd):
    """Each node has one type, no references, no alternatives, and nothing that a structural schema forbids."""
    allowed = {
        *("type", "properties", "items", "additionalProperties", "required", "enum", "description", "format"),
        *("minimum", "maximum", "minLength", "minItems", "x-kubernetes-preserve-unknown-fields"),
    }
    for path, node in walk(schema_of(crd)):
        assert set(node) <= allowed, path
        assert isinstance(node["type"], str), path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_a_scaledjob_is_defined_as_keda_defines_it():
    (crd,) = (each for each in crds.all_crds() if each["metadata"]["name"] == "scaledjobs.keda.sh")
    spec = crd["spec"]
    (version,) = spec["versions"]
    assert (spec["scope"], spec["names"]["shortNames"], spec["names"]["singular"]) == (
        "Namespaced",
        ["sj"],
        "scaledjob",
    )
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        *("Min", "Max", "Ready", "Active", "Paused", "Triggers", "Authentications", "Age")
    ]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("pollingInterval", {"type": "integer", "minimum": 1}),
        ("minReplicaCount", {"type": "integer", "minimum": 0}),
        ("maxReplicaCount", {"type": "integer", "minimum": 1}),
        ("rolloutStrategy", {"type": "string", "enum": ["gradual", "immediate"]}),
    ],
)
def test_limits_are_in_the_schema(field, expected):
    (crd,) = crds.all_crds()
    given = schema_of(crd)["properties"]["spec"]["properties"][field]
    assert {key: value for key, value in given.items() if key != "description"} == expected


def test_the_job_template_is_kept_as_it_is_and_required():
    (crd,) = crds.all_crds()
    target = schema_of(crd)["properties"]["spec"]["properties"]["jobTargetRef"]
    assert target["required"] == ["template"]
    assert target["x-kubernetes-preserve-unknown-fields"] is True
    assert target["properties"]["template"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
