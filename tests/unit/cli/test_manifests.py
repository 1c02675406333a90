"""The parser of manifests: accepted forms, and error messages."""

import io
from pathlib import Path

import pytest

from deploy.cli import manifests
from tests.support.tables import cases
from workers.errors import UserError

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: crunch}\n"


def read(text: str) -> list[manifests.Manifest]:
    return manifests.read(["-"], stdin=io.StringIO(text))


def test_many_documents_are_read_in_order_and_empty_ones_skipped() -> None:
    found = read(f"---\n{JOB}---\n---\n{JOB.replace('crunch', 'munch')}")
    assert [manifest.name for manifest in found] == ["crunch", "munch"]
    assert found[1].where == "standard input, document 3"


def test_a_list_is_taken_apart() -> None:
    pod = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}'
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{pod}]}}'
    assert [(manifest.kind, manifest.where) for manifest in read(text)] == [("Pod", "standard input, items[0]")]


def test_json_objects_may_follow_one_another() -> None:
    first, second = (f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}}}' for name in "ab")
    for between in ("", "\n", "\r\n\r\n"):
        found = read(f"\ufeff{first}{between}{second}\n")
        assert [(each.name, each.where) for each in found] == [
            ("a", "standard input, document 1"),
            ("b", "standard input, document 2"),
        ]


@cases(
    ("two escapes of one character", r"\ud83d\ude80", "🚀"),
    ("a slash", r"a\/b", "a/b"),
    ("a tab", r"\t", "\t"),
)
def test_json_escapes_are_read(written: str, text: str) -> None:
    (manifest,) = read(f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p", "x": "{written}"}}}}')
    assert manifest.body["metadata"]["x"] == text


def test_yaml_that_begins_like_json_is_yaml() -> None:
    (manifest,) = read("{apiVersion: v1, kind: Pod, metadata: {name: p}, x: .nan}")
    assert manifest.name == "p"


@cases(
    ("a date stays text", "2020-01-01", "2020-01-01"),
    ("colons are no sexagesimal number", "12:30:45", "12:30:45"),
    ("nor a sexagesimal fraction", "190:20:30.15", "190:20:30.15"),
    ("a number is a number", "12", 12),
    ("hexadecimal", "0x1F", 31),
    ("a fraction", "1.5", 1.5),
    ("yes is true, as Kubernetes' parser has it", "yes", True),
    ("null", "~", None),
)
def test_scalars_are_read_as_kubernetes_reads_them(text: str, value: object) -> None:
    (manifest,) = read(f"{JOB}spec: {text}\n")
    assert manifest.body["spec"] == value
    assert type(manifest.body["spec"]) is type(value)


@cases(
    ("not YAML", "a: [", "standard input, line 2: not valid YAML"),
    ("a key twice", "a: 1\na: 2", "standard input, line 2: not valid YAML: key 'a' stands twice"),
    ("a key of JSON twice", '{"a": 1, "a": 2}', "standard input, line 1: not valid YAML: key 'a' stands twice"),
    ("deep JSON", '{"a":' + "[" * 10**5 + "]" * 10**5 + "}", "standard input: nested too deeply"),
    ("a list", "- 1", "not a list"),
    ("a text", "hello", "not a text"),
    ("no apiVersion", "kind: Job", "standard input: apiVersion: a text is required"),
    ("no kind", "apiVersion: v1", "standard input: kind: a text is required"),
    ("kind is no text", "apiVersion: v1\nkind: 3", "standard input: kind: a text is required"),
    ("no metadata", "apiVersion: v1\nkind: Pod", "standard input: Pod: metadata: an object with a name"),
    ("no name", "apiVersion: v1\nkind: Pod\nmetadata: {}", "standard input: Pod: metadata.name: a text"),
    ("generateName", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}", "generateName makes"),
    ("a number as name", "apiVersion: v1\nkind: Pod\nmetadata: {name: 1}", "metadata.name: a text"),
    (
        "labels as a list",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [x]}",
        "standard input: Pod a: metadata.labels: a mapping",
    ),
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert message in str(caught.value)


def test_a_folder_gives_its_yaml_and_json_files_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt", "sub/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(JOB.replace("crunch", name[0] if "/" not in name else "d"))
    assert [manifest.name for manifest in manifests.read([str(tmp_path)])] == ["a", "b"]
    assert [manifest.name for manifest in manifests.read([str(tmp_path)], recursive=True)] == ["a", "b", "d"]


def test_a_url_is_refused_with_what_to_do() -> None:
    with pytest.raises(UserError, match=r"^https://example\.com/a\.yaml: URLs are not fetched; curl"):
        manifests.read(["https://example.com/a.yaml"])


def test_a_dash_is_standard_input() -> None:
    (manifest,) = read(JOB)
    assert manifest.where == "standard input"


@cases(
    ("missing", lambda _: None, "no such file or folder"),
    ("an empty folder", lambda path: path.mkdir(), "no .yaml, .yml, .json files"),
    ("not text", lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read"),
    ("no objects", lambda path: path.write_text("---\n"), "no objects in"),
)
def test_a_source_without_objects_is_an_error_naming_it(make: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "source.yaml"
    make(path)  # type: ignore[operator]
    with pytest.raises(UserError, match=message) as caught:
        manifests.read([str(path)])
    assert str(path) in str(caught.value)
