"""The CustomResourceDefinitions are what the models say, and deploy/crds is what they say."""

import subprocess
import sys

import pytest
import yaml

from tests.support.crd_copies import crd_copies
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from workers.api import crds

FOLDER = ROOT / "deploy" / "crds"


def named(name):
    """The definition of this name."""
    (crd,) = (each for each in crd_copies() if each["metadata"]["name"] == name)
    return crd


def spec_of(name):
    """The fields of the spec of a kind."""
    return schema_of(named(name))["properties"]["spec"]["properties"]


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


@pytest.mark.parametrize("crd", crd_copies(), ids=lambda crd: crd["metadata"]["name"])
def test_every_schema_is_structural(crd):
    """Each node has one type (or is a quantity) and no references; alternatives only say which fields must be there."""
    allowed = {
        *("type", "properties", "items", "additionalProperties", "required", "enum", "description", "format"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"),
        *("anyOf", "default", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"),
    }
    for path, node in walk(schema_of(crd)):
        assert set(node) <= allowed, path
        # A node that keeps everything, such as filePath, may be of any type.
        if "type" in node or "x-kubernetes-preserve-unknown-fields" not in node:
            assert isinstance(node.get("type"), str) != node.get("x-kubernetes-int-or-string", False), path
        assert not ("properties" in node and "additionalProperties" in node), path
        for alternative in node.get("anyOf", ()):
            assert set(alternative) == {"required"}, path
            assert set(alternative["required"]) <= set(node["properties"]), path


def test_a_scaledjob_is_defined_as_keda_defines_it():
    spec = named("scaledjobs.keda.sh")["spec"]
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


def test_a_scheduledjob_shows_what_a_cronjob_shows_and_what_comes_next():
    spec = named("scheduledjobs.penstock.dev")["spec"]
    (version,) = spec["versions"]
    assert (spec["scope"], spec["names"]["shortNames"], spec["names"]["singular"]) == (
        "Namespaced",
        ["schj"],
        "scheduledjob",
    )
    assert version["subresources"] == {"status": {}}
    columns = version["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Schedule", "Zone", "Suspend", "Active", "Last", "Next", "Ready", "Age"]
    assert [column["name"] for column in columns if column.get("priority")] == ["Schedules", "Missed"]


def test_no_two_kinds_share_a_short_name():
    names = [name for crd in crds.all_crds() for name in crd["spec"]["names"].get("shortNames", ())]
    assert len(names) == len(set(names))


@for_each(
    ("scaledjobs.keda.sh", "pollingInterval", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}),
    ("scaledjobs.keda.sh", "minReplicaCount", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}),
    ("scaledjobs.keda.sh", "maxReplicaCount", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}),
    ("scaledjobs.keda.sh", "rolloutStrategy", {"type": "string", "enum": ["gradual", "immediate"]}),
    ("scheduledjobs.penstock.dev", "schedule", {"type": "string", "minLength": 1}),
    (
        "scheduledjobs.penstock.dev",
        "concurrencyPolicy",
        {"type": "string", "enum": ["Allow", "Forbid", "Replace"], "default": "Allow"},
    ),
    ("scheduledjobs.penstock.dev", "suspend", {"type": "boolean", "default": False}),
    ("scheduledjobs.penstock.dev", "suspendUntil", {"type": "string", "minLength": 1, "format": "date-time"}),
    (
        "scheduledjobs.penstock.dev",
        "jitterSeconds",
        {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "default": 0},
    ),
    ("scheduledjobs.penstock.dev", "startingDeadlineSeconds", {"type": "integer", "minimum": 0}),
    ("scheduledjobs.penstock.dev", "successfulJobsHistoryLimit", {"type": "integer", "minimum": 0, "default": 3}),
    ("scheduledjobs.penstock.dev", "failedJobsHistoryLimit", {"type": "integer", "minimum": 0, "default": 1}),
)
def test_limits_and_defaults_are_in_the_schema(kind, field, expected):
    given = spec_of(kind)[field]
    assert {key: value for key, value in given.items() if key != "description"} == expected


@cases(
    ("scaledjob", spec_of("scaledjobs.keda.sh")["jobTargetRef"]),
    ("scheduledjob", spec_of("scheduledjobs.penstock.dev")["jobTemplate"]["properties"]["spec"]),
)
def test_the_jobs_spec_is_kept_as_it_is_and_its_template_required(spec):
    assert spec["required"] == ["template"]
    assert spec["x-kubernetes-preserve-unknown-fields"] is True
    assert spec["properties"]["template"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_objects_without_a_default_of_their_own_stay_away():
    """A filled in `catchUp: {}` would look as if its author had asked for something."""
    assert all("default" not in spec_of("scheduledjobs.penstock.dev")[field] for field in ("catchUp", "exclusions"))
